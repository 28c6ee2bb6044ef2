"""What `foreachBatch` calls with each micro-batch: the output is collected, required whole, and applied.

One action on the operator's output, and only one: a second would run the state function again, and a cached
frame would cost more than it saves. PySpark's `collect` takes a socket that closes for the end of the data;
so every lane ends with a marker (`rows/handover.py`), and a batch without all of them fails and runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from rebalance_monitor.engine.batch.batches import BatchKey, read_batch
from rebalance_monitor.engine.memory import uncollected
from rebalance_monitor.streaming.rows.handover import unpacked

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from rebalance_monitor.engine.driver.writer import BatchWriter
    from rebalance_monitor.streaming.rows.lanes import Lanes


def collecting(writer: BatchWriter, lanes: Lanes) -> Callable[[DataFrame, int], None]:
    """Return the function for `foreachBatch` of a query with these lanes. It raises IncompleteBatchError."""

    def write(frame: DataFrame, batch_id: int) -> None:
        key = BatchKey(writer.awaited(), batch_id)
        # Every log line on the way, of sinks too, names its batch.
        with uncollected(), structlog.contextvars.bound_contextvars(batch=batch_id):
            # Spark's rows are tuples.
            handed: list[Any] = frame.collect()
            rows = unpacked(handed, lanes)
            handed.clear()
            writer.apply(key, read_batch(rows))

    return write
