"""How near retention is to a committed offset, by first offsets that are sampled once a minute.

Retention deletes whole segments: the first offset of a partition rests, and then jumps. So one jump shows no
rate. From two jumps on the gap is compared as it is just after each: it closes if the group reads more slowly
than retention deletes. An application that deletes what it has committed (DeleteRecords, as Kafka Streams
does with repartition topics) leaves a gap, too, of what it committed since: at most that of one jump. So the
gap of a group that reads must have closed by two.

A group that retention has passed reads on at the new first offset, or at the end (`auto.offset.reset`), and
commits that before anybody asks for first offsets again. What was deleted then lies between two commits. It
was not read if the group would have had to read several times as fast as in the minute before.

Done for the partitions of many groups at once, but for jumps: hardly a partition has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from rebalance_monitor.coordinator.lag.ends import UNKNOWN
from rebalance_monitor.coordinator.lag.windows import MARKER
from rebalance_monitor.coordinator.state.group_state import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.lag.packed.columns import Ints, Mask

FOLLOWED = 3
"""A first offset is followed where it is nearer to the committed one than so many times what waits: of a few
segments the nearer half has too few jumps to show a rate."""

JUMPS = 8
STEPS = 2
"""The gap of a group that reads must have closed by what it reads from one jump to the next, so often."""

FASTER = 5
"""A group that is behind reads as fast as it can; not even so many times as fast in the next minute."""

Jump = tuple[int, int, int]
"""Time (ms), gap and committed offset just after a jump of the first offset."""

_LAYOUT = np.dtype([("at", "i8"), ("offset", "i8"), ("begin", "i8"), ("speed", "f8")])
SIZE = _LAYOUT.itemsize
FAR = np.array((UNKNOWN, UNKNOWN, UNKNOWN, 0.0), _LAYOUT).tobytes()
"""A partition whose first offset is not followed."""

Nears: TypeAlias = npt.NDArray[np.void]
"""Of each partition, when (ms) a sample had its first offset (`begin`), and records a ms that the group read
from the sample before to that one."""


def nears(bodies: Iterable[bytes]) -> Nears:
    """Return the partitions of these packed bodies, end to end."""
    return np.frombuffer(b"".join(bodies), _LAYOUT)


def follow(before: Nears, is_near: Mask, offset: Ints, begin: Ints, at: int) -> tuple[Nears, Mask]:
    """Return what is known at a sample of `at` (ms), and which partitions were followed before, too.

    `is_near`: which are followed (`FOLLOWED`).
    """
    goes_on = is_near & (before["at"] >= 0) & (before["at"] < at)
    after = nears([FAR * len(before)]).copy()
    after["at"][is_near] = at
    np.copyto(after["offset"], offset, where=is_near)
    np.copyto(after["begin"], begin, where=is_near)
    read, passed = offset - before["offset"], at - before["at"]
    np.divide(read, passed, out=after["speed"], where=goes_on)
    return after, goes_on


def skipped(before: Nears, offset: Ints, begin: Ints, at: int) -> Ints:
    """Return how many records at least were deleted unread before the commit of `offset`; 0 if perhaps none.

    `before`: the sample before; `begin` and `at`: the first offset now, and when (ms).
    """
    gone = begin - before["offset"]
    could_read = FASTER * before["speed"] * (at - before["at"])
    is_skipped = (before["speed"] > 0) & (offset >= begin) & (gone > could_read + MARKER)
    return np.where(is_skipped, np.rint(gone - could_read), 0).astype(np.int64)


def left_ms(gap: int, at: int, jumps: Sequence[Jump]) -> int:
    """Return how long (ms) retention needs to reach the committed offset; `NEVER` if it does not close in.

    `gap`: how far off it is at a sample of `at` (ms); `jumps`: the last ones, oldest first. The shortest time
    that any number of them gives: a group may have stopped only now.
    """
    return min((_left(gap, at, jumps[first:]) for first in range(len(jumps))), default=NEVER)


def _left(gap: int, at: int, jumps: Sequence[Jump]) -> int:
    (began, wide, before), (_, narrow, offset) = jumps[0], jumps[-1]
    steps, closed = len(jumps) - 1, wide - narrow
    if closed <= 0 or closed * steps <= STEPS * (offset - before):
        return NEVER
    # Where it rests for longer than before, it is slower than before.
    return round(gap * (at - began) / closed)
