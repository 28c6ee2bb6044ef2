"""What is built and installed: nothing outside rebalance_monitor/, every module and data file inside it."""

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import release

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
PARTS = sorted(path.parent.name for path in ROOT.glob("*/py.typed"))
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
INDEX_ADDRESS = re.compile(r"https?://|--index-url|--extra-index-url|--find-links|--trusted-host")


def tracked(*patterns: str) -> set[str]:
    """Return the files of the parts that git knows, or would add, so that build leftovers do not count."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in done.stdout.splitlines() if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist and the wheel, built without network from a clean copy of the tree."""
    source = tmp_path_factory.mktemp("source")
    names = tracked(*PARTS, "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


def wheel_of(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


def test_the_wheel_holds_every_file_of_the_parts_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(wheel_of(built)) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert names - metadata == {f"rebalance_monitor/{name}" for name in tracked(*PARTS)}
    assert any(name.endswith("licenses/LICENSE") for name in metadata)


def test_the_wheel_of_the_sdist_is_the_same(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked(*PARTS) <= names


def test_an_installed_wheel_runs_and_puts_nothing_elsewhere(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "v", with_pip=True, symlinks=True)
    (site,) = (tmp_path / "v").glob("lib/python3*/site-packages")
    before = {path.name for path in site.iterdir()}
    python = tmp_path / "v" / "bin" / "python"

    pip = [str(python), "-m", "pip", "install", "--no-deps", "--no-index", str(wheel_of(built))]
    subprocess.run(pip, check=True, capture_output=True, cwd=tmp_path, timeout=120)

    added = {path.name for path in site.iterdir()} - before
    metadata = {name for name in added if name.endswith(".dist-info")}
    assert added - metadata == {"rebalance_monitor"}

    click = Path(sys.modules["pytest"].__file__ or "").parents[1]
    code = (
        f"import sys; sys.path.append({str(click)!r})\n"
        "from rebalance_monitor.cli import main; print(main.__file__)\n"
        "sys.exit(main.run(['--version']))\n"
    )
    command = [str(python), "-I", "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, timeout=180)
    module, version = done.stdout.splitlines()
    assert Path(module).is_relative_to(site)
    assert version == f"rebalance-monitor, version {PROJECT['project']['version']}"


def test_every_folder_with_modules_is_a_listed_package() -> None:
    modules = {Path(name).parent for name in tracked(*PARTS) if name.endswith(".py")}
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted("rebalance_monitor." + ".".join(folder.parts) for folder in modules)


def test_every_part_maps_to_its_folder() -> None:
    mapped = PROJECT["tool"]["setuptools"]["package-dir"]
    assert mapped == {f"rebalance_monitor.{part}": part for part in PARTS}


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda file: file.name)
def test_requirements_are_pinned_by_hash_and_name_no_index(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert INDEX_ADDRESS.search(text) is None
    entries = re.split(r"(?<!\\)\n", text.strip())
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+ ", entry), entry
        assert "--hash=sha256:" in entry


def pins(name: str) -> dict[str, list[str]]:
    """Return the pinned versions by name; one library may have one version per Python."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for library, version in re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE):
        found.setdefault(library, []).append(version)
    return found


def hashes(name: str) -> dict[str, set[str]]:
    """Return the hashes of each pinned version."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^([a-z0-9._-]+==\S+)((?:.*\\\n)*.*)", text, re.MULTILINE)
    return {pin: set(re.findall(r"--hash=sha256:(\w+)", rest)) for pin, rest in entries}


@pytest.mark.parametrize(
    ("part", "whole"), [("build", "embedded"), ("embedded", "demo"), ("demo", "quality"), ("quality", "test")]
)
def test_what_is_shipped_and_what_is_tested_are_the_same_files(part: str, whole: str) -> None:
    assert pins(part).items() <= pins(whole).items()
    assert hashes(part).items() <= hashes(whole).items()
    assert pins(whole).get("pyspark", ["4.0.5"]) == ["4.0.5"]


def test_an_install_with_audits_has_great_expectations_and_one_without_has_not() -> None:
    added = pins("quality").keys() - pins("demo").keys()
    # The demo runs Spark, which needs pandas too.
    own = {Requirement(text).name for text in EXTRAS["quality"]} - {"pandas"}
    assert own
    assert own <= added


def needed(declared: list[str]) -> dict[str, list[Requirement]]:
    """Return by name what these need on this Python, and what that needs, as installed packages say."""
    found: dict[str, list[Requirement]] = {}
    todo = [(Requirement(text), "") for text in declared]
    while todo:
        wanted, extra = todo.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        if wanted in found.setdefault(name, []):
            continue
        found[name].append(wanted)
        todo += [
            (Requirement(text), extra) for text in requires(name) or () for extra in (wanted.extras or {""})
        ]
    return found


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("embedded", ("objects",)),
        ("demo", ("spark", "lab", "objects")),
        ("quality", ("spark", "lab", "objects", "quality")),
    ],
)
def test_whatever_a_shipped_package_needs_is_pinned_beside_it(name: str, extras: tuple[str, ...]) -> None:
    """`pip --require-hashes` refuses a file that leaves out what something in it needs."""
    pinned = pins(name)
    declared = [*PROJECT["project"]["dependencies"], *(text for extra in extras for text in EXTRAS[extra])]
    for library, wanted in needed(declared).items():
        for version in pinned[library]:
            for one in wanted:
                assert one.specifier.contains(version), f"{one}, but {version} is pinned: run make lock"


@pytest.mark.parametrize("name", ["Makefile", "deploy/image/Containerfile", "deploy/yarn/pack.sh"])
def test_whatever_is_installed_here_is_checked_by_hash_or_our_own(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    installs = re.findall(r"pip install ([^&\n]*)", text)
    assert installs
    for words in installs:
        assert "--require-hashes" in words or {"--no-deps", "--no-build-isolation"} <= set(words.split()), (
            words
        )


def test_every_requirements_file_is_written_by_the_same_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^lock:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert sorted(re.findall(r"-o requirements/(\S+)", recipe)) == [file.name for file in REQUIREMENTS]


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("demo", [*PROJECT["project"]["dependencies"], *EXTRAS["spark"], *EXTRAS["lab"]]),
        ("embedded", PROJECT["project"]["dependencies"]),
        ("quality", [*PROJECT["project"]["dependencies"], *EXTRAS["quality"]]),
        ("test", [*EXTRAS["quality"], *PROJECT["dependency-groups"]["dev"]]),
        ("build", PROJECT["build-system"]["requires"]),
        ("audit", ["pip-audit"]),
    ],
)
def test_what_is_declared_is_pinned_within_its_range(name: str, declared: list[str]) -> None:
    pinned = pins(name)
    for text in declared:
        wanted = Requirement(text)
        for version in pinned[canonicalize_name(wanted.name)]:
            assert wanted.specifier.contains(version), f"{text} is pinned to {version}: run make lock"


