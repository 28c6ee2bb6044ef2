"""Lag of a partition, in records and in seconds, from its committed offset and the ends of its topic.

Lag is to the high watermark, as in Kafka's own tool. Three things are unknown, never a number: the lag of a
partition without a committed offset (end - 0 would be made up), of one whose end nobody told, and of one
whose committed offset lies beyond an end that was asked for after the commit: the topic was truncated or made
anew. An end that is older than the commit may be smaller: then nothing waits, as far as anybody knows.

Seconds are the age of the oldest record that waits. When it was written is not asked for; it lies between the
last sample whose end had not passed the committed offset and the first that had, and is interpolated there.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from rebalance_monitor.coordinator.lag.ends import UNKNOWN

SKEW_MS = 2_000
"""A commit and a sample within this time of each other may be in either order: two clocks wrote them."""


class Seconds(NamedTuple):
    """Age (ms) of the oldest waiting record: estimate and bounds; `high` None where nobody knows."""

    estimate: int
    low: int
    high: int | None


def records(offset: int, committed_at: int, end: int, asked_at: int) -> int | None:
    """Return how many records wait behind `offset`, committed at `committed_at`, at an `end` asked for then.

    None where it is unknown. Times in ms.
    """
    if offset < 0 or end == UNKNOWN:
        return None
    if offset <= end:
        return end - offset
    return 0 if committed_at >= asked_at - SKEW_MS else None


class Ends:
    """The recent ends of one partition: times (ms) and high watermarks, ascending, thinned out with age.

    Samples are kept at distances that double with their age, so a dozen reach back for hours.
    """

    __slots__ = ("at", "end")
    KEPT = 12

    def __init__(self) -> None:
        self.at: list[int] = []
        self.end: list[int] = []

    def add(self, at: int, end: int) -> None:
        """Take a sample; an end that went back is that of another log, or a truncated one: begin anew."""
        if self.end and end < self.end[-1]:
            self.at, self.end = [], []
        if self.at and at <= self.at[-1]:
            return
        self.at.append(at)
        self.end.append(end)
        if len(self.at) > self.KEPT:
            self._thin()

    def age(self, offset: int, now: int) -> Seconds | None:
        """Return how long ago (ms, at `now`) the record at `offset` was written; None without any sample.

        0 where no record stands there yet.
        """
        if not self.at:
            return None
        after = bisect_right(self.end, offset)
        if after == len(self.end):
            return Seconds(0, 0, 0)
        if after == 0:
            low = max(0, now - self.at[0])
            return Seconds(low, low, None)
        low, high = max(0, now - self.at[after]), max(0, now - self.at[after - 1])
        before, behind = self.end[after - 1], self.end[after]
        share = (offset + 1 - before) / (behind - before)
        written = self.at[after - 1] + share * (self.at[after] - self.at[after - 1])
        return Seconds(min(high, max(low, round(now - written))), low, high)

    def came_at(self, offset: int) -> int | None:
        """Return when (ms) the record at `offset` was written: -1 not yet, None without any sample.

        Interpolated; that of the first sample where it was there by then.
        """
        if not self.at:
            return None
        if offset >= self.end[-1]:
            return -1
        age = self.age(offset, self.at[-1])
        return None if age is None else self.at[-1] - age.estimate

    def end_at(self, at: int) -> int:
        """Return the high watermark at `at` (ms), interpolated; outside of the samples the nearest one's."""
        after = bisect_right(self.at, at)
        if not self.at:
            return UNKNOWN
        if after in {0, len(self.at)}:
            return self.end[-1] if after else self.end[0]
        begin, stop = self.at[after - 1], self.at[after]
        before, behind = self.end[after - 1], self.end[after]
        return before + (behind - before) * (at - begin) // (stop - begin)

    def _thin(self) -> None:
        """Drop the sample between whose neighbours least is lost: the gap over its age is smallest."""
        newest = self.at[-1]
        worst = min(
            range(1, len(self.at) - 1),
            key=lambda place: (self.at[place + 1] - self.at[place - 1]) / (newest - self.at[place] + 1),
        )
        del self.at[worst], self.end[worst]


def total(values: list[int | None]) -> int | None:
    """Return the sum of the values that are known, None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def most(values: list[int | None]) -> int | None:
    """Return the largest of the values that are known, None where none is."""
    return max([value for value in values if value is not None], default=None)
