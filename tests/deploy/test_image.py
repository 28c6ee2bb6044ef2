"""The container images, by their Containerfile: every path in it is there, and running fetches nothing.

The images themselves are not built here: that needs a base image. What stands in the build's context is
what git has without what `.dockerignore` leaves out; what stands in an image is what the instructions put
there.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
import yaml

from rebalance_monitor.cluster.jars.ivy import cache_folder
from rebalance_monitor.config.load import load
from rebalance_monitor.streaming.spark.session import GIVES_BACK, RESULT_LIMIT
from tests.deploy.containerfile import IMAGE, runs, stages, variables, whole, words
from tests.deploy.test_kubernetes import configuration, objects
from tools import sbom

ROOT = Path(__file__).resolve().parents[2]
FETCHES = re.compile(r"\b(apt-get|pip|curl|wget|git|resolve)\b|https?://|--packages")
IMAGES = pytest.mark.parametrize("image", ["embedded", "spark"])


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


@IMAGES
def test_every_source_that_is_copied_is_there(image: str) -> None:
    for stage in (image, f"{image}-build"):
        for copy in words(stage, "COPY"):
            (built,) = [re.sub("--from=", "", word) for word in copy if "--from=" in word] or [""]
            for source in sources(copy):
                folder = source.removesuffix("/")
                assert (
                    source in runs(built)
                    if built
                    else folder == "." or any(f"{seen}/".startswith(f"{folder}/") for seen in context())
                ), source


@pytest.mark.parametrize(
    ("image", "read"),
    [
        ("embedded", ["build", "embedded", "tools/sbom.py"]),
        ("spark", ["build", "embedded", "build", "demo", "tools/sbom.py", "deploy/image/connector.py"]),
    ],
)
def test_whatever_the_build_reads_is_in_its_context(image: str, read: list[str]) -> None:
    commands = runs(f"{image}-build")
    found = [*re.findall(r"-r (\S+)", commands), *re.findall(r"python (\S+\.py)", commands)]
    assert [re.sub(r"requirements/(\w+).txt", r"\1", path) for path in found] == read
    # The bill of materials is of what is installed, and lies in what the image copies.
    installed = found[read.index("tools/sbom.py") - 1]
    assert f"{sbom.TARGET.name} /opt/monitor/" in commands
    assert f"tools/sbom.py {installed}" in commands
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    licences = project["project"].get("license-files", [])
    assert {*found, "pyproject.toml", project["project"]["readme"], *licences} <= context()
    setuptools = project["tool"]["setuptools"]
    named = sorted(setuptools["package-dir"].items(), key=lambda item: -len(item[0]))
    for package in setuptools["packages"]:
        part, folder = next(one for one in named if f"{package}.".startswith(f"{one[0]}."))
        folder += package.removeprefix(part).replace(".", "/")
        assert any(seen.startswith(f"{folder}/") for seen in context()), package
        for pattern in setuptools.get("package-data", {}).get(package, ()):
            assert any(fnmatch(seen, f"{folder}/{pattern}") for seen in context()), (package, pattern)


@IMAGES
def test_whatever_the_entry_point_runs_is_in_the_image(image: str) -> None:
    folders = variables(image)["PATH"].split(":")
    ((tini, *_, script),) = [
        [re.sub(r"[\[\],]", "", word) for word in each] for each in words(image, "ENTRYPOINT")
    ]
    assert f" {tini} " in runs(image)
    # Debian's own PATH, which the base image has, names /usr/local/bin.
    assert f"/usr/local/bin/{script}" in [copy[-1] for copy in words(image, "COPY")]
    shown = (IMAGE / "entrypoint.sh").read_text(encoding="utf-8")
    programs = set(re.findall(r"^\s*exec (\S+)", shown, re.MULTILINE))
    assert programs == {'"$SPARK_HOME/bin/spark-submit"', "java", "rebalance-monitor"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "rebalance-monitor" in project["project"]["scripts"]
    assert folders[0] == "/opt/monitor/bin"
    assert shown.startswith("#!/bin/sh\n")


def test_the_image_with_spark_has_java_and_the_pinned_spark() -> None:
    assert "openjdk-17-jre-headless" in runs("spark")
    assert "java" not in runs("embedded")
    assert re.search(r"^pyspark==", (ROOT / "requirements" / "demo.txt").read_text(), re.MULTILINE)
    assert variables("spark")["SPARK_HOME"].startswith("/opt/monitor/lib/")


def test_the_image_without_spark_runs_the_engine_that_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = [name for name in variables("embedded") if name.startswith("REBALANCE_MONITOR_")]
    monkeypatch.setenv(name, variables("embedded")[name])
    (config := tmp_path / "monitor.yaml").write_text("kafka: {bootstrap_servers: 'k:9092'}\n")
    assert load(config).engine == "embedded"


@IMAGES
def test_an_image_runs_as_a_user_without_rights_and_fetches_nothing(image: str) -> None:
    names = [each.name for each in whole(image)]
    ((user,),) = words(image, "USER")
    number = user.partition(":")[0]
    assert int(number) >= 10_000
    assert f"--uid {number}" in runs(image)
    # Whoever runs it may change nothing of what runs, and nothing is installed as that user.
    assert names.index("USER") > max(at for at, name in enumerate(names) if name in {"RUN", "COPY"})
    assert [word for word in words(image, "COPY")[-1] if "chown" in word] == ["--chown=root:root"]
    commands = (IMAGE / "entrypoint.sh").read_text(encoding="utf-8")
    assert FETCHES.search(re.sub(r"^\s*#.*$", "", commands, flags=re.MULTILINE)) is None


def test_the_jars_are_looked_for_where_the_build_has_put_them(monkeypatch: pytest.MonkeyPatch) -> None:
    built, used = variables("spark-build"), variables("spark")
    for name in ("XDG_CACHE_HOME", "SPARK_HOME"):
        assert built[name] == used[name]
    assert words("spark", "COPY")[-1][-2:] == ["/opt/monitor", "/opt/monitor"]
    # The interpreter of the first line makes the folder that SPARK_HOME names.
    pythons = set(re.findall(r"python:([\d.]+)-", " ".join(each[0].words[0] for each in stages().values())))
    assert pythons == set(re.findall(r"/lib/python([\d.]+)/", used["SPARK_HOME"]))
    monkeypatch.setenv("XDG_CACHE_HOME", used["XDG_CACHE_HOME"])
    assert cache_folder().is_relative_to("/opt/monitor")


def test_every_deployment_gives_freed_native_memory_back() -> None:
    """On a local master the session sets it; where a platform starts the JVMs, its files must."""
    roles = ("driver", "executor")
    yarn = (ROOT / "deploy" / "yarn" / "submit.sh").read_text(encoding="utf-8")
    assert f'jvm="{GIVES_BACK} ' in yarn
    for role, environment in (("driver", "yarn.appMasterEnv"), ("executor", "executorEnv")):
        assert f'--conf spark.{role}.extraJavaOptions="$jvm" ' in yarn
        assert f"--conf spark.{environment}.MALLOC_ARENA_MAX=2 " in yarn
    spec = objects("spark-operator")["SparkApplication"]["spec"]
    job = yaml.safe_load((ROOT / "deploy" / "databricks" / "resources" / "job.yml").read_text())
    ((cluster,),) = [one["job_clusters"] for one in job["resources"]["jobs"].values()]
    for conf in (spec["sparkConf"], cluster["new_cluster"]["spark_conf"]):
        assert {conf[f"spark.{role}.extraJavaOptions"] for role in roles} == {GIVES_BACK}
    assert cluster["new_cluster"]["spark_env_vars"]["MALLOC_ARENA_MAX"] == "2"
    for role in roles:
        assert {"name": "MALLOC_ARENA_MAX", "value": "2"} in spec[role]["env"]


def test_the_pods_limit_has_room_for_a_first_start_over_ten_million_records() -> None:
    """Benchmarks: 1.94 GB of JVM with a heap of 1 GB and 1.72 of Python; room is a fifth more."""
    ((container,),) = [objects("spark")["StatefulSet"]["spec"]["template"]["spec"]["containers"]]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) * 2**30
    config = yaml.safe_load(configuration("spark"))
    heap = int(config["spark"]["spark.driver.memory"].removesuffix("g")) * 2**30
    assert limit >= 1.2 * (heap + 0.94e9 + 1.72e9)


def test_the_settings_of_every_deployment_leave_what_a_batch_gives_without_limit() -> None:
    ((name, value),) = RESULT_LIMIT.items()
    yarn = (ROOT / "deploy" / "yarn" / "submit.sh").read_text(encoding="utf-8")
    assert f"--conf {name}={value} " in yarn
    assert objects("spark-operator")["SparkApplication"]["spec"]["sparkConf"][name] == value
    job = yaml.safe_load((ROOT / "deploy" / "databricks" / "resources" / "job.yml").read_text())
    (clusters,) = [one["job_clusters"] for one in job["resources"]["jobs"].values()]
    assert [one["new_cluster"]["spark_conf"][name] for one in clusters] == [value] * len(clusters)
