"""One sample of ends against the positions of all groups: what waits, how old it is, and who is to be judged.

Done for many partitions at once, column by column: nothing here visits a partition alone. Most groups have
nothing to be judged; those that may have are named, and only their partitions are looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rebalance_monitor.coordinator.lag.consumed import commit
from rebalance_monitor.coordinator.lag.ends import UNKNOWN
from rebalance_monitor.coordinator.lag.measured import NO_AGE, Compared, Measured
from rebalance_monitor.coordinator.lag.packed.columns import Columns
from rebalance_monitor.coordinator.lag.packed.ends_columns import records
from rebalance_monitor.coordinator.lag.retention import FAR, FOLLOWED, JUMPS, SIZE, follow, nears, skipped
from rebalance_monitor.coordinator.lag.windows import MARKER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.lag.packed.columns import Ints, Mask
    from rebalance_monitor.coordinator.lag.packed.ends_columns import EndsColumns, Numbering, Recent
    from rebalance_monitor.coordinator.lag.packed.places import Packed

PORTION = 65_536
"""Partitions that are compared at once: their columns take some 20 MB."""

FRESH_MS = 8_000
"""Newer positions of a group that commits come within this time."""


@dataclass(frozen=True, slots=True)
class Windows:
    """How long (ms) a window is at least, and for how long lag rises at least before that says something."""

    least_ms: int = 0
    behind_ms: int = 0


@dataclass(slots=True)
class Noticed:
    """Groups of which something may have to be said.

    `suspected`: a window of a partition may be full; `lost`: places of a group of which records were deleted
    unread, and how many; `losing`: groups with such, and those that retention has come nearer to. `followed`:
    partitions of all groups.
    """

    suspected: set[str] = field(default_factory=set)
    lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    losing: set[str] = field(default_factory=set)
    followed: int = 0


def measure(
    groups: Mapping[str, Consumed],
    sample: EndsSample,
    ends: EndsColumns,
    busy: Collection[str],
    windows: Windows,
    blocks: Sequence[Block] = (),
) -> tuple[Noticed, list[Block]]:
    """Give every group its lag at a sample; `busy`: groups that rebalance, whose windows begin anew.

    `blocks`: those of the sample before; those of this one are returned.
    """
    noticed, found = Noticed(), list[Block]()
    names, everyone, at = list(groups), list(groups.values()), sample.at
    for begin, end in _portions(everyone):
        some, own = names[begin:end], everyone[begin:end]
        before = blocks[len(found)] if len(found) < len(blocks) else None
        found.append(before if before is not None and before.holds(own) else Block(own))
        portion = _Portion(found[-1], ends)
        measured = portion.measured(sample)
        for place, consumed in enumerate(own):
            consumed.measured, consumed.made = (measured, place), None
            if measured.known[place]:
                consumed.totals.add(at, measured.records[place])
        paused = np.array([name in busy for name in some], np.bool_) if busy else None
        noticed.suspected.update(some[place] for place in portion.observe(at, paused, windows))
        if ends.earliest is not None:
            lost = portion.compare_first(ends.earliest, sample)
            noticed.lost.update((some[place], places) for place, places in lost.items())
            noticed.losing.update(some[place] for place in lost)
            noticed.losing.update(name for name, one in zip(some, own, strict=True) if one.jumps)
        noticed.followed += portion.size
    return noticed, found


def _portions(groups: Sequence[Consumed]) -> Iterator[tuple[int, int]]:
    """Yield from where to where groups are measured together."""
    begin = count = 0
    for end, size in enumerate([one.places.layout.size for one in groups], 1):
        count += size
        if count >= PORTION:
            yield begin, end
            begin, count = end, 0
    if begin < len(groups):
        yield begin, len(groups)


class Block:
    """Groups whose windows lie end to end: in the same columns for as long as groups and partitions stay."""

    __slots__ = ("begins", "groups", "sizes", "windows")

    def __init__(self, groups: Sequence[Consumed]) -> None:
        self.groups = groups
        self.sizes = np.array([one.places.layout.size for one in groups], np.int64)
        self.begins: list[int] = [0, *np.cumsum(self.sizes).tolist()]
        self.windows = Columns.gathered([(one.windows, one.begin) for one in groups], self.sizes)
        for one, begin in zip(groups, self.begins, strict=False):
            one.windows, one.begin = self.windows, begin

    def holds(self, groups: Sequence[Consumed]) -> bool:
        """Whether these are its groups still, each with the partitions that it had."""
        return groups == self.groups and all(one.windows is self.windows for one in groups)


class _Portion:
    """The partitions of a block at one sample."""

    def __init__(self, block: Block, ends: EndsColumns) -> None:
        self._block, self._groups, self._sizes = block, block.groups, block.sizes
        self._columns = ends
        self._borders = np.array(block.begins, np.int64)
        self._places = [one.places for one in self._groups]
        self._offset, self._committed, self._rows = _laid_out(self._places, ends.numbering)
        self._transactional = [place for place, one in enumerate(self._groups) if one.asked.transactional]
        self._as_of = self._times(ends.asked_at)
        self._ends, self._waiting = ends.lag(
            self._rows, self._offset, self._committed, np.repeat(self._as_of, self._sizes)
        )

    @property
    def size(self) -> int:
        """Return how many partitions there are."""
        return int(self._borders[-1])

    def _times(self, asked_at: int) -> Ints:
        """Return the time (ms) of which positions and ends are compared, by group: see `as_of`."""
        published = np.array([one.published for one in self._groups], np.int64)
        is_fresh = (published >= asked_at - FRESH_MS) & (published <= asked_at)
        found = np.where(is_fresh, published, asked_at)
        for place in self._transactional:
            found[place] = as_of(self._groups[place], asked_at)
        return found

    def measured(self, sample: EndsSample) -> Measured:
        """Return the lag of each group."""
        ends = self._ends.tobytes()
        aged = _Aged(ends, self._places, self._sizes, self._as_of, sample.asked_at, self._columns.recent())
        compared = Compared(sample, ends, aged)
        is_unknown = self._waiting == UNKNOWN
        unknown = self._sums(is_unknown)
        waiting = self._sums(np.where(is_unknown, 0, self._waiting))
        return Measured(
            compared,
            self._places,
            [one.totals for one in self._groups],
            frozenset(self._transactional),
            waiting.tolist(),
            unknown.tolist(),
            (self._sizes - unknown).tolist(),
            self._as_of.tolist(),
            self._block.begins,
        )

    def observe(self, at: int, paused: Mask | None, windows: Windows) -> list[int]:
        """Let the windows take the lag at a sample of `at` (ms); returns which groups are suspected."""
        columns = self._block.windows
        commit(columns, self._groups)
        if paused is not None and paused.any():
            columns.pause(np.repeat(paused, self._sizes))
        columns.observe(self._waiting, at)
        return self._which(columns.suspected(at, windows.least_ms, windows.behind_ms))

    def compare_first(self, earliest: Ints, sample: EndsSample) -> dict[int, list[tuple[int, int]]]:
        """Take first offsets; returns by group the places whose records were deleted unread, and how many."""
        begins, at, groups = earliest[self._rows], sample.at, self._groups
        kept = np.frombuffer(b"".join([one.kept for one in groups]), np.bool_)
        before = nears([one.near or FAR * one.places.layout.size for one in groups])
        # A commit that is newer than the answer may be of records that were there then.
        is_answered = (begins >= 0) & (self._committed <= sample.asked_at)
        gap = self._offset - begins
        unread = np.maximum(np.where(kept, -gap, 0), skipped(before, self._offset, begins, at))
        # A single offset may be a transaction's marker.
        lost: dict[int, list[tuple[int, int]]] = {}
        for row in np.flatnonzero(is_answered & (unread > MARKER)).tolist():
            which, place = self._at(row)
            lost.setdefault(which, []).append((place, int(unread[row])))
        now = np.where(is_answered, gap >= -MARKER, kept).tobytes()
        near = (begins >= 0) & (gap >= 0) & (gap < FOLLOWED * self._waiting)
        after, goes_on = follow(before, near, self._offset, begins, at)
        bodies, borders, some = after.tobytes(), self._block.begins, set(self._which(near))
        for which, one in enumerate(groups):
            begin, end = borders[which], borders[which + 1]
            if one.kept != (own := now[begin:end]):
                one.kept[:] = own
            one.near = bodies[begin * SIZE : end * SIZE] if which in some else b""
            if one.jumps:
                one.jumps = {place: had for place, had in one.jumps.items() if goes_on[begin + place]}
        for row in np.flatnonzero(goes_on & (begins > before["begin"])).tolist():
            which, place = self._at(row)
            jump = at, int(gap[row]), int(self._offset[row])
            jumps = groups[which].jumps
            jumps[place] = (*jumps.get(place, ()), jump)[-JUMPS:]
        return lost

    def _at(self, row: int) -> tuple[int, int]:
        """Return which group a row is of, and the place there."""
        which = int(np.searchsorted(self._borders, row, "right")) - 1
        return which, row - self._block.begins[which]

    def _sums(self, values: Ints | Mask) -> Ints:
        """Return the sum of each group's values."""
        passed = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
        sums: Ints = passed[self._borders[1:]] - passed[self._borders[:-1]]
        return sums

    def _which(self, marked: Mask) -> list[int]:
        """Return the groups that have a partition which is marked."""
        rows = np.flatnonzero(marked)
        found: list[int] = np.unique(np.searchsorted(self._borders, rows, "right") - 1).tolist()
        return found


