"""One timeline out of many shards: rows merged by record time, with a clock row every second.

Each shard's rows keep their offset order; across shards they are merged by (record timestamp, partition,
offset). A record timestamp that goes back counts as the newest one before it, so a row never waits for a
later one of its own shard. The clock ticks on whole seconds of record time, after all rows before it. In
silence it ticks ever coarser, by a six-hundredth of the silence so far, or a compacted topic that spans weeks
would cost millions of ticks. A pure function of the rows: how they were cut into batches changes nothing.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from rebalance_monitor.decoders import Row
from rebalance_monitor.decoders.rows import made_rows

TICK_MS = 1_000
# Silence is divided in at least this many ticks.
RESOLUTION = 600
# Rows take several times the bytes of their batch: of each shard no more than so many are there at once.
AT_ONCE = 1_024


@dataclass(frozen=True, slots=True)
class Tick:
    """The rows of each shard since the tick before, in offset order, then the clock: `now` in ms."""

    now: int
    rows: dict[int, list[Row]]


@dataclass(slots=True)
class Lane:
    """One shard's rows (batches of ROW_SCHEMA, in offset order) and how far they are taken."""

    shard: int
    batches: Iterator[pa.RecordBatch]
    _pieces: Iterator[pa.RecordBatch] = field(init=False)
    _rows: list[Row] = field(default_factory=list)
    _times: list[int] = field(default_factory=list)
    _at: int = 0
    _newest: int = -1

    def __post_init__(self) -> None:
        self._pieces = chain.from_iterable(map(_pieces, self.batches))

    def head(self) -> int | None:
        """Give the time (ms) at which the next row is due, None at the end."""
        if self._at >= len(self._times) and not self._load():
            return None
        return self._times[self._at]

    def until(self, end: int) -> list[Row]:
        """Take the rows due before `end` (ms)."""
        taken: list[Row] = []
        while (head := self.head()) is not None and head < end:
            stop = bisect_left(self._times, end, self._at)
            taken += self._rows[self._at : stop]
            self._at = stop
        return taken

    def _load(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        stamps = np.maximum.accumulate(piece.column("record_ts").to_numpy())
        self._times = np.maximum(stamps, self._newest).tolist()
        self._rows, self._at, self._newest = list(made_rows(piece)), 0, self._times[-1]
        return True


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(at, AT_ONCE) for at in range(0, batch.num_rows, AT_ONCE))


def timeline(lanes: Iterable[Lane]) -> Iterator[Tick]:
    """Yield the ticks of all lanes until their rows end."""
    open_lanes = {lane.shard: lane for lane in sorted(lanes, key=lambda lane: lane.shard)}
    now: int | None = None
    while heads := _heads(open_lanes):
        due = (min(heads.values()) // TICK_MS + 1) * TICK_MS
        if now is not None:
            yield from (Tick(quiet, {}) for quiet in quiet_ticks(now, due))
        yield Tick(due, {s: open_lanes[s].until(due) for s, head in heads.items() if head < due})
        now = due


def quiet_ticks(after: int, before: int) -> Iterator[int]:
    """Yield the clock's ticks between two ticks with rows, both excluded."""
    now = after + TICK_MS
    while now < before:
        yield now
        now += TICK_MS * max(1, (now - after) // (RESOLUTION * TICK_MS))


def _heads(lanes: dict[int, Lane]) -> dict[int, int]:
    """Give when each lane's next row is due; lanes at their end are forgotten."""
    heads = {shard: lane.head() for shard, lane in lanes.items()}
    for shard, head in heads.items():
        if head is None:
            del lanes[shard]
    return {shard: head for shard, head in heads.items() if head is not None}
