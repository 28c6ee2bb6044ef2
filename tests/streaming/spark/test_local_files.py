"""Hadoop's local files without a process for each: when the class is used, and that it only does that."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.streaming.spark.local_files import (
    CLASS,
    CLASS_PATH,
    FOLDER,
    IMPLEMENTATION,
    local_files,
)
from rebalance_monitor.streaming.spark.session import session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = FOLDER / f"{CLASS.replace('.', '/')}.java"
MODES = (0o644, 0o600, 0o750, 0o777, 0o400, 0o1777)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[4,2]"])
def test_a_job_in_one_jvm_uses_the_class(master: str) -> None:
    found = session_settings({"spark.master": master}, [], {})
    assert (found[IMPLEMENTATION], found[CLASS_PATH]) == (CLASS, str(FOLDER))


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "yarn", "spark://a:7077", "k8s://https://a"])
def test_executors_elsewhere_use_what_hadoop_has(master: str) -> None:
    assert IMPLEMENTATION not in session_settings({"spark.master": master}, [], {})


def test_a_platform_uses_what_it_has() -> None:
    for environment in ({"PYSPARK_GATEWAY_PORT": "1"}, {"DATABRICKS_RUNTIME_VERSION": "17.3"}):
        assert IMPLEMENTATION not in session_settings({}, [], environment)


def test_another_file_system_for_local_files_is_kept() -> None:
    given = {"spark.master": "local[2]", IMPLEMENTATION: "a.B"}
    assert local_files(given) == given


def test_a_configured_class_path_follows_ours() -> None:
    found = local_files({"spark.master": "local", CLASS_PATH: "/a:/b/*"})
    assert found[CLASS_PATH].split(os.pathsep) == [str(FOLDER), "/a", "/b/*"]


@pytest.mark.spark
def test_all_but_the_way_to_permissions_is_hadoops(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    conf = spark._jsc.hadoopConfiguration()
    hadoop = jvm.org.apache.hadoop.fs
    root = jvm.java.net.URI("file:///")
    ours, own = hadoop.FileSystem.get(root, conf), hadoop.LocalFileSystem()
    own.initialize(root, conf)
    assert ours.getClass().getName() == CLASS
    seen = [_written(jvm, files, tmp_path / name) for files, name in ((ours, "ours"), (own, "own"))]
    assert seen[0] == seen[1]
    assert {"plain", ".plain.crc"} < set(seen[0])


def _written(jvm: Any, files: Any, folder: Path) -> dict[str, tuple[int, bytes]]:  # noqa: ANN401 - of a JVM
    """Return file -> mode and content of what a file system writes: one file as it likes, then each mode."""
    path, permission = jvm.org.apache.hadoop.fs.Path, jvm.org.apache.hadoop.fs.permission.FsPermission
    folder.mkdir()
    for name in ("plain", *map(str, MODES)):
        stream = files.create(path(str(folder / name)))
        stream.write(bytes(range(256)))
        stream.close()
    for mode in MODES:
        files.setPermission(path(str(folder / str(mode))), permission(f"{mode:o}"))
    assert files.mkdirs(path(str(folder / "below")), permission("700"))
    return {
        file.name: (file.stat().st_mode, file.read_bytes() if file.is_file() else b"")
        for file in folder.iterdir()
    }


@pytest.mark.slow
def test_the_class_is_made_of_its_source(tmp_path: Path) -> None:
    """Its bytes are those of JDK 17's compiler."""
    java, found = find_java(), find_spec("pyspark")
    if java.major != 17 or not java.is_jdk or found is None or found.origin is None:
        pytest.skip("needs a JDK 17 and pyspark")
    jars = Path(found.origin).with_name("jars") / "*"
    command = [java.executable.with_name("javac"), "-g:none", "-cp", jars, "-d", tmp_path, SOURCE]
    subprocess.run(command, check=True)
    made = {path.name: path.read_bytes() for path in (tmp_path / "rebalance_monitor").iterdir()}
    assert made == {path.name: path.read_bytes() for path in SOURCE.parent.glob("*.class")}
