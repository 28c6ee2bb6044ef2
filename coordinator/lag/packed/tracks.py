"""The windows of one group's partitions, packed: 36 bytes each.

Times are kept as ms since `base`, lags as what lies between them; 0 says that there is none. What does not
fit into 32 bits (49 days, or four thousand million records) is cut there: windows are far shorter.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.positions import Position
from rebalance_monitor.coordinator.lag import windows
from rebalance_monitor.coordinator.lag.windows import Track

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRACK = Struct("=qIIIIIII")
SIZE = _TRACK.size
_RISING, _RISING_AT = Struct("=I"), Struct("=qIIIII").size
_ANY = Position(-1, -1)
NEW = _TRACK.pack(-1, 0, 0, 0, 0, 0, 0, 0)
_MOST = 2**32 - 1


def pack_into(body: bytearray, place: int, track: Track, base: int) -> None:
    """Put the windows of a partition at its place; `base` (ms) is what times count from."""
    lag = track.lag
    _TRACK.pack_into(
        body,
        place * SIZE,
        lag,
        0 if track.base < 0 else min(lag - track.base + 1, _MOST),
        0 if track.low < 0 else min(lag - track.low + 1, _MOST),
        0 if track.cadence < 0 else min(track.cadence + 1, _MOST),
        _since(track.moved, base),
        _since(track.grown, base),
        _since(track.rising, base),
        _since(track.risen, base),
    )


def unpack(body: bytes | bytearray, place: int, position: Position, base: int) -> Track:
    """Return the windows of a partition, whose position is `position`."""
    lag, under, low, cadence, moved, grown, rising, risen = _TRACK.unpack_from(body, place * SIZE)
    return Track(
        offset=position.offset,
        committed=position.at,
        moved=base + moved - 1 if moved else -1,
        base=lag - under + 1 if under else -1,
        grown=base + grown - 1 if grown else -1,
        cadence=cadence - 1,
        rising=base + rising - 1 if rising else -1,
        low=lag - low + 1 if low else -1,
        lag=lag,
        risen=base + risen - 1 if risen else -1,
    )


def observe(body: bytearray, place: int, lag: int | None, at: int, base: int, *, paused: bool) -> None:
    """Let the windows at a place take the lag at a sample of `at` (ms); `paused`: they begin anew."""
    if lag is None and not paused:
        return
    before, under, low, _, _, grown, _, _ = _TRACK.unpack_from(body, place * SIZE)
    if lag == before and low == 1 and not paused and (grown or 0 < under <= 1 + windows.MARKER):
        # It stays at its low, as most do: a rise would begin now, and nothing else changes.
        _RISING.pack_into(body, place * SIZE + _RISING_AT, _since(at, base))
        return
    track = unpack(body, place, _ANY, base)
    if paused:
        windows.pause(track)
    windows.observe(track, lag, at)
    pack_into(body, place, track, base)


def restless(body: bytes | bytearray) -> Iterator[int]:
    """Yield the places whose lag has grown, or is above its low."""
    for place, (_, _, low, _, _, grown, _, _) in enumerate(_TRACK.iter_unpack(body)):
        if grown or low > 1:
            yield place


def _since(at: int, base: int) -> int:
    return 0 if at < 0 else min(max(at - base, 0) + 1, _MOST)
