"""Classifies a failed query: try again, give up, or refuse; and names the disk that is full.

An error of Spark holds its plan, a stack and somewhere the words of the system; what failed may be a state
store, the checkpoint's log, a table or the ledger. A disk without room says so in the same words everywhere.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rebalance_monitor.checkpoints.errors import MAKE_ROOM
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.engine.health.notices import ERROR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FAILURES = 5
# Errors inside Spark that no next try mends: a state of a newer version, storage that another has taken.
LASTING = ("StateVersionError", "FolderInUseError", "FolderGoneError", "HandoverLimitError", "UnpackError")
NO_ROOM = ("No space left on device", "Disk quota exceeded")
DENIED = "Not authorized to access group"
NO_GROUP = "Spark's source may not look its own group up."
GRANT_GROUP = "Grant Describe on groups with the prefix rebalance-monitor."
WORKER_GONE = "Python worker exited unexpectedly"
NO_WORKER = "A Python worker of Spark was killed or crashed; the system kills one where memory is short."
MORE_MEMORY = (
    "Give the machine or container more memory, or Spark's JVM less (`spark.driver.memory`); nothing is lost."
)
# What an error holds -> what it means, and what to do.
KNOWN = {DENIED: (NO_GROUP, GRANT_GROUP), WORKER_GONE: (NO_WORKER, MORE_MEMORY)}
MB = 1024 * 1024
# A disk with more than this is not the one that was full.
LITTLE = 16 * MB


class JobError(DependencyError):
    """The query failed again and again: brokers, disk or cluster; the message holds its last error."""


def classify_failure(error: Exception, failures: int, where: Iterable[str]) -> dict[str, str]:
    """Return what to log about a failure, the `failures`th in a row; `where`: folders that the job fills.

    Raises ConfigError where another attempt cannot help, JobError after too many attempts.
    """
    text = str(error)
    for lasting in LASTING:
        if lasting in text:
            raise ConfigError(last_line(text, lasting))
    full = full_disk(where) if any(words in text for words in NO_ROOM) else ""
    why, remedy = next((known for words, known in KNOWN.items() if words in text), ("", ""))
    if failures >= FAILURES:
        what = f"The query failed {failures} times in a row. "
        if full:
            raise JobError(what + full, MAKE_ROOM)
        raise JobError(what + why, remedy) if why else JobError(f"{what}The last error: {text[:ERROR]}")
    if full:
        why, remedy = full, "make room there; nothing is lost"
    said = {"error": text[:ERROR]}
    return {"why": why, "remedy": remedy, **said} if why else said


def full_disk(where: Iterable[str]) -> str:
    """Say in one sentence which disk of these folders is full; other URIs and what is not there have none."""
    disks = []
    for folder in map(_path, where):
        with suppress(OSError):
            usage = shutil.disk_usage(folder)
            disks.append((usage.free, usage.total, folder))
    free, total, folder = min(disks, default=(0, 0, ""))
    if not disks or free > LITTLE:
        return (
            "A disk is full or a quota used up: an executor's, or that of the folder which the error names."
        )
    return f"The disk of {folder} is full: {free / MB:,.0f} of {total / MB:,.0f} MB are free."


def _path(folder: str) -> str:
    """Return the path of a `file:` URI, anything else as it is."""
    return unquote(urlsplit(folder).path) if folder.startswith("file:") else folder


def scratch(spark: Mapping[str, str]) -> str:
    """Return the folder where Spark on this machine puts what it needs while it runs."""
    return spark.get("spark.local.dir", tempfile.gettempdir()).partition(",")[0]


def last_line(text: str, word: str) -> str:
    """Return what stands behind `word` in the last line that has it: a Python error inside Spark's."""
    line = [line for line in text.splitlines() if word in line][-1]
    return line.partition(word)[2].strip(": ")
