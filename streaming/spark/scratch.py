"""What a job on a local master keeps from others on its machine: what it imports, and its scratch files.

Python puts the current folder on the path of each process that it starts by `-m`, as Spark's workers: a
`pandas.py` in that folder would run in place of pandas. Spark, RocksDB and the libraries that unpack native
code write below `java.io.tmpdir`, some of them in folders that every user can read.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

# CPython knows it since 3.11, the oldest that the monitor runs on.
SAFE_PATH = "PYTHONSAFEPATH"
# For workers that executors elsewhere start.
WORKERS = {f"spark.executorEnv.{SAFE_PATH}": "1"}


def import_from_the_path_alone() -> None:
    """Have each Python that is started from now on, by the JVM too, not import from the current folder."""
    os.environ[SAFE_PATH] = "1"


@cache
def scratch_folder() -> Path:
    """Return this process's folder for Spark's scratch files: mode 0700, deleted when the process ends."""
    folder = tempfile.mkdtemp(prefix="rebalance-monitor-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def scratch_option() -> str:
    """Return the JVM's option for it. Spark's own folder (`spark.local.dir`) is below it by default."""
    return f'"-Djava.io.tmpdir={scratch_folder()}"'
