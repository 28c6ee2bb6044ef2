"""Packs: the rows of a decoded batch, one blob for each lane, as they cross the shuffle.

Spark moves, sorts and copies row by row, and hands each key its rows as ten pandas columns. A pack is one row
with two columns, so all of that is paid for a handful of packs and not for thousands of rows. A pack is one
Arrow record batch in its IPC form, without the schema, which both ends know. The empty pack is the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rebalance_monitor.decoders import ROW_SCHEMA
from rebalance_monitor.decoders.rows import made_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.decoders import Row
    from rebalance_monitor.streaming.lanes import Lanes

PACK_SCHEMA = pa.schema(
    [pa.field("lane", pa.int32(), nullable=False), pa.field("rows", pa.binary(), nullable=False)]
)
PACK_DDL = "lane int, rows binary"
CLOCK = b""
# Spark copies a row several times on its way: a pack stays small beside the heap. One row may be larger.
PACK_BYTES = 4 << 20


def packed(rows: pa.RecordBatch, lanes: Lanes) -> pa.RecordBatch:
    """Return the packs (`PACK_SCHEMA`) of a batch of rows (`ROW_SCHEMA`), the rows of each lane in order."""
    keys, blobs = [], []
    for key, share in _shares(rows, lanes):
        for piece in _pieces(share):
            keys.append(key)
            blobs.append(piece.serialize().to_pybytes())
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.int32()), pa.array(blobs, pa.binary())], schema=PACK_SCHEMA
    )


def unpacked(pack: bytes) -> Iterator[Row]:
    """Yield the rows of a pack; none for the clock's."""
    if pack == CLOCK:
        return iter(())
    batch = pa.ipc.read_record_batch(pa.py_buffer(pack), ROW_SCHEMA)
    # Through numpy: values of Python's own, made in C.
    return made_rows(column.to_numpy(zero_copy_only=False).tolist() for column in batch.columns)


def _shares(rows: pa.RecordBatch, lanes: Lanes) -> Iterator[tuple[int, pa.RecordBatch]]:
    keys = lanes.keys
    if lanes.count == 1:
        yield keys[0], rows
        return
    lane = lanes.lane(rows.column("shard").to_numpy(), rows.column("bucket").to_numpy())
    for number in np.unique(lane).tolist():
        yield keys[number], rows.take(pa.array(np.flatnonzero(lane == number)))


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if rows.nbytes <= PACK_BYTES or rows.num_rows <= 1:
        if rows.num_rows:
            yield rows
        return
    half = rows.num_rows // 2
    yield from _pieces(rows.slice(0, half))
    yield from _pieces(rows.slice(half))
