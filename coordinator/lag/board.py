"""The lag of all groups: positions as groups publish them, against the newest sample of their topics' ends.

Runs on the driver. Positions come whole, group by group; each sample of ends gives every group's lag anew and
moves the windows of its partitions (`windows.py`). What one sample says is handed on; only windows and the
recent ends are kept, both bounded per partition.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag import asking, committing, windows
from rebalance_monitor.coordinator.lag.arithmetic import Ends, most, records, total
from rebalance_monitor.coordinator.lag.asking import Asked
from rebalance_monitor.coordinator.lag.ends import LATELY_MS, UNKNOWN
from rebalance_monitor.coordinator.lag.measured import GroupLag, PartitionLag, Source, TopicLag, Totals
from rebalance_monitor.coordinator.lag.repeats import Repeats
from rebalance_monitor.coordinator.lag.windows import Track

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rebalance_monitor.coordinator.commits.positions import Places, Position
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.state.positions import Positions

MAX_TOPIC = 249
"""Characters of a topic's name that Kafka allows."""

WANT_MS = 5_000
FRESH_MS = 8_000
"""Newer positions of a group that commits come within this time."""

MAX_LONE = 10_000
"""Groups without a record of their own that are known at most."""

AGREED = 3
"""So many answers of the brokers that were as new as the topic clear a group of pending commits."""


@dataclass(slots=True)
class Consumed:
    """One group: its positions, the windows of its partitions, its newest lag and its last totals.

    `written`: the positions as the topic has them, `published` the clock (ms) of these; `places` those that
    lag is measured from, the same unless the group commits by transactions (`asking.py`). `last_commit`: when
    it committed last (ms), -1 where nothing is known. `went_back`: some are smaller than before. `lone`: it
    has no record of its own. `marked`: as of `Positions`. `counts`: offsets committed until which clock.
    `topics_changed`: other topics than before. `body`: positions that were not unpacked. `repeats`: takes
    what is new in the next ones, where these are the topic's.
    """

    places: Places = field(default_factory=dict)
    written: Places = field(default_factory=dict)
    tracks: dict[tuple[str, int], Track] = field(default_factory=dict)
    published: int = -1
    last_commit: int = -1
    body: str = ""
    went_back: bool = False
    lag: GroupLag | None = None
    totals: Totals = field(default_factory=Totals)
    lone: bool = False
    counts: deque[tuple[int, int]] = field(default_factory=deque)
    topics_changed: bool = False
    marked: bool = False
    asked: Asked = field(default_factory=Asked)
    repeats: Repeats | None = None

    @property
    def partitions(self) -> int:
        """Return how many partitions have a position."""
        found = positions.places_of(positions.read(self.body)) if self.body else self.places
        return sum(map(len, found.values()))

    @property
    def may_be_pending(self) -> bool:
        """Whether the newest positions may be those of a transaction that has not ended, or was aborted."""
        return self.marked and not self.asked.transactional and self.asked.agreed < AGREED

    def start(self, places: Places) -> None:
        """Measure lag from positions of another source: what was remembered of the partitions is void."""
        self.tracks = {}
        self.place(places)

    def repeat(self, held: Positions) -> bool:
        """Take what is new in positions of known partitions; False where they must be taken as a whole."""
        found = None if self.repeats is None or held.lone != self.lone else self.repeats.take(held)
        if found is None:
            return False
        self.went_back |= found.went_back
        self.last_commit, self.topics_changed = max(self.last_commit, found.newest), False
        return True

    def place(self, places: Places) -> None:
        """Measure lag from these positions from now on."""
        self.places, self.repeats = places, None
        for topic, partition, place in _each(places):
            track = self.tracks.get((topic, partition))
            if track is None:
                track = self.tracks[topic, partition] = Track()
            windows.commit(track, place)
            self.went_back |= track.from_offset >= 0
        for key in [key for key in self.tracks if key[1] not in places.get(key[0], ())]:
            del self.tracks[key]


