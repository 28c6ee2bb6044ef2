"""The parent of Spark's Python workers, without zip archives on its path.

Each task of a Python worker invalidates the import caches, which makes every zip archive on the path read its
directory again: up to a quarter of a second of CPU a task. pyspark is installed as a folder beside us, so the
archives that Spark puts on the path are not needed. Set by `spark.python.daemon.module`, for local runs only:
elsewhere the archives are how pyspark gets to the workers.
"""

from __future__ import annotations

import sys
import zipfile
from importlib.util import find_spec


def without_archives(path: list[str]) -> list[str]:
    """Return the entries of `path` that are no zip archives."""
    return [entry for entry in path if not (entry.endswith(".zip") and zipfile.is_zipfile(entry))]


if __name__ == "__main__":
    given = list(sys.path)
    sys.path[:] = without_archives(given)
    if find_spec("pyspark") is None:
        sys.path[:] = given
    from pyspark.daemon import manager

    manager()
