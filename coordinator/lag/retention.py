"""How near retention is to a committed offset, by first offsets that are sampled once a minute.

Retention deletes whole segments: the first offset of a partition rests, and then jumps. So one jump shows no
rate. From two jumps on the gap is compared as it is just after each: it closes if the group reads more slowly
than retention deletes. An application that deletes what it has committed (DeleteRecords, as Kafka Streams
does with repartition topics) leaves a gap, too, of what it committed since: at most that of one jump. So the
gap of a group that reads must have closed by two.

A group that retention has passed reads on at the new first offset, or at the end (`auto.offset.reset`), and
commits that before anybody asks for first offsets again. What was deleted then lies between two commits. It
was not read if the group would have had to read several times as fast as in the minute before.
"""

from __future__ import annotations

from typing import NamedTuple

from rebalance_monitor.coordinator.lag.windows import MARKER
from rebalance_monitor.coordinator.state.group_state import NEVER

FOLLOWED = 3
"""A first offset is followed where it is nearer to the committed one than so many times what waits: of a few
segments the nearer half has too few jumps to show a rate."""

JUMPS = 8
STEPS = 2
"""The gap of a group that reads must have closed by what it reads from one jump to the next, so often."""

FASTER = 5
"""A group that is behind reads as fast as it can; not even so many times as fast in the next minute."""


class Near(NamedTuple):
    """A partition whose first offset is followed (`FOLLOWED`). Times in ms.

    `at`: of the sample of the two offsets. `speed`: records a ms that the group read from the sample before
    to this one. `jumps`: time, gap and committed offset just after each of the last jumps of the first
    offset, oldest first.
    """

    at: int
    offset: int
    begin: int
    speed: float = 0.0
    jumps: tuple[tuple[int, int, int], ...] = ()


def follow(before: Near | None, offset: int, begin: int, at: int) -> Near:
    """Return what is known at a sample of `at` (ms)."""
    if before is None or at <= before.at:
        return Near(at, offset, begin)
    jumps = before.jumps
    if begin > before.begin:
        jumps = (*jumps, (at, offset - begin, offset))[-JUMPS:]
    return Near(at, offset, begin, (offset - before.offset) / (at - before.at), jumps)


def left_ms(near: Near) -> int:
    """Return how long (ms) retention needs to reach the committed offset; `NEVER` if it does not close in.

    The shortest that any number of the last jumps gives: a group may have stopped only now.
    """
    return min((_left(near, first) for first in range(len(near.jumps))), default=NEVER)


def _left(near: Near, first: int) -> int:
    (began, wide, before), (_, narrow, offset) = near.jumps[first], near.jumps[-1]
    steps, closed = len(near.jumps) - 1 - first, wide - narrow
    if closed <= 0 or closed * steps <= STEPS * (offset - before):
        return NEVER
    # Where it rests for longer than before, it is slower than before.
    return round((near.offset - near.begin) * (near.at - began) / closed)


def skipped(before: Near | None, offset: int, begin: int, at: int) -> int:
    """Return how many records at least were deleted unread before the commit of `offset`; 0 if perhaps none.

    `before`: the sample before; `begin` and `at`: the first offset now, and when (ms).
    """
    if before is None or before.speed <= 0 or offset < begin:
        return 0
    gone = begin - before.offset
    could_read = FASTER * before.speed * (at - before.at)
    return round(gone - could_read) if gone > could_read + MARKER else 0