class Board:
    """The groups' positions and lag; not for several threads, but for `topics`.

    `measures`: whether samples of ends will come. Without them nobody asks for single positions, which are
    the dearest part: when and how fast a group commits is all that is kept.
    """

    def __init__(self, *, measures: bool = True) -> None:
        self._measures = measures
        self.groups: dict[str, Consumed] = {}
        self.sample: EndsSample | None = None
        self.topics: frozenset[str] = frozenset()
        """Topics whose ends matter: replaced as a whole, so any thread may read it."""
        self.asks: tuple[str, ...] = ()
        """Groups whose committed offsets the brokers shall be asked for next; replaced as a whole, too."""
        self._ends: dict[str, list[Ends]] = {}
        self._ids: dict[str, str] = {}
        self._unowned: frozenset[str] = frozenset()
        self._wanted_at = -WANT_MS
        self._then: dict[tuple[str, int], list[int]] = {}

    def publish(self, group: str, body: str, now: int) -> None:
        """Take the positions of a group, as it published them at the clock `now` (ms)."""
        held = positions.read(body)
        if not self._measures and positions.is_plain(held):
            consumed = self.groups.setdefault(group, Consumed())
            consumed.body, consumed.last_commit = body, positions.committed_at(held)
            _note(consumed, held, now)
            return
        if (known := self.groups.get(group)) is not None and known.repeat(held):
            _note(known, held, now)
            return
        found = positions.places_of(held)
        # A topic of a longer name is none that Kafka makes: whoever committed to it forged the record.
        places = {
            t: dict(sorted(partitions.items())) for t, partitions in found.items() if len(t) <= MAX_TOPIC
        }
        if not places:  # All its offsets have expired or were deleted.
            self.forget(group)
            return
        consumed = self.groups.setdefault(group, Consumed())
        consumed.topics_changed = consumed.lone != held.lone or consumed.written.keys() != places.keys()
        consumed.written = places
        consumed.body, consumed.last_commit = "", positions.newest(places)
        _note(consumed, held, now)
        if not self._measures:
            consumed.places = places
        elif not consumed.asked.transactional:
            consumed.place(places)
            consumed.repeats = Repeats(held, places, consumed.tracks)

    def forget(self, group: str) -> None:
        """Forget a group that is gone."""
        self.groups.pop(group, None)

    def trim(self) -> list[str]:
        """Forget the groups that only commit and did so longest ago, where there are too many; return them.

        Any number of names may come and go, and nothing says that one is not used any more.
        """
        if len(self.groups) <= MAX_LONE:
            return []
        lone = [name for name, consumed in self.groups.items() if consumed.lone]
        most = len(lone) - MAX_LONE
        gone = (
            nsmallest(most + MAX_LONE // 10, lone, key=lambda name: self.groups[name].last_commit)
            if most > 0
            else []
        )
        for name in gone:
            self.forget(name)
        return gone

    def want(self, now: int) -> None:
        """Work out which topics to ask for at `now` (ms), now and then: it looks at every position."""
        if not self._measures or self._wanted_at <= now < self._wanted_at + WANT_MS:
            return
        self._wanted_at = now
        since = now - LATELY_MS
        self.topics = frozenset(
            topic
            for consumed in self.groups.values()
            for topic, places in consumed.written.items()
            if any(place.at > since for place in places.values())
        ).union(self._unowned)

    def include(self, unowned: frozenset[str]) -> None:
        """Ask for the ends of topics that no member owns, too."""
        if unowned != self._unowned:
            self._unowned = unowned
            self.topics |= unowned

    def take(self, sample: EndsSample, busy: Collection[str]) -> None:
        """Take a sample of ends; `busy`: groups that rebalance, whose windows begin anew."""
        before = self.sample
        self.sample, self._then = sample, {}
        self._learn(sample)
        asking.take(self.groups, sample)
        for name, consumed in self.groups.items():
            lag = consumed.lag = self._lag(consumed, sample, paused=name in busy)
            if lag.records is not None:
                consumed.totals.add(sample.at, lag.records)
        since = sample.asked_at - before.asked_at if before is not None else 0
        self.asks = asking.choose(self.groups, sample.at, since)

    def arrived(self, consumed: Consumed, begin: int, end: int) -> int:
        """Return how many records came to a group's partitions from `begin` to `end` (ms), interpolated.

        At least: what came before the first sample of an end is not counted.
        """
        return sum(
            max(0, known[partition].end_at(end) - known[partition].end_at(begin))
            for topic, places in consumed.places.items()
            if (known := self._ends.get(topic))
            for partition in places
            if partition < len(known)
        )

    def came_at(self, topic: str, partition: int, offset: int) -> int | None:
        """Return when (ms) the record at an offset was written: -1 not yet, None where nobody knows."""
        known = self._ends.get(topic, ())
        return known[partition].came_at(offset) if 0 <= partition < len(known) else None

    def _learn(self, sample: EndsSample) -> None:
        for topic, ends in sample.latest.items():
            topic_id = sample.ids.get(topic, "")
            if topic_id != self._ids.get(topic, topic_id):
                self._ends.pop(topic, None)
            self._ids[topic] = topic_id
            known = self._ends.setdefault(topic, [])
            known += [Ends() for _ in range(len(ends) - len(known))]
            for one, end in zip(known, ends, strict=False):
                if end >= 0:
                    one.add(sample.asked_at, end)
        for topic in self._ends.keys() - sample.latest.keys() - self.topics:
            del self._ends[topic]
            self._ids.pop(topic, None)

    def _ends_at(self, topic: str, as_of: int) -> list[int]:
        """Return the ends of a topic's partitions at `as_of` (ms): many groups are compared with the same."""
        found = self._then.get((topic, as_of))
        if found is None:
            known = self._ends.get(topic, ())
            found = self._then[topic, as_of] = [ends.end_at(as_of) for ends in known]
        return found

    def _lag(self, consumed: Consumed, sample: EndsSample, *, paused: bool) -> GroupLag:
        as_of = _as_of(consumed, sample)
        topics = {
            topic: self._topic(consumed, topic, sample, as_of, paused=paused) for topic in consumed.places
        }
        return GroupLag(
            sample.at,
            total([topic.records for topic in topics.values()]),
            most([topic.age_ms for topic in topics.values()]),
            sum(topic.unknown for topic in topics.values()),
            topics,
            as_of,
            Source.BROKERS if consumed.asked.transactional else Source.TOPIC,
            consumed.totals,
            sample.asked_at,
        )

    def _topic(
        self, consumed: Consumed, topic: str, sample: EndsSample, as_of: int, *, paused: bool
    ) -> TopicLag:
        ends, known, tracks = sample.latest.get(topic, ()), self._ends.get(topic, ()), consumed.tracks
        asked_at, at, count, then = sample.asked_at, sample.at, len(ends), self._ends_at(topic, as_of)
        found, is_held = [], topic in sample.stable
        for partition, place in consumed.places[topic].items():
            offset, committed_at = place
            end = ends[partition] if partition < count else UNKNOWN
            age = waiting = records(offset, committed_at, end, asked_at)
            if waiting:
                end = min(end, max(offset, then[partition]))
                waiting = end - offset
                age = _age(known[partition], place, as_of) if waiting else 0
            stable = sample.last_stable(topic, partition) if is_held else UNKNOWN
            found.append(PartitionLag(partition, offset, committed_at, end, waiting, age, stable))
            track = tracks[topic, partition]
            if paused:
                windows.pause(track)
            windows.observe(track, waiting, at)
        waits = [one.records for one in found]
        return TopicLag(total(waits), most([one.age_ms for one in found]), waits.count(None), tuple(found))


def _note(consumed: Consumed, held: Positions, now: int) -> None:
    """Take what a group published at the clock `now` (ms) beside its positions."""
    consumed.lone, consumed.marked, consumed.published = held.lone, held.marked, now
    committing.count(consumed.counts, now, held.commits)


def _age(ends: Ends, place: Position, as_of: int) -> int | None:
    told = ends.age(place.offset, max(as_of, place.at))
    return None if told is None else told.estimate


def _as_of(consumed: Consumed, sample: EndsSample) -> int:
    """Return the time (ms) of which positions and ends are compared.

    A group that goes on committing publishes its positions every few seconds: to compare old positions with
    new ends would show records as waiting that were read long ago. One that has published nothing for longer
    has committed nothing. The same holds of answers, which come every half a minute.
    """
    if consumed.asked.transactional:
        answered = consumed.asked.answered
        return answered if consumed.last_commit > answered else max(answered, sample.asked_at)
    is_fresh = sample.asked_at - FRESH_MS <= consumed.published <= sample.asked_at
    return consumed.published if is_fresh else sample.asked_at


def _each(places: Places) -> Iterator[tuple[str, int, Position]]:
    return ((topic, p, place) for topic, found in places.items() for p, place in found.items())
