"""The container image, by its Dockerfile: every path that it names is there, and running it fetches nothing.

The image itself is not built here: that needs a daemon. What stands in the build's context is what git has
without what `.dockerignore` leaves out; what stands in the image is what the instructions put there.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

from rebalance_monitor.cluster.jars.ivy import cache_folder
from rebalance_monitor.streaming.spark.session import GIVES_BACK, RESULT_LIMIT
from tools import sbom

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
FETCHES = re.compile(r"\b(apt-get|pip|curl|wget|git|resolve)\b|https?://|--packages")


class Instruction(NamedTuple):
    """One instruction of the Dockerfile and the stage (from 0) that it belongs to."""

    stage: int
    name: str
    words: list[str]


@cache
def instructions() -> list[Instruction]:
    text = (KUBERNETES / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found: list[Instruction] = []
    for line in filter(str.strip, text.splitlines()):
        name, _, rest = line.partition(" ")
        stage = -1 if not found else found[-1].stage
        found.append(Instruction(stage + (name == "FROM"), name, shlex.split(rest.replace("[", " ["))))
    return found


def of(name: str, stage: int) -> list[list[str]]:
    return [each.words for each in instructions() if (each.name, each.stage) == (name, stage)]


@cache
def context() -> frozenset[str]:
    """The files that the build can see."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    left_out = [line for line in lines if line and not line.startswith("#")]

    def is_seen(path: str) -> bool:
        folders = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)]
        return not any(fnmatch(folder, rule.removeprefix("**/")) for folder in folders for rule in left_out)

    return frozenset(filter(is_seen, listed.stdout.splitlines()))


def sources(copy: list[str]) -> list[str]:
    return [word for word in copy if not word.startswith("--")][:-1]


def variables(stage: int) -> dict[str, str]:
    pairs = (word.partition("=") for words in of("ENV", stage) for word in words)
    return {name: value for name, _, value in pairs}


def test_every_source_that_is_copied_is_in_the_builds_context() -> None:
    copied = [each for each in instructions() if each.name == "COPY"]
    assert len(copied) == 4
    for _stage, _name, words in copied:
        from_stage = [word for word in words if word.startswith("--from=")]
        for source in sources(words):
            if from_stage:
                assert any(source in " ".join(run) for run in of("RUN", 0)), source
            else:
                whole = source.removesuffix("/")
                assert whole == "." or any(f"{seen}/".startswith(f"{whole}/") for seen in context()), source


def test_whatever_the_build_reads_is_in_its_context() -> None:
    runs = " ".join(word for words in of("RUN", 0) for word in words)
    ((argument, _, default),) = [word.partition("=") for (word,) in of("ARG", 0)]
    runs = runs.replace(f"${argument}", default)
    read = [*re.findall(r"-r (\S+)", runs), *re.findall(r"python (\S+\.py)", runs)]
    assert read == [
        *("requirements/build.txt", "requirements/demo.txt"),
        *("tools/sbom.py", "deploy/kubernetes/connector.py"),
    ]
    # The bill of materials (test_audits.py: of what is installed) lies in what the second stage copies.
    assert f"mv {sbom.TARGET.relative_to(ROOT)} {of('COPY', 1)[0][-1]}/" in runs
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    licences = project["project"].get("license-files", [])
    assert {*read, "pyproject.toml", project["project"]["readme"], *licences} <= context()
    setuptools = project["tool"]["setuptools"]
    named = sorted(setuptools["package-dir"].items(), key=lambda item: -len(item[0]))
    for package in setuptools["packages"]:
        part, folder = next(one for one in named if f"{package}.".startswith(f"{one[0]}."))
        folder += package.removeprefix(part).replace(".", "/")
        assert any(seen.startswith(f"{folder}/") for seen in context()), package
        for pattern in setuptools.get("package-data", {}).get(package, ()):
            assert any(fnmatch(seen, f"{folder}/{pattern}") for seen in context()), (package, pattern)


def test_whatever_the_entry_point_runs_is_in_the_image() -> None:
    path = variables(1)["PATH"].partition(":")[0]
    installed = " ".join(word for words in of("RUN", 1) for word in words)
    (entry,) = of("ENTRYPOINT", 1)
    tini, *_, script = [re.sub(r"[\[\],]", "", word) for word in entry]
    assert f" {tini} " in installed
    assert f"{path}/{script}" in [copy[-1] for copy in of("COPY", 1)]
    shown = (KUBERNETES / "entrypoint.sh").read_text(encoding="utf-8")
    programs = set(re.findall(r"^\s*exec (\S+)", shown, re.MULTILINE))
    assert programs == {'"$SPARK_HOME/bin/spark-submit"', "java", "rebalance-monitor"}
    # Java by Debian; the monitor's own command and Spark by the environment that the first stage makes.
    assert "openjdk-17-jre-headless" in installed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "rebalance-monitor" in project["project"]["scripts"]
    assert re.search(r"^pyspark==", (ROOT / "requirements" / "demo.txt").read_text(), re.MULTILINE)
    assert variables(1)["SPARK_HOME"].startswith("/opt/monitor/lib/")
    assert path == "/opt/monitor/bin"
    # #!/bin/sh, and every variable that it needs of the image is set there.
    assert shown.startswith("#!/bin/sh\n")
    assert "SPARK_HOME" in variables(1)


