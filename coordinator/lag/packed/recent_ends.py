"""The recent ends of one topic's partitions: 96 bytes a partition, shared by all groups that read it.

One row of high watermarks for each sample that is kept. Rows are kept at distances that double with their
age, so a dozen reach back for hours. An end that went back is that of another log, or a truncated one: what
was known of the partition before is void.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.lag.arithmetic import Seconds
from rebalance_monitor.coordinator.lag.ends import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

_AT_END = Seconds(0, 0, 0)
_MARKER = 1


class TopicEnds:
    """Times (ms) of samples, ascending, and the ends by partition at each, `UNKNOWN` without an answer."""

    __slots__ = ("at", "rows")
    KEPT = 12

    def __init__(self) -> None:
        self.at: list[int] = []
        self.rows: list[array[int]] = []

    def add(self, at: int, ends: Sequence[int]) -> list[tuple[int, int, int, int]]:
        """Take a sample of all partitions; return those whose end went back.

        Number, end before, end now, and of when (ms) the end before is.
        """
        found = array("q", ends)
        shortened: list[tuple[int, int, int, int]] = []
        if self.rows:
            self._fit(len(found))
            found.extend([UNKNOWN] * (len(self.rows[-1]) - len(found)))
            for partition, (before, end) in enumerate(zip(self.rows[-1], found, strict=True)):
                if (end < before and end != UNKNOWN) or before == UNKNOWN != end:
                    seen_at, last = self._check(partition, end)
                    shortened += [(partition, last, end, seen_at)] if last > end else []
        if self.at and at <= self.at[-1]:
            return shortened
        self.at.append(at)
        self.rows.append(found)
        if len(self.at) > self.KEPT:
            self._thin()
        return shortened

    def known(self, partition: int) -> list[tuple[int, int]]:
        """Return the times (ms) and ends of a partition that are known, oldest first."""
        if not self.rows or not 0 <= partition < len(self.rows[-1]):
            return []
        found = ((at, row[partition]) for at, row in zip(self.at, self.rows, strict=True))
        return [one for one in found if one[1] != UNKNOWN]

    def newest(self) -> list[int]:
        """Return the newest end of each partition that is known, `UNKNOWN` where none is."""
        found = self.rows[-1].tolist()
        if UNKNOWN in found:
            known = map(self.known, range(len(found)))
            found = [ends[-1][1] if ends else UNKNOWN for ends in known]
        return found

    def age(self, partition: int, offset: int, now: int) -> Seconds | None:
        """Return how long ago (ms, at `now`) the record at `offset` was written; None without any sample.

        0 where no record stands there yet.
        """
        stop = behind = -1
        for at, row in zip(reversed(self.at), reversed(self.rows), strict=True):
            end = row[partition]
            if end == UNKNOWN:
                continue
            if end <= offset:
                return _AT_END if stop < 0 else _age(offset, now, (at, end), (stop, behind))
            stop, behind = at, end
        if stop < 0:
            return None
        low = max(0, now - stop)
        return Seconds(low, low, None)

    def came_at(self, partition: int, offset: int) -> int | None:
        """Return when (ms) the record at `offset` was written, interpolated; None where that is not known.

        Where it had not come at the newest sample: the time of that, negative. A record that was there at the
        first sample may have come at any time before.
        """
        known = self.known(partition)
        if not known or offset < known[0][1]:
            return None
        if offset >= known[-1][1]:
            return -known[-1][0]
        place = bisect_right(known, offset, key=_end)
        (begin, before), (stop, behind) = known[place - 1], known[place]
        # In the middle of its part of the time between two samples.
        return begin + (2 * (offset - before) + 1) * (stop - begin) // (2 * (behind - before))

    def next_at(self, partition: int, offset: int, since: int) -> int | None:
        """Return when (ms) a record came to the position `offset`, committed at `since`, as `came_at`.

        A transaction's marker takes an offset that no consumer reads, perhaps after the commit of its last
        record. It comes soon. So what stands at the position is a record where a sample shows that it was not
        there yet some time after the commit; else only the offset behind it tells.
        """
        came_later = any(at > since and end <= offset for at, end in self.known(partition))
        return self.came_at(partition, offset if came_later else offset + _MARKER)

    def apart(self, partition: int, begin: int, end: int) -> int:
        """Return how far apart (ms) records came to a partition from `begin` to `end`.

        0 where that is not known, or none came: what was consumed meanwhile had waited.
        """
        known = self.known(partition)
        if not known or known[0][0] > begin:
            return 0
        came = _between(known, end) - _between(known, begin)
        return (end - begin) // came if came > 0 else 0

    def end_at(self, partition: int, at: int) -> int:
        """Return the high watermark at `at` (ms), interpolated; outside of the samples the nearest one's."""
        return _between(self.known(partition), at)

    def _fit(self, count: int) -> None:
        """Make room for partitions that are new."""
        more = count - len(self.rows[-1])
        if more > 0:
            for row in self.rows:
                row.extend([UNKNOWN] * more)

    def _check(self, partition: int, end: int) -> tuple[int, int]:
        """Forget what was known of a partition whose end went back; return its end before, and since when."""
        known = self.known(partition)
        if known and end < known[-1][1]:
            for row in self.rows:
                row[partition] = UNKNOWN
        return known[-1] if known else (-1, UNKNOWN)

    def _thin(self) -> None:
        """Drop the sample between whose neighbours least is lost: the gap over its age is smallest."""
        newest = self.at[-1]
        worst = min(
            range(1, len(self.at) - 1),
            key=lambda place: (self.at[place + 1] - self.at[place - 1]) / (newest - self.at[place] + 1),
        )
        del self.at[worst], self.rows[worst]


def _between(known: list[tuple[int, int]], at: int) -> int:
    if not known:
        return UNKNOWN
    after = bisect_right(known, at, key=_time)
    if after in {0, len(known)}:
        return known[-1 if after else 0][1]
    (begin, before), (stop, behind) = known[after - 1], known[after]
    return before + (behind - before) * (at - begin) // (stop - begin)


def _time(one: tuple[int, int]) -> int:
    return one[0]


def _end(one: tuple[int, int]) -> int:
    return one[1]


def _age(offset: int, now: int, first: tuple[int, int], last: tuple[int, int]) -> Seconds:
    """Return how long ago the record at `offset` was written, between the samples `first` and `last`."""
    (begin, before), (stop, behind) = first, last
    low, high = max(0, now - stop), max(0, now - begin)
    written = begin + (offset + 1 - before) / (behind - before) * (stop - begin)
    return Seconds(min(high, max(low, round(now - written))), low, high)
