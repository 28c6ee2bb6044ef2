"""The workers' parent: no archive is left for Python to read again, and everything is found without them."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.streaming.spark.daemon import without_archives

if TYPE_CHECKING:
    from pathlib import Path

REMEMBERED = """
import sys, zipimport
from rebalance_monitor.streaming.spark.daemon import leave_archives
leave_archives()
import pyspark.daemon, rebalance_monitor.streaming.query.operator
print(pyspark.__file__)
print([p for p, f in sys.path_importer_cache.items() if isinstance(f, zipimport.zipimporter)])
"""


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, "")
    return path


def test_workers_lose_archives_of_any_name_and_keep_folders(tmp_path: Path) -> None:
    folder = tmp_path / "folder.zip"
    folder.mkdir()
    archives = [str(archive(tmp_path / name, "x.py")) for name in ("pyspark.zip", "spark-core_2.13.jar")]
    path = [*archives, str(folder), *sys.path]
    assert without_archives(path) == [str(folder), *without_archives(sys.path)]


def test_python_forgets_the_archives_that_it_has_looked_into(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    # A jar has a folder `org`, and some package of Python's is looked for in it.
    jar = archive(tmp_path / "spark-core.jar", "rebalance_monitor/streaming/X.class", "org/Y.class")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(jar), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    done = subprocess.run(
        [sys.executable, "-c", REMEMBERED], capture_output=True, text=True, check=True, env=environment
    )
    where, remembered = done.stdout.splitlines()
    assert where.endswith("pyspark/__init__.py")
    assert remembered == "[]"


PREPARED = """
import gc, sys
from rebalance_monitor.streaming.spark.daemon import prepare
prepare()
print("pandas" in sys.modules, gc.get_freeze_count() > 10_000, len(gc.get_objects()) < 1_000)
"""


def test_garbage_collection_in_a_worker_skips_the_libraries_of_a_task() -> None:
    pytest.importorskip("pyspark")
    done = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
