"""The parent of Spark's Python workers, without zip archives on its path.

Each task of a Python worker invalidates the import caches, which makes every archive that Python has ever
looked into read its directory again: some 0.1 to 0.3 s of CPU a task. Spark puts three on the path, its own
core jar with its thousands of classes among them. pyspark is installed as a folder beside us, so none is
needed. Set by `spark.python.daemon.module`, for local runs only: elsewhere the archives are how pyspark gets
to the workers. They also look for cyclic garbage more rarely: the coordinator leaves next to none, and each
look walks through what it has just read. pyspark has them look after every task all the same, through every
object of every library that a task needs, some 40 ms: what is imported here, before they are forked, is
passed over (`gc.freeze`).
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
"""Objects made since the last look for cyclic garbage; Python's own is 700."""


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