@dataclass(frozen=True, slots=True)
class _Aged:
    """What gives the ages of a portion: most are never read, and they are a third of the work.

    Nothing that has a number a partition is held for it, but for what is held anyway.
    """

    ends: bytes
    places: Sequence[Packed]
    sizes: Ints
    as_of: Ints
    asked_at: int
    recent: Recent

    def __call__(self) -> tuple[bytes, list[int]]:
        """Return the age of each partition, and the most of each group, as `Compared` has them."""
        offset, committed, rows = _laid_out(self.places, self.recent.numbering)
        waiting = records(offset, committed, np.frombuffer(self.ends, np.int64), self.asked_at)
        ages = np.where(waiting == UNKNOWN, UNKNOWN, 0)
        old = np.flatnonzero(waiting > 0)
        now = np.maximum(np.repeat(self.as_of, self.sizes)[old], committed[old])
        ages[old] = self.recent.ages(rows[old], offset[old], now)
        borders = np.concatenate(([0], np.cumsum(self.sizes)))
        most = np.full(len(self.sizes), UNKNOWN, np.int64)
        some = np.flatnonzero(self.sizes)
        if len(some):
            most[some] = np.maximum.reduceat(ages, borders[some])
        kept = np.where(ages == UNKNOWN, NO_AGE, np.minimum(ages, NO_AGE - 1))
        return kept.astype(np.uint32).tobytes(), most.tolist()


def _laid_out(places: Sequence[Packed], numbering: Numbering) -> tuple[Ints, Ints, Ints]:
    """Return offsets, times of commits (ms) and rows of the partitions, end to end."""
    values = np.frombuffer(b"".join([one.body for one in places]), np.int64).reshape(-1, 2)
    rows = np.frombuffer(b"".join([numbering.of(one.layout) for one in places]), np.int64)
    return values[:, 0].copy(), values[:, 1].copy(), rows


def as_of(consumed: Consumed, asked_at: int) -> int:
    """Return the time (ms) of which positions and ends are compared, where ends were asked for at `asked_at`.

    A group that goes on committing publishes its positions every few seconds: to compare old positions with
    new ends would show records as waiting that were read long ago. One that has published nothing for longer
    has committed nothing. The same holds of answers, which come every half a minute.
    """
    if consumed.asked.transactional:
        answered = consumed.asked.answered
        return answered if consumed.last_commit > answered else max(answered, asked_at)
    return consumed.published if asked_at - FRESH_MS <= consumed.published <= asked_at else asked_at
