"""Hadoop's local file system without a process for each new file.

Hadoop gives a new file its permissions by its native library, which Spark's jars do not hold, else by a
`chmod`: four for a file and its checksum. A class of ours, in `hadoop/`, does it by a call of the system; all
else is Hadoop's. Executors elsewhere do not have the class, so it is for masters that run all in one JVM.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).with_name("hadoop")
CLASS = "rebalance_monitor.LocalFiles"
IMPLEMENTATION, CLASS_PATH = "spark.hadoop.fs.file.impl", "spark.driver.extraClassPath"
ONE_JVM = re.compile(r"local(\[.*\])?")


def local_files(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` with our class for local files, unchanged where another is set or it cannot be found.

    A class path cannot hold a folder whose name has a colon.
    """
    master = settings.get("spark.master", "").strip()
    if IMPLEMENTATION in settings or not ONE_JVM.fullmatch(master) or os.pathsep in str(FOLDER):
        return dict(settings)
    paths = filter(None, (str(FOLDER), settings.get(CLASS_PATH)))
    return {**settings, IMPLEMENTATION: CLASS, CLASS_PATH: os.pathsep.join(paths)}
