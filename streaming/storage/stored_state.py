"""The state that Spark keeps in a checkpoint, read back blob by blob, for `checkpoint groups` and `verify`.

Spark 4.0 and newer read a state store as a table (`statestore`); older ones cannot, and are refused by name.
Reads the newest committed version and never writes; a running job, which deletes versions, is not disturbed.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.errors import REBUILD
from rebalance_monitor.checkpoints.state.codec import StateCorruptError, StateVersionError, decode_lane
from rebalance_monitor.checkpoints.state.stored import StoredShard
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.streaming.spark.heap import MORE_HEAP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

FIRST_SPARK = 4
TRIES = 3
NO_BATCH = "STDS_COMMITTED_BATCH_UNAVAILABLE"
"""Spark's own word for a checkpoint without a batch."""


def stored_shards(session: SparkSession, checkpoint: str) -> Iterator[StoredShard]:
    """Yield every coordinator of the newest state, by shard; none before the first batch.

    Raises DependencyError on Spark 3.5, ConfigError where Spark cannot read it.
    """
    if int(version("pyspark").split(".")[0]) < FIRST_SPARK:
        raise DependencyError(
            f"pyspark {version('pyspark')} cannot read a state store.",
            "Use Spark 4.0 or newer for this verb.",
        )
    lanes = _newest(session, checkpoint)
    yield from sorted((found for now, lane in lanes for found in _shards(now, lane)), key=_place)


def _newest(session: SparkSession, checkpoint: str) -> list[tuple[int, bytes]]:
    """Read the newest version: (now, lane) of each key.

    A job that runs deletes a version some batches later. Where that was quicker, a newer one is read.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - comes with pyspark
    from pyspark.errors import PySparkException  # noqa: PLC0415 - heavy, and an optional dependency

    for left in reversed(range(TRIES)):
        try:
            return _read(session, checkpoint)
        except (PySparkException, Py4JJavaError) as error:
            said = str(error)
            if NO_BATCH in said:
                break
            if not left:
                # Py4J's first line says only that something failed.
                why = " ".join(said.split("\n")[:2])
                raise ConfigError(f"The state in {checkpoint} cannot be read: {why}", REBUILD) from error
    return []


def _read(session: SparkSession, checkpoint: str) -> list[tuple[int, bytes]]:
    frame = session.read.format("statestore").load(checkpoint)
    found = frame.select("value.groupState.now", "value.groupState.blob").collect()
    if len(found) < (lanes := frame.count()):
        # PySpark takes it for the end when the JVM runs out of heap while it serves rows.
        raise DependencyError(f"Only {len(found)} of {lanes} lanes of the state could be read.", MORE_HEAP)
    return [(int(now), bytes(lane)) for now, lane in found]


def _shards(now: int, lane: bytes) -> Iterator[StoredShard]:
    try:
        for (shard, bucket), (at, blob) in decode_lane(lane).items():
            yield StoredShard(shard, bucket, at, blob)
    except (StateVersionError, StateCorruptError) as error:
        yield StoredShard(-1, -1, now, lane, str(error))


def _place(found: StoredShard) -> tuple[int, int]:
    return found.shard, found.bucket
