"""The parent of Spark's Python workers, without zip archives on its path.

Each task of a Python worker invalidates the import caches. Then Python reads the directory of every archive
on its path again: 0.1 to 0.3 s of CPU a task. Spark puts three archives on the path, one of them its core jar
with thousands of classes. pyspark is installed as a folder here, so none is needed. Set by
`spark.python.daemon.module`, for local runs only: elsewhere the archives bring pyspark to the workers.

Workers also collect cyclic garbage more rarely: the coordinator leaves hardly any, and each collection walks
through the rows that were just read. pyspark itself collects after every task, through every object of every
imported library, which takes 40 ms. Libraries that are imported here, before the workers are forked, are
excluded from that (`gc.freeze`).
"""

from __future__ import annotations

import gc
import sys
import zipfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

NEEDED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "rebalance_monitor.streaming.query.decode",
    "rebalance_monitor.streaming.query.operator",
)
COLLECT_AFTER = 50_000
"""New objects between two collections of cyclic garbage; Python's default is 700."""


def without_archives(path: list[str]) -> list[str]:
    """Return the entries of `path` that are no zip archives, whatever their names end in."""
    return [entry for entry in path if not (Path(entry).is_file() and zipfile.is_zipfile(entry))]


def leave_archives() -> None:
    """Take archives off Python's path and out of its memory, unless pyspark lies in one."""
    given = list(sys.path)
    sys.path[:] = without_archives(given)
    if find_spec("pyspark") is None:
        sys.path[:] = given
        return
    # Python has asked each of them, and folders in them, for this module, and would go on asking.
    for archive in set(given) - set(sys.path):
        for known in list(sys.path_importer_cache):
            if Path(known).is_relative_to(archive):
                del sys.path_importer_cache[known]


def prepare() -> None:
    """Import what the tasks need, and freeze it for the garbage collector."""
    for name in NEEDED:
        import_module(name)
    gc.set_threshold(COLLECT_AFTER)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    leave_archives()
    prepare()
    from pyspark.daemon import manager

    manager()
