"""The clock: one empty pack per micro-batch for every lane, so that silence is noticed without any record.

Spark's own timeouts would start a second Python task for each partition in every batch; a row from the
`rate-micro-batch` source costs nothing and makes a batch run at every trigger. The row carries no time: `now`
is the batch's own timestamp, which Spark records, so a batch that runs again has the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.streaming.rows.packing import CLOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rebalance_monitor.streaming.rows.lanes import Lanes


def clock_rows(session: SparkSession, lanes: Lanes) -> DataFrame:
    """Return a streaming frame that gives each lane one empty pack a batch."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - heavy, and an optional dependency

    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    one = ticks.option("numPartitions", 1).load()
    keys = f.array(*(f.lit(key).cast("int") for key in lanes.keys))
    return one.select(f.explode(keys).alias("lane"), f.lit(CLOCK).alias("rows"))
