"""The decode stage: Arrow batches of records in, Arrow batches of rows out (decoders/rows.py).

Runs in Spark's Python workers, without side effects. `decode_batch` never raises: what cannot be read travels
as a failure row.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rebalance_monitor.decoders import ROW_SCHEMA, decode_batch, pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

_SPARK_TYPES = {"int32": "int", "int64": "long", "string": "string", "binary": "binary"}
ROW_DDL = ", ".join(f"`{field.name}` {_SPARK_TYPES[str(field.type)]}" for field in ROW_SCHEMA)


def decode_batches(batches: Iterable[pa.RecordBatch], buckets: int) -> Iterator[pa.RecordBatch]:
    """Decode each batch by itself, in pieces that Arrow can hold; runs are cut at the borders."""
    return (decode_batch(part, buckets) for batch in batches for part in pieces(batch))


def decoded(records: DataFrame, buckets: int) -> DataFrame:
    """Return the rows of a frame with the Kafka source's columns."""
    return records.mapInArrow(partial(decode_batches, buckets=buckets), ROW_DDL)
