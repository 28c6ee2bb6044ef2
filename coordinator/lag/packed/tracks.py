"""The windows of one group's partitions, packed: 60 bytes each."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.lag import windows
from rebalance_monitor.coordinator.lag.windows import Track

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRACK = Struct("=qqqqqqqi")
_RISING, _RISING_AT = Struct("=q"), Struct("=qqqqq").size
SIZE = _TRACK.size
NEW = _TRACK.pack(-1, -1, -1, -1, -1, -1, -1, -1)

_LONGEST = 2**31 - 1
"""Commit intervals are cut at 24 days: windows that follow them are ten times as long."""


def pack_into(body: bytearray, place: int, track: Track) -> None:
    """Put the windows of a partition at its place."""
    _TRACK.pack_into(
        body,
        place * SIZE,
        track.lag,
        track.base,
        track.low,
        track.moved,
        track.grown,
        track.rising,
        track.risen,
        min(track.cadence, _LONGEST),
    )


def unpack(body: bytes | bytearray, place: int, offset: int, committed: int) -> Track:
    """Return the windows of a partition, whose position is `offset`, committed at `committed` (ms)."""
    lag, base, low, moved, grown, rising, risen, cadence = _TRACK.unpack_from(body, place * SIZE)
    return Track(offset, committed, moved, base, grown, cadence, rising, low, lag, -1, risen)


def observe(body: bytearray, place: int, lag: int | None, at: int, *, paused: bool) -> None:
    """Let the windows at a place take the lag at a sample of `at` (ms); `paused`: they begin anew."""
    if lag is None and not paused:
        return
    before, base, low, moved, grown, rising, risen, cadence = _TRACK.unpack_from(body, place * SIZE)
    if lag == before == low and not paused and (grown >= 0 or 0 <= base <= lag <= base + windows.MARKER):
        # It stays at its low, as most do: a rise would begin now, and nothing else changes.
        _RISING.pack_into(body, place * SIZE + _RISING_AT, at)
        return
    track = Track(-1, -1, moved, base, grown, cadence, rising, low, before, -1, risen)
    if paused:
        windows.pause(track)
    windows.observe(track, lag, at)
    pack_into(body, place, track)


def restless(body: bytes | bytearray) -> Iterator[int]:
    """Yield the places whose lag has grown, or is above its low."""
    for place, (lag, _, low, _, grown, _, _, _) in enumerate(_TRACK.iter_unpack(body)):
        if grown >= 0 or lag > low >= 0:
            yield place
