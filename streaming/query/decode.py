"""The decode stage: Arrow batches of records in, packs of rows out (decoders/rows.py, packing).

Runs in Spark's Python workers, without side effects. `decode_batch` never raises: what cannot be read travels
as a failure row.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rebalance_monitor.decoders import decode_batch, pieces
from rebalance_monitor.engine.memory import settle
from rebalance_monitor.streaming.rows.packing import PACK_DDL, packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from rebalance_monitor.streaming.rows.lanes import Lanes


def decode_batches(batches: Iterable[pa.RecordBatch], lanes: Lanes) -> Iterator[pa.RecordBatch]:
    """Decode each batch by itself, in pieces that Arrow can hold; runs are cut at the borders."""
    settle()
    for batch in batches:
        for part in pieces(batch):
            yield packed(decode_batch(part, lanes.buckets), lanes)


def decoded(records: DataFrame, lanes: Lanes) -> DataFrame:
    """Return the packs of a frame with the Kafka source's columns."""
    return records.mapInArrow(partial(decode_batches, lanes=lanes), PACK_DDL)
