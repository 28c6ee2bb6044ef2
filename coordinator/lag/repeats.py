"""Positions of a group that lists the same partitions again: only runs that are new are unpacked.

A group publishes all its positions every few seconds, and its clients commit the same lists of partitions
over and over. Taking each position anew was two thirds of what the driver did in steady traffic.
"""

from __future__ import annotations

from struct import unpack
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.commits.positions import Position
from rebalance_monitor.coordinator.lag import windows
from rebalance_monitor.decoders.rows import listed_partitions

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.commits.positions import Places
    from rebalance_monitor.coordinator.lag.windows import Track
    from rebalance_monitor.coordinator.state.positions import Positions

    Place = tuple[dict[int, Position], int, Track]
    """The positions of a topic, a partition of it, and the partition's windows."""


class Taken(NamedTuple):
    """What new runs said: when (ms) the newest was committed, -1 without any; whether an offset went back."""

    newest: int
    went_back: bool


class Repeats:
    """`places` and `tracks` hold what `held` says; both are changed in place."""

    __slots__ = ("_found", "_places", "_runs", "_table", "_tracks")

    def __init__(self, held: Positions, places: Places, tracks: dict[tuple[str, int], Track]) -> None:
        self._table, self._runs = held.table, held.runs
        self._places, self._tracks = places, tracks
        self._found: dict[bytes, list[Place]] = {}

    def take(self, held: Positions) -> Taken | None:
        """Take the runs of `held` that are new, oldest first.

        None where that is not enough: a partition is new or was dropped, or runs were merged.
        """
        runs, before = held.runs, self._runs
        if held.table != self._table or not before.keys() <= runs.keys():
            return None
        newest, went_back = -1, False
        for listed, run in runs.items():
            if run == before.get(listed):
                continue
            at, offsets = run
            found = self._found.get(listed) or self._find(listed)
            if found is None or positions.has_dropped(offsets):
                return None
            newest = max(newest, at)
            for (places, partition, track), offset in zip(
                found, unpack(f">{len(offsets) // 8}q", offsets), strict=True
            ):
                places[partition] = position = Position(offset, at)
                windows.commit(track, position)
                went_back |= track.from_offset >= 0
        self._runs = runs
        return Taken(newest, went_back)

    def _find(self, listed: bytes) -> list[Place] | None:
        """Return where the positions of a run go; None where one of its partitions is new."""
        found: list[Place] = []
        for topic, partition in listed_partitions(listed):
            track = self._tracks.get((topic, partition))
            if track is None:
                return None
            found.append((self._places[topic], partition, track))
        self._found[listed] = found
        return found
