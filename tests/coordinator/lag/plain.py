"""The oracle of lag: one partition at a time, in plain Python, as the rules of `windows.py` say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.lag.retention import FASTER, JUMPS
from rebalance_monitor.coordinator.lag.windows import MARKER, PUBLISHED_MS, SMOOTHING, Track

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.commits.positions import Position


class Near(NamedTuple):
    """A partition whose first offset is followed: as `retention.py` has it."""

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


def skipped(before: Near | None, offset: int, begin: int, at: int) -> int:
    """Return how many records at least were deleted unread before the commit of `offset`."""
    if before is None or before.speed <= 0 or offset < begin:
        return 0
    gone = begin - before.offset
    could_read = FASTER * before.speed * (at - before.at)
    return round(gone - could_read) if gone > could_read + MARKER else 0


class PlainTrack(Track):
    """`from_offset`: what the position went back from."""

    from_offset: int = -1


def commit(track: PlainTrack, position: Position) -> None:
    """Take the newest position."""
    if position.at > track.committed >= 0:
        _learn(track, position)
    if position.offset < track.offset:
        # It reads again what it had read: its lag rises for that alone.
        track.rising = track.low = -1
        track.from_offset = max(track.from_offset, track.offset)
    if position.offset != track.offset:
        track.moved, track.base, track.grown = position.at, -1, -1
    track.offset, track.committed = position.offset, max(track.committed, position.at)


def _learn(track: Track, position: Position) -> None:
    """Learn the commit interval that ends with this position."""
    gap = position.at - track.committed
    if track.lag >= 0 and position.offset != track.offset:
        since = track.grown if track.grown >= 0 else track.risen
        # Where no sample saw a record wait, it came and was committed between two.
        waited = position.at - since if since > track.committed else PUBLISHED_MS
        gap = min(gap, max(waited, 0))
    track.cadence = gap if gap > track.cadence else track.cadence + (gap - track.cadence) // SMOOTHING


def observe(track: Track, lag: int | None, at: int) -> None:
    """Take the lag at a sample of `at` (ms); an unknown one says nothing and ends nothing."""
    if lag is None:
        return
    if track.base < 0 or lag < track.base:
        # The first sample since it moved; or the log was cut.
        track.base, track.grown = lag, -1
    elif lag > track.base + MARKER and track.grown < 0:
        track.grown = at
    if lag < track.lag or lag <= track.low or track.rising < 0:
        # A rise begins at the last sample of its low: lag that stays the same does not grow.
        track.rising, track.low = at, lag
    elif lag > track.lag:
        track.risen = at
    track.lag = lag


def pause(track: Track) -> None:
    """Begin the windows anew: the group rebalances, or what became of it is not known."""
    track.grown = track.rising = track.low = track.base = -1
