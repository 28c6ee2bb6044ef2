"""Packs: the rows of a decoded batch, one blob for each lane, as they cross the shuffle.

Spark moves, sorts and copies row by row, and hands each key its rows as ten pandas columns. A pack is one row
with two columns, so all of that is paid for a handful of packs and not for thousands of rows. A pack is one
Arrow record batch in its IPC form, without the schema, which both ends know. The empty pack is the clock.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rebalance_monitor.decoders import ROW_SCHEMA
from rebalance_monitor.decoders.rows import made_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rebalance_monitor.decoders import Row
    from rebalance_monitor.streaming.rows.lanes import Lanes

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


class Unpacked:
    """The rows of a lane's packs, by coordinator: shard and bucket.

    Rows take several times the bytes of their pack. So the rows of a coordinator are made on demand: in a
    batch with a long history, only one coordinator's rows are in memory at a time.

    ticks: whether the clock's pack is among them. newest: time (ms) of the newest record, -1 for none.
    """

    def __init__(self, packs: Iterable[bytes]) -> None:
        self.ticks = False
        self.newest = -1
        self._parts: defaultdict[tuple[int, int], list[pa.RecordBatch]] = defaultdict(list)
        for pack in packs:
            if pack == CLOCK:
                self.ticks = True
            else:
                self._add(pa.ipc.read_record_batch(pa.py_buffer(pack), ROW_SCHEMA))

    @property
    def places(self) -> set[tuple[int, int]]:
        """The coordinators that have rows."""
        return set(self._parts)

    def rows(self, place: tuple[int, int]) -> Iterator[Row]:
        """Yield the rows of one coordinator, each pack in order."""
        return chain.from_iterable(map(made_rows, self._parts.get(place, ())))

    def _add(self, rows: pa.RecordBatch) -> None:
        place = _column(rows, "shard").astype(np.int64) << 32 | _column(rows, "bucket")
        if np.any(place[1:] < place[:-1]):
            order = np.argsort(place, kind="stable")
            rows, place = rows.take(pa.array(order)), place[order]
        found, begins = np.unique(place, return_index=True)
        ends = [*begins[1:].tolist(), len(place)]
        for at, begin, end in zip(found.tolist(), begins.tolist(), ends, strict=True):
            self._parts[at >> 32, at & 0xFFFF_FFFF].append(rows.slice(begin, end - begin))
        self.newest = max(self.newest, int(_column(rows, "record_ts").max()))


def _column(rows: pa.RecordBatch, name: str) -> np.ndarray:
    values: np.ndarray = rows.column(name).to_numpy()
    return values


def _shares(rows: pa.RecordBatch, lanes: Lanes) -> Iterator[tuple[int, pa.RecordBatch]]:
    keys = lanes.keys
    if lanes.count == 1:
        yield keys[0], rows
        return
    lane = lanes.lane(_column(rows, "shard"), _column(rows, "bucket"))
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
