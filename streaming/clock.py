"""The clock: one row per micro-batch for every state key, so that silence is noticed without any record.

Spark's own timeouts would start a second Python task for each partition in every batch; a row from the
`rate-micro-batch` source costs nothing and makes a batch run at every trigger. The row carries no time: `now`
is the batch's own timestamp, which Spark records, so a batch that runs again has the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.decoders.rows import clock_row

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def clock_rows(session: SparkSession, shards: int, buckets: int) -> DataFrame:
    """Return a streaming frame that gives each of the `shards` x `buckets` keys one clock row a batch."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - heavy, and an optional dependency

    keys = [_as_struct(shard, bucket) for shard in range(shards) for bucket in range(buckets)]
    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    one = ticks.option("numPartitions", 1).load()
    return one.select(f.explode(f.array(*keys)).alias("row")).select("row.*")


def _as_struct(shard: int, bucket: int) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415

    from rebalance_monitor.streaming.decode import ROW_DDL  # noqa: PLC0415

    row = clock_row(shard, bucket)
    types = dict(entry.replace("`", "").split(" ") for entry in ROW_DDL.split(", "))
    return f.struct(*(f.lit(getattr(row, name)).cast(kind).alias(name) for name, kind in types.items()))
