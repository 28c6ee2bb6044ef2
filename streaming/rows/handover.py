"""What a lane hands over to the driver: its output rows in packs, then an end marker with their number.

PySpark's `collect` takes the end of a socket for the end of the data. When the JVM runs out of heap while it
serves rows, the serving thread dies, the socket closes, and what has come until then looks like a whole
batch. So every lane ends with a marker, and the driver accepts a batch only if each marker is there and the
packs hold as many rows as it says.

A pack is an Arrow stream of rows, compressed: findings are JSON text that shrinks to about a tenth, and the
JVM holds several copies of whatever passes through it. What one batch hands over is bounded by a share of
that heap. Beyond it the operator refuses with a sentence, because a heap that is full has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from rebalance_monitor.engine.batch.step import OutRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rebalance_monitor.streaming.rows.lanes import Lanes

HANDOVER_DDL = "lane int, rows int, pack binary"
END = b""
"""The pack of an end marker."""
OUT_SCHEMA = pa.schema(
    [("row_kind", pa.string()), ("shard", pa.int32()), ("group", pa.string()), ("body", pa.large_string())]
)
# A pack is cut at so many rows, or once its rows have so many characters. One row may have more.
PACK_ROWS, PACK_CHARS = 10_000, 16 << 20
# The JVM holds about four copies of what is collected (task result, block, row, pickle) beside its own.
HEAP_SHARE = 8
SHOWN = 8
MB = 1 << 20
MORE_ROOM = (
    "Raise `spark.driver.memory`; or cut history into batches by `source.max_offsets_per_trigger` and start "
    "once with --rebuild-state; or list fewer members by `detection.summary_members`."
)
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


class IncompleteBatchError(Exception):
    """A batch reached the driver without all that its lanes gave. It must run again."""


class HandoverLimitError(Exception):
    """A lane has more to hand over in one batch than the driver's heap is sure to hold."""


class Handed(NamedTuple):
    """A row of HANDOVER_DDL: a pack of so many rows, or the end marker with the number of all."""

    lane: int
    rows: int
    pack: bytes


class Handover:
    """Packs the rows of one lane in one batch. limit: bytes of all its packs together, None for no limit."""

    def __init__(self, lane: int, limit: int | None = None) -> None:
        self._lane = lane
        self._limit = limit
        self._waiting: list[OutRow] = []
        self._chars = 0
        self._rows = 0
        self._bytes = 0

    def add(self, rows: Iterable[OutRow]) -> Iterator[Handed]:
        """Take rows; yield the packs that are full. Raises HandoverLimitError."""
        for row in rows:
            self._waiting.append(row)
            self._chars += len(row.group) + len(row.body)
            if len(self._waiting) >= PACK_ROWS or self._chars >= PACK_CHARS:
                yield self._cut()

    def end(self) -> Iterator[Handed]:
        """Yield what is left, then the end marker. Raises HandoverLimitError."""
        if self._waiting:
            yield self._cut()
        yield Handed(self._lane, self._rows, END)

    def _cut(self) -> Handed:
        rows, self._waiting, self._chars = self._waiting, [], 0
        pack = _pack(rows)
        self._rows += len(rows)
        self._bytes += len(pack)
        if self._limit is not None and self._bytes > self._limit:
            raise HandoverLimitError(
                f"A lane has more than {self._limit / MB:,.1f} MB (compressed) to hand over in one batch, "
                f"{self._rows:,} rows so far. {MORE_ROOM}"
            )
        return Handed(self._lane, len(rows), pack)


def unpacked(handed: Iterable[tuple[int, int, bytes]], lanes: Lanes) -> list[OutRow]:
    """Return the rows of a whole batch, each lane in order. Raises IncompleteBatchError.

    `handed`: the rows of HANDOVER_DDL as `collect` gave them, in any order of lanes.
    """
    found = [Handed(lane, rows, bytes(pack)) for lane, rows, pack in handed]
    _require_whole(found, lanes)
    return [row for one in found if one.pack for row in _rows(one.pack)]


def lane_limit(heap_bytes: int, lanes: Lanes) -> int:
    """Return how many bytes of packs each lane may hand over to a JVM with such a heap."""
    return heap_bytes // HEAP_SHARE // lanes.count


def _require_whole(handed: Sequence[Handed], lanes: Lanes) -> None:
    came: dict[int, int] = dict.fromkeys(lanes.keys, 0)
    ends: dict[int, list[int]] = {key: [] for key in lanes.keys}
    for one in handed:
        if one.lane not in came:
            raise IncompleteBatchError(
                f"lane {one.lane} handed something over, which this state does not have"
            )
        if one.pack:
            came[one.lane] += one.rows
        else:
            ends[one.lane].append(one.rows)
    wrong = [
        _wrong(number, came[key], ends[key], lanes)
        for number, key in enumerate(lanes.keys)
        if ends[key] != [came[key]]
    ]
    if wrong:
        raise IncompleteBatchError("; ".join(wrong[:SHOWN]))


def _wrong(number: int, came: int, ends: Sequence[int], lanes: Lanes) -> str:
    shards = sorted({shard for shard, _ in lanes.members(number)})
    some = ", ".join(map(str, shards[:SHOWN])) + (", …" if len(shards) > SHOWN else "")
    said = " and ".join(f"{end:,}" for end in ends) or "no end marker"
    return f"lane {number} (partitions {some}): {came:,} rows came, the lane gave {said}"


def _pack(rows: Sequence[OutRow]) -> bytes:
    columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), OUT_SCHEMA, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, OUT_SCHEMA, options=_OPTIONS) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=OUT_SCHEMA))
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _rows(pack: bytes) -> Iterator[OutRow]:
    with pa.ipc.open_stream(pa.py_buffer(pack)) as stream:
        for batch in stream:
            yield from map(OutRow, *(column.to_pylist() for column in batch.columns))