def test_an_index_takes_the_metadata_and_renders_the_readme(built: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_release_names_its_repository_and_has_no_link_that_only_a_clone_can_follow() -> None:
    address, text = "https://git.example/team/monitor", (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", release.absolute_links(readme, address, "v1.2.3"))
    assert targets
    for target in targets:
        page = target.removeprefix(f"{address}/blob/v1.2.3/").partition("#")[0]
        assert target.startswith("#") or page != target, target
        assert target.startswith("#") or (ROOT / page).exists(), target
    project = tomllib.loads(release.with_addresses(text, address))["project"]
    assert set(project) - set(PROJECT["project"]) == {"urls"}
    assert all(page.startswith(address) for page in project["urls"].values())


def test_only_the_tag_of_a_version_with_its_changes_is_released() -> None:
    text, version = (ROOT / "pyproject.toml").read_text(encoding="utf-8"), PROJECT["project"]["version"]
    assert release.mismatch(text, f"\n## [{version}] - 2026-11-25", f"v{version}") is None
    assert "tag" in (release.mismatch(text, f"\n## [{version}]", f"v{version}0") or "")
    assert "CHANGELOG" in (release.mismatch(text, "\n## [Unreleased]", f"v{version}") or "")


def test_no_file_holds_the_marks_of_a_merge_that_was_not_finished() -> None:
    marks = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    assert not [name for name in tracked() if marks.search((ROOT / name).read_bytes())]
