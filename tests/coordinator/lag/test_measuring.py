"""A sample against all groups at once says of each partition what plain arithmetic says of it alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag import measuring
from rebalance_monitor.coordinator.lag.arithmetic import most, records, total
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.ends import UNKNOWN, EndsSample
from rebalance_monitor.coordinator.lag.measuring import FRESH_MS, Windows
from rebalance_monitor.coordinator.lag.packed.recent_ends import TopicEnds
from rebalance_monitor.coordinator.lag.retention import FAR, FOLLOWED, nears
from rebalance_monitor.coordinator.lag.windows import MARKER, Owner, Track, Verdict, judge
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry
from tests.coordinator.lag import plain
from tests.coordinator.lag.plain import PlainTrack

ANEW = -2
T0, LEAST, BEHIND = 1_795_000_000_000, 20_000, 40_000
GROUPS, TOPICS, WIDTH = ("a", "b", "c", "d"), ("x", "y"), 3
Key = tuple[str, int]
Lag = tuple[int, int, int, int | None, int | None]
"""Offset, its commit, end, records that wait, and their age."""


class Commit(NamedTuple):
    """A commit some ms after what was before; an offset of -1 drops the partition."""

    gap: int
    group: str
    topic: str
    partition: int
    offset: int


class Asked(NamedTuple):
    """A sample of ends some ms after what was before; `first`: of first offsets too. `busy`: rebalances.

    latest: topic -> what came to each partition, UNKNOWN without an answer, ANEW where it is another log;
    `share`: how many quarters of all that came are gone.
    """

    gap: int
    latest: dict[str, list[int]]
    first: bool
    busy: set[str]
    share: int


gaps = st.integers(0, 9_000)
commits = st.builds(
    Commit, gaps, st.sampled_from(GROUPS), st.sampled_from(TOPICS), st.integers(0, WIDTH), st.integers(-1, 40)
)
answers = st.lists(st.sampled_from([UNKNOWN, ANEW, 0, 0, 1, 2, 5, 9, 9]), min_size=1, max_size=WIDTH)
samples = st.builds(
    Asked,
    gaps,
    st.dictionaries(st.sampled_from(TOPICS), answers, min_size=1),
    st.booleans(),
    st.sets(st.sampled_from(GROUPS)),
    st.integers(0, 4),
)
histories = st.lists(st.one_of(commits, samples), min_size=20, max_size=60)


@dataclass
class Logs:
    """The ends of all partitions, from 20 on."""

    ends: dict[Key, int] = field(default_factory=dict)

    def grown(self, topic: str, more: list[int]) -> tuple[int, ...]:
        found = []
        for partition, count in enumerate(more):
            end = self.ends.get((topic, partition), 20)
            self.ends[topic, partition] = 0 if count == ANEW else end + max(count, 0)
            found.append(UNKNOWN if count == UNKNOWN else self.ends[topic, partition])
        return tuple(found)


@dataclass
class OneByOne:
    """The oracle: every partition of every group alone."""

    held: dict[str, Positions] = field(default_factory=lambda: {name: Positions() for name in GROUPS})
    published: dict[str, int] = field(default_factory=dict)
    tracks: dict[str, dict[Key, PlainTrack]] = field(default_factory=dict)
    went_back: dict[str, dict[Key, int]] = field(default_factory=dict)
    kept: dict[str, dict[Key, bool]] = field(default_factory=dict)
    ends: dict[str, TopicEnds] = field(default_factory=dict)
    near: dict[str, dict[Key, plain.Near]] = field(default_factory=dict)
    lost: dict[str, dict[Key, int]] = field(default_factory=dict)

    def publish(self, group: str, now: int) -> None:
        places = self.places(group)
        if not places:
            for memory in (self.tracks, self.went_back, self.kept, self.near):
                memory.pop(group, None)
            return
        self.published[group] = now
        before = self.tracks.get(group, {})
        tracks = self.tracks[group] = {key: before.get(key, PlainTrack()) for key in places}
        self.went_back[group] = {k: v for k, v in self.went_back.get(group, {}).items() if k in places}
        self.kept[group] = {k: v for k, v in self.kept.get(group, {}).items() if k in places}
        self.near[group] = {k: v for k, v in self.near.get(group, {}).items() if k in places}
        for key, place in places.items():
            plain.commit(tracks[key], place)
            if tracks[key].from_offset >= 0:
                self.went_back[group][key] = tracks[key].from_offset

    def places(self, group: str) -> dict[Key, positions.Position]:
        found = positions.places_of(self.held[group])
        return {(topic, p): place for topic, one in found.items() for p, place in one.items()}

    def sample(self, sample: EndsSample, busy: set[str]) -> dict[str, dict[Key, Lag]]:
        for topic, ends in sample.latest.items():
            self.ends.setdefault(topic, TopicEnds()).add(sample.asked_at, ends)
        for topic in self.ends.keys() - sample.latest.keys():
            # Nobody wants it: the board of this test is never asked which topics it wants.
            del self.ends[topic]
        self.lost = {}
        return {group: self._group(group, sample, paused=group in busy) for group in self.tracks}

    def _group(self, group: str, sample: EndsSample, *, paused: bool) -> dict[Key, Lag]:
        found: dict[Key, Lag] = {}
        since = sample.asked_at - FRESH_MS
        as_of = now if since <= (now := self.published[group]) <= sample.asked_at else sample.asked_at
        for key, place in sorted(self.places(group).items()):
            end = sample.end(*key)
            age = waiting = records(place.offset, place.at, end, sample.asked_at)
            if waiting:
                known = self.ends[key[0]]
                end = min(end, max(place.offset, known.end_at(key[1], as_of)))
                waiting = age = end - place.offset
                if waiting:
                    told = known.age(key[1], place.offset, max(as_of, place.at))
                    age = None if told is None else told.estimate
            track = self.tracks[group][key]
            if paused:
                plain.pause(track)
            plain.observe(track, waiting, sample.at)
            found[key] = (place.offset, place.at, end, waiting, age)
            if sample.earliest:
                self._first(group, key, place, waiting or 0, sample)
        return found

    def _first(
        self, group: str, key: Key, place: positions.Position, waiting: int, sample: EndsSample
    ) -> None:
        begin, before = sample.begin(*key), self.near[group].pop(key, None)
        if begin >= 0 and place.at <= sample.asked_at:
            unread = begin - place.offset if self.kept[group].get(key) else 0
            unread = max(unread, plain.skipped(before, place.offset, begin, sample.at))
            if unread > MARKER:
                self.lost.setdefault(group, {})[key] = unread
            self.kept[group][key] = begin <= place.offset + MARKER
        if 0 <= begin <= place.offset < begin + FOLLOWED * waiting:
            self.near[group][key] = plain.follow(before, place.offset, begin, sample.at)


def told(board: Board) -> dict[str, dict[Key, Lag]]:
    return {
        name: {
            (topic, one.partition): (one.offset, one.committed_at, one.end, one.records, one.age_ms)
            for topic, found in group.lag.topics.items()
            for one in found.partitions
        }
        for name, group in board.groups.items()
        if group.lag is not None
    }


def without_past(track: Track | None) -> tuple[int, ...]:
    assert track is not None
    names = ("offset", "moved", "base", "grown", "cadence", "rising", "low", "lag", "risen")
    return tuple(getattr(track, name) for name in names)


def require_same(board: Board, alone: OneByOne) -> None:
    for group, tracks in alone.tracks.items():
        consumed = board.groups[group]
        for key, track in tracks.items():
            assert without_past(consumed.track(*key)) == without_past(track)
        assert consumed.went_back == alone.went_back[group]


def require_sums(board: Board, found: dict[str, dict[Key, Lag]]) -> None:
    for group, partitions in found.items():
        lag = board.groups[group].lag
        assert lag is not None
        waits = [one[3] for one in partitions.values()]
        ages = [one[4] for one in partitions.values()]
        assert (lag.records, lag.age_ms, lag.unknown) == (total(waits), most(ages), waits.count(None))
        assert sum(one.unknown for one in lag.topics.values()) == lag.unknown
        assert total([one.records for one in lag.topics.values()]) == lag.records
        if lag.records is not None:
            assert board.groups[group].totals[-1] == (lag.at, lag.records)


def require_noticed(board: Board, alone: OneByOne, at: int) -> None:
    """A group of which a partition is to be judged is named; of losses those are named that there are."""
    owners = [Owner(at, every) for every in (1, 9_000)]
    for group, tracks in alone.tracks.items():
        found = {judge(one, at, owner, LEAST, BEHIND) for one in tracks.values() for owner in owners}
        assert group in board.noticed.suspected or found == {Verdict.FINE}
    layouts = {group: list(board.groups[group].places.layout) for group in alone.tracks}
    lost = board.noticed.lost.items()
    assert {
        group: {layouts[group][place]: count for place, count in found} for group, found in lost
    } == alone.lost
    for group, layout in layouts.items():
        consumed, near = board.groups[group], alone.near[group]
        assert [alone.kept[group].get(key, False) for key in layout] == list(map(bool, consumed.kept))
        known = nears([consumed.near or FAR * len(layout)]).tolist()
        assert {key: one for key, one in zip(layout, known, strict=True) if one[0] >= 0} == {
            key: one[:-1] for key, one in near.items()
        }
        assert {layout[place]: jumps for place, jumps in consumed.jumps.items()} == {
            key: one.jumps for key, one in near.items() if one.jumps
        }
        assert group in board.noticed.losing or not (
            consumed.jumps and board.sample and board.sample.earliest
        )


@given(histories, st.sampled_from([1, 4, 1_000]))
def test_many_groups_at_once_are_measured_as_each_partition_alone(
    history: list[Commit | Asked], portion: int
) -> None:
    """Whatever is committed or dropped, whichever ends are unknown or go back, in portions of any size."""
    board, alone, logs, now = Board(), OneByOne(), Logs(), T0
    board.windows = Windows(LEAST, BEHIND)
    with patch.object(measuring, "PORTION", portion):
        for one in history:
            now += one.gap
            if isinstance(one, Commit):
                held, entry = alone.held[one.group], partition_entry(one.topic.encode(), one.partition)
                positions.keep(held, now, entry, one.offset.to_bytes(8, "big", signed=True))
                held.commits += 1
                alone.publish(one.group, now)
                board.publish(one.group, positions.copied(held), now)
                continue
            ends = {topic: logs.grown(topic, found) for topic, found in one.latest.items()}
            begins = {topic: tuple(end * one.share // 4 for end in found) for topic, found in ends.items()}
            sample = EndsSample(now - 30, now, ends, begins if one.first else {})
            board.take(sample, one.busy)
            found = alone.sample(sample, one.busy)
            assert told(board) == found
            require_sums(board, found)
            require_noticed(board, alone, now)
            require_same(board, alone)
    require_same(board, alone)


@given(st.sampled_from([-(2**31), -1, 2, 2**31 - 1]), st.sampled_from([0, T0, 2**63 - 1]))
def test_a_partition_that_no_topic_has_is_unknown_whatever_its_number_and_the_time_of_its_commit(
    partition: int, at: int
) -> None:
    board, held = Board(), Positions()
    positions.keep(held, at, partition_entry(b"x", 0) + partition_entry(None, partition), bytes(16))
    board.publish("a", held, T0)
    for number in range(3):
        now = T0 + 5_000 * number
        board.take(EndsSample(now, now, {"x": (number, 9)}), ())
    lag = board.groups["a"].lag
    assert lag is not None
    assert lag.unknown == 1
    assert {one.partition: one.records for one in lag.topics["x"].partitions} == {0: 2, partition: None}
