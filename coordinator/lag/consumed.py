"""What the driver remembers of one group's consumption: its positions, their windows, and its lag.

All of it is packed by partition (`packed/`): hundreds of thousands are followed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag.measured import Totals
from rebalance_monitor.coordinator.lag.packed import places as packed
from rebalance_monitor.coordinator.lag.packed.columns import Columns, spread
from rebalance_monitor.coordinator.lag.packed.layout import UNKNOWN_PLACE
from rebalance_monitor.coordinator.lag.retention import FAR, SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rebalance_monitor.coordinator.lag.measured import GroupLag, Measured, PartitionLag
    from rebalance_monitor.coordinator.lag.packed.columns import Ints
    from rebalance_monitor.coordinator.lag.packed.places import Packed, Places
    from rebalance_monitor.coordinator.lag.retention import Jump
    from rebalance_monitor.coordinator.lag.windows import Track
    from rebalance_monitor.coordinator.state.positions import Positions

    Place = tuple[str, int]
    """Topic and partition."""

MOST_PENDING = 8
"""Positions that wait for a sample of ends at most: there may be none while the brokers are away."""

AGREED = 3
"""So many answers of the brokers that were as new as the topic clear a group of pending commits."""

NO_WINDOWS = Columns.new(0)


class Doubt(NamedTuple):
    """A partition of which a broker answered an older offset than the topic had."""

    topic: str
    partition: int
    written: positions.Position


class Asked(msgspec.Struct, gc=False):
    """What asking for one group has brought.

    `at`: when (ms) it was asked last, -1 before that. `answered`: when (ms) the question was asked that
    `offsets` answer. `transactional`: its positions are the answers. `doubts`: where the answer differs from
    the topic, until that is judged. `agreed`: answers that were as new as the topic.
    """

    at: int = -1
    answered: int = -1
    offsets: dict[str, dict[int, int]] = {}
    transactional: bool = False
    doubts: tuple[Doubt, ...] = ()
    agreed: int = 0


@dataclass(slots=True, eq=False)
class Consumed:
    """One group. Times in ms, -1 where nothing is known.

    `written`: the positions as the topic has them, `published` the clock of these; `places` those that lag
    is measured from, the same unless the group commits by transactions (`asking.py`). `windows`: from
    column `begin` on of each place, with the positions `taken`; `pending` are those published since, oldest
    first. `kept`: of each place, whether the topic's first offset was no later than the position at the last
    sample of first offsets; `near`, `jumps`: of places where that is followed (`retention.py`).
    `went_back`: what positions went back from, until that is published. `lone`: the group has no record of
    its own. `marked`: as of `Positions`. `counts`: clocks and offsets committed until then, which
    alternate. `topics_changed`: other topics than before. `held`: positions that were not unpacked.
    `shard`: its partition of the offsets topic. `runs`, `table`: how many runs were published with which
    table. `measured`: what the newest sample gave, and the group's place in it; `made`: its lag, if that was
    read.
    """

    written: Packed = packed.NOTHING
    places: Packed = packed.NOTHING
    windows: Columns = NO_WINDOWS
    begin: int = 0
    taken: Packed = packed.NOTHING
    pending: tuple[Packed, ...] = ()
    kept: bytearray = field(default_factory=bytearray)
    near: bytes = b""
    jumps: dict[int, tuple[Jump, ...]] = field(default_factory=dict)
    went_back: dict[Place, int] = field(default_factory=dict)
    published: int = -1
    last_commit: int = -1
    held: Positions | None = None
    measured: tuple[Measured, int] | None = None
    made: GroupLag | None = None
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
    def lag(self) -> GroupLag | None:
        """Return the lag at the newest sample, None before the first."""
        if self.made is None and self.measured is not None:
            measured, place = self.measured
            self.made = measured.of(place)
        return self.made

    @property
    def waiting(self) -> int:
        """Return how many records wait that are known of, 0 before the first sample."""
        measured, place = self.measured or (None, 0)
        return measured.records[place] if measured is not None else 0

    @property
    def partitions(self) -> int:
        """Return how many partitions have a position."""
        if self.held is not None:
            return sum(map(len, positions.places_of(self.held).values()))
        return len(self.places)

    @property
    def may_be_pending(self) -> bool:
        """Whether the newest positions may be those of a transaction that has not ended, or was aborted."""
        return self.marked and not self.asked.transactional and self.asked.agreed < AGREED

    def start(self, places: Places | Packed) -> None:
        """Measure lag from positions of another source: what was remembered of the partitions is void."""
        self.places = self.taken = packed.NOTHING
        self.windows, self.begin, self.pending, self.kept = NO_WINDOWS, 0, (), bytearray()
        self.near, self.jumps, self.went_back = b"", {}, {}
        self.place(places)

    def repeat(self, held: Positions) -> bool:
        """Take positions of known partitions; False where they must be taken as a whole.

        A group publishes all its positions every few seconds, and its clients commit the same lists of
        partitions over and over. Unpacking each was two thirds of the driver's work in steady traffic.
        """
        now = packed.after(self.written, held) if self._goes_on(held) else None
        if now is None:
            return False
        self.topics_changed, self.runs = False, len(held.runs)
        if now is not self.written:
            self._write(now, max(at for at, _ in held.runs.values()))
        return True

    def whole_run(self, held: Positions) -> tuple[int, bytes] | None:
        """Return the only run of positions that has all known partitions, each once; None where none has.

        It is asked for of every group every few seconds, so it calls nothing in the usual case.
        """
        is_known = held.lone == self.lone and hash(held.table) == self.table
        if len(held.runs) != 1 or self.runs > 1 or not is_known:
            return None
        counts, layout = self.counts, self.written.layout
        if counts and held.commits < counts[-1]:
            return None
        ((listed, run),) = held.runs.items()
        if listed != layout.whole:
            if not layout.size or layout.places_of(listed) != range(layout.size):
                return None
            layout.whole = listed
        return run

    def _goes_on(self, held: Positions) -> bool:
        """Whether these are the positions before and more: fewer runs or commits are of a state made anew."""
        is_known = self.written.body and held.lone == self.lone and hash(held.table) == self.table
        is_more = len(held.runs) >= self.runs and (not self.counts or held.commits >= self.counts[-1])
        return bool(is_known and is_more)

    def take_run(self, at: int, body: bytes) -> None:
        """Take all positions, committed at `at` (ms), as `body` of `Packed`."""
        self.topics_changed, self.runs = False, 1
        if body != self.written.body:
            self._write(packed.Packed(self.written.layout, body), at)

    def _write(self, now: Packed, at: int) -> None:
        self.last_commit = max(self.last_commit, at)
        is_measured = self.places is self.written
        self.written = now
        if is_measured:
            self._put(now)

    def take(self, held: Positions, places: Packed, *, measures: bool = True) -> None:
        """Take positions as a whole: `places` are those of `held`; `measures`: lag is measured from them."""
        self.topics_changed = self.lone != held.lone or self.written.topics != places.topics
        self.written, self.held, self.last_commit = places, None, places.newest()
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
        self._put(now)

    def lag_of(self, topic: str, partition: int) -> PartitionLag | None:
        """Return the newest lag of a partition, None where it is not known."""
        found = self.lag.topics.get(topic) if self.lag is not None else None
        return None if found is None else found.of(partition)

    def track(self, topic: str, partition: int) -> Track | None:
        """Return a copy of the windows of a partition, None where it has no position."""
        place = self.places.layout.place(topic, partition)
        return None if place == UNKNOWN_PLACE else self.track_at(place)

    def track_at(self, place: int) -> Track:
        """Return a copy of the windows at a place."""
        settle(self)
        return self.windows.track(self.begin + place, *self.places.at(place))

    def restless(self) -> Iterator[tuple[int, str, int]]:
        """Yield place, topic and partition of those whose lag has grown, or is above its low."""
        places = self.windows.restless(self.begin, self.begin + len(self.places))
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

    def _put(self, now: Packed) -> None:
        """Let lag be measured from positions of the same layout; the windows take them later, with others."""
        if now.body != self.places.body:
            if len(self.pending) >= MOST_PENDING:
                settle(self)
            self.pending = (*self.pending, now)
        self.places = now

    def _arrange(self, now: Packed) -> None:
        """Make room for other partitions; what was remembered of those that stay is kept."""
        settle(self)
        windows, near, kept = Columns.new(len(now)), [FAR] * len(now), bytearray(len(now))
        jumps: dict[int, tuple[Jump, ...]] = {}
        before, values = self.places, now.values()
        for place, one in enumerate(now.layout):
            old = before.layout.place(*one)
            # Until they are committed, they stand where they were.
            if old == UNKNOWN_PLACE:
                values[2 * place] = values[2 * place + 1] = -1
                continue
            windows.values[:, place] = self.windows.values[:, self.begin + old]
            values[2 * place], values[2 * place + 1] = before.at(old)
            kept[place] = self.kept[old]
            if self.near:
                near[place] = self.near[old * SIZE : (old + 1) * SIZE]
            if old in self.jumps:
                jumps[place] = self.jumps[old]
        self.windows, self.begin, self.kept, self.jumps = windows, 0, kept, jumps
        self.near = b"".join(near) if self.near else b""
        self.places = self.taken = packed.Packed(now.layout, values.tobytes())
        self.went_back = {one: before for one, before in self.went_back.items() if now.get(*one) is not None}


def take_runs(taken: Sequence[tuple[Consumed, tuple[int, bytes]]]) -> bool:
    """Take a run of each group (`whole_run`), all at once; False where one has dropped a partition."""
    offsets = np.frombuffer(b"".join([run[1] for _, run in taken]), ">i8")
    if len(offsets) and offsets.min() < 0:
        return False
    values = np.empty((len(offsets), 2), np.int64)
    values[:, 0] = offsets
    sizes = [one.written.layout.size for one, _ in taken]
    values[:, 1] = np.repeat(np.array([run[0] for _, run in taken], np.int64), sizes)
    bodies, begin = values.tobytes(), 0
    for one, (at, offsets_of_one) in taken:
        end = begin + 2 * len(offsets_of_one)
        one.take_run(at, bodies[begin:end])
        begin = end
    return True


def settle(consumed: Consumed) -> None:
    """Let the windows of a group take the positions published since the last sample, in their order.

    It works on a view: a copy would be one of the windows of all groups beside it, and while no sample comes
    every group comes here.
    """
    if consumed.pending:
        end = consumed.begin + len(consumed.places)
        commit(Columns(consumed.windows.values[:, consumed.begin : end]), [consumed])


def commit(columns: Columns, groups: Sequence[Consumed]) -> None:
    """Let windows take the positions published since the last sample, in their order: of many groups at once.

    `columns`: the windows of these groups, end to end. What numpy costs for one group is more than it is for
    a thousand partitions.
    """
    before = _values([one.taken for one in groups])
    now = _values([one.pending[0] if one.pending else one.places for one in groups])
    _commit(columns, groups, before, now)
    again = [(number, one) for number, one in enumerate(groups) if len(one.pending) > 1]
    if again:
        # Most groups have published once since the last sample.
        sizes = np.array([len(one.places) for one in groups], np.int64)
        numbers = [number for number, _ in again]
        rows = spread((np.cumsum(sizes) - sizes)[numbers], sizes[numbers])
        some, others = Columns(columns.values[:, rows]), [one for _, one in again]
        before = _values([one.pending[0] for one in others])
        for number in range(1, max(len(one.pending) for one in others)):
            now = _values(
                [one.pending[number] if number < len(one.pending) else one.places for one in others]
            )
            _commit(some, others, before, now)
            before = now
        columns.values[:, rows] = some.values
    for one in groups:
        if one.pending:
            one.taken, one.pending = one.places, ()


def _commit(columns: Columns, groups: Sequence[Consumed], before: Ints, now: Ints) -> None:
    """Take the positions `now` after those `before`; the same ones change nothing."""
    back = np.flatnonzero(columns.commit(before, now)).tolist()
    if back:
        _go_back(groups, back, before)


def _go_back(groups: Sequence[Consumed], rows: list[int], before: Ints) -> None:
    """Note the positions from which some rows went back."""
    ends = list(accumulate(len(one.taken) for one in groups))
    for row in rows:
        which = bisect_right(ends, row)
        one = groups[which]
        key = one.taken.layout.at(row - ends[which] + len(one.taken))
        one.went_back[key] = max(one.went_back.get(key, -1), int(before[row, 0]))


def _values(places: list[Packed]) -> Ints:
    """Return offset and commit time (ms) of each partition of these positions, end to end."""
    return np.frombuffer(b"".join([one.body for one in places]), np.int64).reshape(-1, 2)
