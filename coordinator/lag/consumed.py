"""What the driver remembers of one group's consumption: its positions, their windows, and its lag.

All of it is packed by partition (`packed/`): hundreds of thousands are followed.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.commits.positions import Position
from rebalance_monitor.coordinator.lag import windows
from rebalance_monitor.coordinator.lag.asking import Asked
from rebalance_monitor.coordinator.lag.measured import Totals
from rebalance_monitor.coordinator.lag.packed import places as packed
from rebalance_monitor.coordinator.lag.packed import tracks
from rebalance_monitor.coordinator.lag.packed.layout import UNKNOWN_PLACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rebalance_monitor.coordinator.lag.measured import GroupLag
    from rebalance_monitor.coordinator.lag.packed.places import Packed, Places
    from rebalance_monitor.coordinator.lag.retention import Near
    from rebalance_monitor.coordinator.lag.windows import Track
    from rebalance_monitor.coordinator.state.positions import Positions

    Place = tuple[str, int]
    """Topic and partition."""

AGREED = 3
"""So many answers of the brokers that were as new as the topic clear a group of pending commits."""


@dataclass(slots=True)
class Consumed:
    """One group. Times in ms, -1 where nothing is known.

    `written`: the positions as the topic has them, `published` the clock of these; `places` those that lag
    is measured from, the same unless the group commits by transactions (`asking.py`). `windows`: of each
    place. `kept`: of each place, whether the topic's first offset was no later than the position at the
    last sample of first offsets; `near`: of places where that is nearer than the end.
    `went_back`: what positions went back from, until that is published. `lone`: the group has no record of
    its own. `marked`: as of `Positions`. `counts`: clocks and offsets committed until then, which
    alternate. `topics_changed`: other topics than before. `body`: positions that were not unpacked.
    `shard`: its partition of the offsets topic. `runs`, `table`: how many runs were published with which
    table.
    """

    written: Packed = packed.NOTHING
    places: Packed = packed.NOTHING
    windows: bytearray = field(default_factory=bytearray)
    kept: bytearray = field(default_factory=bytearray)
    near: dict[int, Near] = field(default_factory=dict)
    went_back: dict[Place, int] = field(default_factory=dict)
    published: int = -1
    last_commit: int = -1
    body: str = ""
    lag: GroupLag | None = None
    totals: Totals = field(default_factory=Totals)
    lone: bool = False
    counts: array[int] = field(default_factory=lambda: array("q"))
    topics_changed: bool = False
    marked: bool = False
    asked: Asked = field(default_factory=Asked)
    shard: int = -1
    runs: int = 0
    table: int = 0

    @property
    def partitions(self) -> int:
        """Return how many partitions have a position."""
        if self.body:
            return sum(map(len, positions.places_of(positions.read(self.body)).values()))
        return len(self.places)

    @property
    def may_be_pending(self) -> bool:
        """Whether the newest positions may be those of a transaction that has not ended, or was aborted."""
        return self.marked and not self.asked.transactional and self.asked.agreed < AGREED

    def start(self, places: Places | Packed) -> None:
        """Measure lag from positions of another source: what was remembered of the partitions is void."""
        self.places, self.windows, self.kept, self.near = packed.NOTHING, bytearray(), bytearray(), {}
        self.went_back = {}
        self.place(places)

    def repeat(self, held: Positions) -> bool:
        """Take positions of known partitions; False where they must be taken as a whole.

        A group publishes all its positions every few seconds, and its clients commit the same lists of
        partitions over and over. Unpacking each was two thirds of the driver's work in steady traffic.
        """
        is_known = self.written.body and held.lone == self.lone and hash(held.table) == self.table
        # Fewer runs or commits than before: the state was rebuilt.
        is_more = len(held.runs) >= self.runs and (not self.counts or held.commits >= self.counts[-1])
        now = packed.after(self.written, held) if is_known and is_more else None
        if now is None:
            return False
        self.topics_changed, self.runs = False, len(held.runs)
        if now is not self.written:
            self.last_commit = max(self.last_commit, *(at for at, _ in held.runs.values()))
            is_measured = self.places is self.written
            self.written = now
            if is_measured:
                self._commit(now)
        return True

    def take(self, held: Positions, places: Packed, *, measures: bool = True) -> None:
        """Take positions as a whole: `places` are those of `held`; `measures`: lag is measured from them."""
        self.topics_changed = self.lone != held.lone or self.written.topics != places.topics
        self.written, self.body, self.last_commit = places, "", places.newest()
        self.runs, self.table = len(held.runs), hash(held.table)
        if not measures:
            self.places = places
        elif not self.asked.transactional:
            self.place(places)

    def place(self, places: Places | Packed) -> None:
        """Measure lag from these positions from now on."""
        now = places if isinstance(places, packed.Packed) else packed.pack(places)
        if now.layout is not self.places.layout:
            self._arrange(now)
        self._commit(now)

    def track(self, topic: str, partition: int) -> Track | None:
        """Return a copy of the windows of a partition, None where it has no position."""
        place = self.places.layout.place(topic, partition)
        return None if place == UNKNOWN_PLACE else self.track_at(place)

    def track_at(self, place: int) -> Track:
        """Return a copy of the windows at a place."""
        return tracks.unpack(self.windows, place, *self.places.at(place))

    def observe(self, start: int, waits: Iterable[int | None], at: int, *, paused: bool) -> None:
        """Let the windows from place `start` on take their lag at a sample of `at` (ms)."""
        for place, waiting in enumerate(waits, start):
            tracks.observe(self.windows, place, waiting, at, paused=paused)

    def restless(self) -> Iterator[tuple[int, str, int]]:
        """Yield place, topic and partition of those whose lag has grown, or is above its low."""
        places = list(tracks.restless(self.windows))
        if places:
            listed = list(self.places.layout)
            yield from ((place, *listed[place]) for place in places)

    def moving(self, since: int) -> int:
        """Return how many partitions have committed another offset since then (ms)."""
        return sum(self.track_at(place).moved > since for place in range(len(self.places)))

    def slowest(self, since: int) -> int:
        """Return the longest commit interval (ms) of partitions committed since then, -1 if none was."""
        tracks = map(self.track_at, range(len(self.places)))
        return max((track.cadence for track in tracks if track.committed > since), default=-1)

    def at_rest(self) -> int:
        """Return how many records waited just after the offsets moved last, of all partitions together."""
        return sum(max(0, self.track_at(place).base) for place in range(len(self.places)))

    def _arrange(self, now: Packed) -> None:
        """Make room for other partitions; what was remembered of those that stay is kept."""
        body, kept = bytearray(), bytearray(len(now))
        near: dict[int, Near] = {}
        before = self.places.layout
        held = [before.place(*one) for one in now.layout]
        for place, old in enumerate(held):
            if old == UNKNOWN_PLACE:
                body += tracks.NEW
                continue
            body += self.windows[old * tracks.SIZE : (old + 1) * tracks.SIZE]
            kept[place] = self.kept[old]
            if old in self.near:
                near[place] = self.near[old]
        known = self.places
        values = now.values()
        for place, old in enumerate(held):
            # Until they are committed below, they stand where they were.
            values[2 * place], values[2 * place + 1] = (-1, -1) if old == UNKNOWN_PLACE else known.at(old)
        self.windows, self.kept, self.near = body, kept, near
        self.places = packed.Packed(now.layout, values.tobytes())
        self.went_back = {one: before for one, before in self.went_back.items() if now.get(*one) is not None}

    def _commit(self, now: Packed) -> None:
        """Let the windows take positions of the same layout."""
        old, new = self.places.values(), now.values()
        for place in packed.changed(old, new):
            track = tracks.unpack(self.windows, place, old[2 * place], old[2 * place + 1])
            windows.commit(track, Position(new[2 * place], new[2 * place + 1]))
            tracks.pack_into(self.windows, place, track)
            if track.from_offset >= 0:
                key = now.layout.at(place)
                self.went_back[key] = max(self.went_back.get(key, -1), track.from_offset)
        self.places = now