def test_the_image_runs_as_a_user_without_rights_and_fetches_nothing() -> None:
    names = [each.name for each in instructions() if each.stage == 1]
    (user,) = of("USER", 1)
    number = user[0].partition(":")[0]
    assert int(number) >= 10_000
    assert f"--uid {number}" in " ".join(word for words in of("RUN", 1) for word in words)
    # Whoever runs it may change nothing of what runs, and nothing is installed as that user.
    assert names.index("USER") > max(at for at, name in enumerate(names) if name in {"RUN", "COPY"})
    assert "--chown=root:root" in of("COPY", 1)[0]
    commands = (KUBERNETES / "entrypoint.sh").read_text(encoding="utf-8")
    assert FETCHES.search(re.sub(r"^\s*#.*$", "", commands, flags=re.MULTILINE)) is None


def test_the_jars_are_looked_for_where_the_build_has_put_them(monkeypatch: pytest.MonkeyPatch) -> None:
    built, runs = variables(0), variables(1)
    for name in ("XDG_CACHE_HOME", "SPARK_HOME"):
        assert built[name] == runs[name]
    assert of("COPY", 1)[0][-2:] == ["/opt/monitor", "/opt/monitor"]
    # The interpreter of the first line makes the folder that SPARK_HOME names.
    pythons = {re.findall(r"python:([\d.]+)-", base[0])[0] for stage in (0, 1) for base in of("FROM", stage)}
    assert pythons == set(re.findall(r"/lib/python([\d.]+)/", runs["SPARK_HOME"]))
    monkeypatch.setenv("XDG_CACHE_HOME", runs["XDG_CACHE_HOME"])
    assert cache_folder().is_relative_to("/opt/monitor")


def test_every_deployment_gives_freed_native_memory_back() -> None:
    """On a local master the session sets it; where a platform starts the JVMs, its files must."""
    roles = ("driver", "executor")
    yarn = (ROOT / "deploy" / "yarn" / "submit.sh").read_text(encoding="utf-8")
    assert f'jvm="{GIVES_BACK} ' in yarn
    for role, environment in (("driver", "yarn.appMasterEnv"), ("executor", "executorEnv")):
        assert f'--conf spark.{role}.extraJavaOptions="$jvm" ' in yarn
        assert f"--conf spark.{environment}.MALLOC_ARENA_MAX=2 " in yarn
    spec = yaml.safe_load((KUBERNETES / "spark-operator" / "sparkapplication.yaml").read_text())["spec"]
    job = yaml.safe_load((ROOT / "deploy" / "databricks" / "resources" / "job.yml").read_text())
    ((cluster,),) = [one["job_clusters"] for one in job["resources"]["jobs"].values()]
    for conf in (spec["sparkConf"], cluster["new_cluster"]["spark_conf"]):
        assert {conf[f"spark.{role}.extraJavaOptions"] for role in roles} == {GIVES_BACK}
    assert cluster["new_cluster"]["spark_env_vars"]["MALLOC_ARENA_MAX"] == "2"
    for role in roles:
        assert {"name": "MALLOC_ARENA_MAX", "value": "2"} in spec[role]["env"]


def test_the_pods_limit_has_room_for_a_first_start_over_ten_million_records() -> None:
    """docs/benchmarks.md: 1.94 GB of JVM with a heap of 1 GB and 1.72 of Python; room is a fifth more."""
    (state,) = yaml.safe_load_all((KUBERNETES / "base" / "statefulset.yaml").read_text())
    ((container,),) = [state["spec"]["template"]["spec"]["containers"]]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) * 2**30
    config = yaml.safe_load((KUBERNETES / "base" / "monitor.yaml").read_text())
    heap = int(config["spark"]["spark.driver.memory"].removesuffix("g")) * 2**30
    assert limit >= 1.2 * (heap + 0.94e9 + 1.72e9)


def test_the_settings_of_every_deployment_leave_what_a_batch_gives_without_limit() -> None:
    ((name, value),) = RESULT_LIMIT.items()
    yarn = (ROOT / "deploy" / "yarn" / "submit.sh").read_text(encoding="utf-8")
    assert f"--conf {name}={value} " in yarn
    application = yaml.safe_load((KUBERNETES / "spark-operator" / "sparkapplication.yaml").read_text())
    assert application["spec"]["sparkConf"][name] == value
    job = yaml.safe_load((ROOT / "deploy" / "databricks" / "resources" / "job.yml").read_text())
    (clusters,) = [one["job_clusters"] for one in job["resources"]["jobs"].values()]
    assert [one["new_cluster"]["spark_conf"][name] for one in clusters] == [value] * len(clusters)
