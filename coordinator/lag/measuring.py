"""One sample of ends against the positions of all groups: what waits, how old it is, and who is to be judged.

Done for many partitions at once, column by column: nothing here visits a partition alone. Most groups have
nothing to be judged; those that may have are named, and only their partitions are looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rebalance_monitor.coordinator.lag.consumed import settle
from rebalance_monitor.coordinator.lag.ends import UNKNOWN
from rebalance_monitor.coordinator.lag.measured import NO_AGE, Compared, GroupLag, Source, Topics
from rebalance_monitor.coordinator.lag.packed.columns import Columns
from rebalance_monitor.coordinator.lag.retention import FOLLOWED
from rebalance_monitor.coordinator.lag.windows import MARKER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.lag.packed.columns import Ints, Mask
    from rebalance_monitor.coordinator.lag.packed.ends_columns import EndsColumns

    Named: TypeAlias = tuple[str, Consumed]

PORTION = 65_536
"""Partitions that are compared at once: their columns take some 20 MB."""

FRESH_MS = 8_000
"""Newer positions of a group that commits come within this time."""


@dataclass(frozen=True, slots=True)
class Windows:
    """How long (ms) a window is at least, and for how long lag rises at least before that says something."""

    least_ms: int = 0
    behind_ms: int = 0


@dataclass(frozen=True, slots=True)
class Noticed:
    """Groups of which something may have to be said.

    `suspected`: a window of a partition may be full; `losing`: the first offset of a partition is beyond its
    position, or nearer to it than the end is.
    """

    suspected: set[str] = field(default_factory=set)
    losing: set[str] = field(default_factory=set)


def measure(
    groups: Mapping[str, Consumed],
    sample: EndsSample,
    ends: EndsColumns,
    busy: Collection[str],
    windows: Windows,
) -> Noticed:
    """Give every group its lag at a sample; `busy`: groups that rebalance, whose windows begin anew."""
    noticed = Noticed()
    for some in _portions(groups.items()):
        settle([one for _, one in some])
        portion = _Portion(some, ends)
        for place, lag in enumerate(portion.lags(sample)):
            consumed = some[place][1]
            consumed.lag = lag
            if lag.records is not None:
                consumed.totals.add(sample.at, lag.records)
        paused = np.array([name in busy for name, _ in some], np.bool_)
        suspected = portion.observe(sample.at, paused, windows)
        noticed.suspected.update(some[place][0] for place in suspected)
        noticed.losing.update(some[place][0] for place in portion.losing(sample.asked_at))
    return noticed


def _portions(groups: Iterable[Named]) -> Iterator[list[Named]]:
    some: list[Named] = []
    count = 0
    for name, consumed in groups:
        some.append((name, consumed))
        count += len(consumed.places)
        if count >= PORTION:
            yield some
            some, count = [], 0
    if some:
        yield some


class _Portion:
    """Groups whose partitions lie end to end in columns."""

    def __init__(self, some: list[Named], ends: EndsColumns) -> None:
        self._groups = [consumed for _, consumed in some]
        self._columns = ends
        places = [one.places for one in self._groups]
        self._sizes = np.array([len(one) for one in places], np.int64)
        self._borders = np.concatenate(([0], np.cumsum(self._sizes)))
        values = np.frombuffer(b"".join([one.body for one in places]), np.int64).reshape(-1, 2)
        self._offset, self._committed = values[:, 0].copy(), values[:, 1].copy()
        numbering = ends.numbering
        self._rows = np.frombuffer(b"".join([numbering.of(one.layout) for one in places]), np.int64)
        self._as_of = np.array([as_of(one, ends.asked_at) for one in self._groups], np.int64)
        self._ends, self._waiting, self._ages = ends.lag(
            self._rows, self._offset, self._committed, np.repeat(self._as_of, self._sizes)
        )

    def lags(self, sample: EndsSample) -> Iterator[GroupLag]:
        """Yield the lag of each group."""
        ages = np.where(self._ages == UNKNOWN, NO_AGE, np.minimum(self._ages, NO_AGE - 1))
        compared = Compared(sample, self._ends.tobytes(), ages.astype(np.uint32).tobytes())
        is_unknown = self._waiting == UNKNOWN
        unknown = self._sums(is_unknown)
        records = self._sums(np.where(is_unknown, 0, self._waiting))
        found = zip(
            self._groups,
            records.tolist(),
            self._most(self._ages).tolist(),
            unknown.tolist(),
            (self._sizes - unknown).tolist(),
            self._as_of.tolist(),
            self._borders.tolist(),
            strict=False,
        )
        at, asked_at, topic, brokers = sample.at, sample.asked_at, Source.TOPIC, Source.BROKERS
        for one, waiting, age, lacking, known, when, first in found:
            yield GroupLag(
                at,
                waiting if known else None,
                None if age == UNKNOWN else age,
                lacking,
                Topics(one.places, compared, first),
                when,
                brokers if one.asked.transactional else topic,
                one.totals,
                asked_at,
            )

    def observe(self, at: int, paused: Mask, windows: Windows) -> list[int]:
        """Let the windows take the lag at a sample of `at` (ms); returns which groups are suspected."""
        columns = Columns(one.windows for one in self._groups)
        if paused.any():
            columns.pause(np.repeat(paused, self._sizes))
        columns.observe(self._waiting, at)
        bodies = columns.packed()
        ends = list(accumulate(len(one.windows) for one in self._groups))
        for one, begin, end in zip(self._groups, [0, *ends], ends, strict=False):
            one.windows = bodies[begin:end]
        return self._which(columns.suspected(at, windows.least_ms, windows.behind_ms))

    def losing(self, asked_at: int) -> list[int]:
        """Return which groups lose records, or may soon; what the others have kept is noted."""
        if self._columns.earliest is None:
            return []
        begins = self._columns.earliest[self._rows]
        kept = np.frombuffer(b"".join([one.kept for one in self._groups]), np.bool_)
        # A commit that is newer than the answer may be of records that were there then.
        is_answered = (begins >= 0) & (self._committed <= asked_at)
        gap = self._offset - begins
        # A single offset may be a transaction's marker.
        lost = is_answered & kept & (gap < -MARKER)
        near = (begins >= 0) & (gap >= 0) & (gap < FOLLOWED * self._waiting)
        found = self._which(lost | near)
        now = np.where(is_answered, gap >= -MARKER, kept).tobytes()
        losing, borders = set(found), self._borders.tolist()
        for place, one in enumerate(self._groups):
            if place not in losing and one.kept != (own := now[borders[place] : borders[place + 1]]):
                one.kept[:] = own
        return found

    def _sums(self, values: Ints | Mask) -> Ints:
        """Return the sum of each group's values."""
        passed = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
        sums: Ints = passed[self._borders[1:]] - passed[self._borders[:-1]]
        return sums

    def _most(self, values: Ints) -> Ints:
        """Return the largest of each group's values, UNKNOWN of one without partitions."""
        most = np.full(len(self._groups), UNKNOWN, np.int64)
        some = np.flatnonzero(self._sizes)
        if len(some):
            most[some] = np.maximum.reduceat(values, self._borders[some])
        return most

    def _which(self, marked: Mask) -> list[int]:
        """Return the groups that have a partition which is marked."""
        rows = np.flatnonzero(marked)
        found: list[int] = np.unique(np.searchsorted(self._borders, rows, "right") - 1).tolist()
        return found


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
