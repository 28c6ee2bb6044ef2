"""The ends of all topics at one sample as columns, and the recent ones: what positions are compared with.

Each partition of a topic has a row; the last row stands for all that no broker answered. Which rows the
partitions of a group have is remembered with their layout, for as long as topics keep their partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from rebalance_monitor.coordinator.lag.arithmetic import SKEW_MS
from rebalance_monitor.coordinator.lag.ends import UNKNOWN

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Mapping, Sequence

    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.lag.packed.columns import Ints, Mask
    from rebalance_monitor.coordinator.lag.packed.layout import Layout
    from rebalance_monitor.coordinator.lag.packed.recent_ends import TopicEnds

Floats: TypeAlias = npt.NDArray[np.float64]


class Numbering:
    """The row of each topic's first partition, and how many it has."""

    __slots__ = ("counts", "first", "rows", "topics")

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.topics, self.counts = tuple(counts), tuple(counts.values())
        begins = np.cumsum([0, *self.counts])
        self.first = dict(zip(self.topics, begins.tolist(), strict=False))
        self.rows = int(begins[-1])

    def of(self, layout: Layout) -> bytes:
        """Return the rows of a group's partitions, 64 bits each."""
        if layout.rows[0] is not self:
            layout.rows = self, self._rows(layout)
        return layout.rows[1]

    def _rows(self, layout: Layout) -> bytes:
        found = np.full(layout.size, self.rows, np.int64)
        sizes = dict(zip(self.topics, self.counts, strict=True))
        for topic, start, numbers in layout.spans():
            own = np.asarray(numbers, np.int64)
            rows = own + self.first.get(topic, 0)
            # A forged record may name a partition below 0.
            rows[(own < 0) | (own >= sizes.get(topic, 0))] = self.rows
            found[start : start + len(own)] = rows
        return found.tobytes()


def numbering_of(sample: EndsSample, before: Numbering | None) -> Numbering:
    """Return the numbering of a sample: the same object where topics and partitions are the same."""
    counts = {topic: len(ends) for topic, ends in sample.latest.items()}
    if before is not None and (before.topics, before.counts) == (tuple(counts), tuple(counts.values())):
        return before
    return Numbering(counts)


class EndsColumns:
    """One sample: `latest` and `earliest` by row. `known`: the recent ends of each of its topics."""

    def __init__(self, sample: EndsSample, numbering: Numbering, known: Mapping[str, TopicEnds]) -> None:
        self.asked_at, self.at = sample.asked_at, sample.at
        self.numbering = numbering
        self.latest = self._column(sample.latest)
        self.earliest = self._column(sample.earliest) if sample.earliest else None
        self._known = [known[topic] for topic in numbering.topics]
        self._recent = self.recent()

    def recent(self) -> Recent:
        """Return the recent ends as they are now, which go on."""
        return Recent(self.numbering, [(list(one.at), list(one.rows)) for one in self._known])

    def lag(self, rows: Ints, offset: Ints, committed: Ints, as_of: Ints) -> tuple[Ints, Ints]:
        """Return ends, and records that wait; UNKNOWN where nobody knows.

        `rows`: of the partitions with these positions, committed at `committed` and compared as of `as_of`
        (ms each).
        """
        ends = self.latest[rows]
        waiting = records(offset, committed, ends, self.asked_at)
        some = np.flatnonzero(waiting > 0)
        then = np.maximum(offset[some], self._recent.ends_at(rows[some], as_of[some]))
        ends[some] = np.minimum(ends[some], then)
        waiting[some] = ends[some] - offset[some]
        return ends, waiting

    def _column(self, ends: Mapping[str, tuple[int, ...]]) -> Ints:
        column = np.full(self.numbering.rows + 1, UNKNOWN, np.int64)
        for (topic, first), count in zip(self.numbering.first.items(), self.numbering.counts, strict=True):
            own = ends.get(topic, ())[:count]
            column[first : first + len(own)] = own
        return column


