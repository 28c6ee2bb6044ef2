"""What the state's own log of batches says, whichever engine wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.state.changelog import newest_file
from rebalance_monitor.checkpoints.state.spark_log import SparkLog, batches, read_spark_log

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.storage.places import Place


def read_log(folder: Place) -> SparkLog:
    """Return what the folder of a state says; an empty log where it has none. Raises ConfigError, OSError."""
    found = newest_file(folder)
    if found is None:
        return read_spark_log(folder)
    log = found[1]
    return SparkLog(log.newest, log.batch, log.now, {log.topic: log.ends}, log.query)


def batches_kept(folder: Place) -> int:
    """Return how many batches the log still knows."""
    found = newest_file(folder)
    return len(batches(folder)) if found is None else len(found[1].begun) + (found[1].batch >= 0)
