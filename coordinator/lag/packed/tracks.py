"""The windows of one group's partitions, packed: 60 bytes each."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.lag.windows import Track

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRACK = Struct("=qqqqqqqi")
SIZE = _TRACK.size
NEW = _TRACK.pack(-1, -1, -1, -1, -1, -1, -1, -1)

LONGEST = 2**31 - 1
"""Commit intervals are cut at 24 days: windows that follow them are ten times as long."""


def unpack(body: bytes, place: int, offset: int, committed: int) -> Track:
    """Return the windows of a partition, whose position is `offset`, committed at `committed` (ms)."""
    lag, base, low, moved, grown, rising, risen, cadence = _TRACK.unpack_from(body, place * SIZE)
    return Track(offset, committed, moved, base, grown, cadence, rising, low, lag, risen)


def restless(body: bytes) -> Iterator[int]:
    """Yield the places whose lag has grown, or is above its low."""
    for place, (lag, _, low, _, grown, _, _, _) in enumerate(_TRACK.iter_unpack(body)):
        if grown >= 0 or lag > low >= 0:
            yield place