class Recent:
    """The recent ends of all topics, of each the times (ms) and rows of its samples, oldest first."""

    def __init__(self, numbering: Numbering, known: Sequence[tuple[list[int], list[array[int]]]]) -> None:
        self.numbering, self._known = numbering, known
        self._rows: list[tuple[Ints, Ints]] = []
        self._kept = max((len(at) for at, _ in known), default=0)

    def ends_at(self, rows: Ints, at: Ints) -> Ints:
        """Return the ends at `at` (ms), interpolated; outside of the samples those of the nearest one."""
        before, after = self._around(rows, lambda when, _, left: when > at[left])
        return np.where(before[1] == UNKNOWN, after[1], _between(before, after, at))

    def ages(self, rows: Ints, offset: Ints, now: Ints) -> Ints:
        """Return how long ago (ms, at `now`) the records at these offsets were written.

        0 where no record stands there yet; the least that it may be where it came before the first sample.
        """
        before, after = self._around(rows, lambda _, ends, left: ends > offset[left])
        low, high = np.maximum(0, now - after[0]), np.maximum(0, now - before[0])
        age = np.clip(np.rint(now - _written(offset, before, after)), low, high).astype(np.int64)
        began, is_there = before[1] == UNKNOWN, after[1] != UNKNOWN
        return np.where(began, np.where(is_there, low, UNKNOWN), np.where(is_there, age, 0))

    def _around(
        self, rows: Ints, is_later: Callable[[Ints, Ints, Ints], Mask]
    ) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
        """Return the newest sample (times in ms, ends) that is not later, and the oldest that is.

        `is_later` answers for the times and ends of one sample, at these places of `rows`. Both are UNKNOWN
        where there is no such sample.
        """
        before, after = (
            (np.full(len(rows), UNKNOWN, np.int64), np.full(len(rows), UNKNOWN, np.int64)) for _ in range(2)
        )
        left = np.arange(len(rows))
        for number in range(self._kept):
            if not len(left):
                break
            when, ends = self._sample(number, rows[left])
            is_known, later = ends != UNKNOWN, is_later(when, ends, left)
            done = is_known & ~later
            for (times, counts), some in ((after, is_known & later), (before, done)):
                times[left[some]], counts[left[some]] = when[some], ends[some]
            left = left[~done]
        return before, after

    def _sample(self, number: int, rows: Ints) -> tuple[Ints, Ints]:
        """Return times (ms) and ends of the sample that is `number` before the newest one of each topic."""
        while len(self._rows) <= number:
            self._rows.append(self._made(-1 - len(self._rows)))
        when, ends = self._rows[number]
        return when[rows], ends[rows]

    def _made(self, place: int) -> tuple[Ints, Ints]:
        counts = self.numbering.counts
        times = [at[place] if -place <= len(at) else UNKNOWN for at, _ in self._known]
        # Copied at once: another thread may give a row more partitions.
        cut = [
            rows[place][:count].tobytes() if -place <= len(rows) else b"\xff" * (8 * count)
            for (_, rows), count in zip(self._known, counts, strict=True)
        ]
        when = np.repeat(np.array([*times, UNKNOWN], np.int64), [*counts, 1])
        return when, np.frombuffer(b"".join([*cut, b"\xff" * 8]), np.int64)


def records(offset: Ints, committed: Ints, ends: Ints, asked_at: int) -> Ints:
    """Return how many records wait, as `arithmetic.records` does of one partition; UNKNOWN for None."""
    waiting = ends - offset
    beyond = np.where(committed >= asked_at - SKEW_MS, 0, UNKNOWN)
    waiting = np.where(waiting < 0, beyond, waiting)
    waiting[(offset < 0) | (ends == UNKNOWN)] = UNKNOWN
    return waiting


def _between(first: tuple[Ints, Ints], last: tuple[Ints, Ints], at: Ints) -> Ints:
    """Return the ends at `at` between two samples (time, ends); the first where the last is not known."""
    (begin, before), (stop, behind) = first, last
    is_last = behind == UNKNOWN
    whole = np.where(is_last, 1, stop - begin)
    # In two parts: the product of records and milliseconds may not fit.
    each, rest = np.divmod(np.where(is_last, 0, behind - before), whole)
    found: Ints = before + each * (at - begin) + rest * (at - begin) // whole
    return found


def _written(offset: Ints, first: tuple[Ints, Ints], last: tuple[Ints, Ints]) -> Floats:
    """Return when the records at these offsets were written, interpolated between two samples."""
    (begin, before), (stop, behind) = first, last
    count = np.where(behind > before, behind - before, 1)
    written = begin + (offset + 1 - before) / count * (stop - begin)
    return written.astype(np.float64)
