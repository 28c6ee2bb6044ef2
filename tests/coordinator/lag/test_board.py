"""What the board packs and keeps: held to plain maps of positions and windows, whatever comes."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.committing import committing, summarise
from rebalance_monitor.coordinator.lag.consumed import MOST_PENDING, NO_WINDOWS, Consumed
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.lag.measured import TOTALS_KEPT, Totals
from rebalance_monitor.coordinator.lag.windows import Track
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry
from tests.coordinator.lag import plain as rules
from tests.coordinator.lag.plain import PlainTrack

T0 = 1_795_000_000_000
GROUPS = ("a", "b", "c")
commits = st.lists(
    st.tuples(st.sampled_from(GROUPS), st.integers(0, 3), st.integers(-1, 50), st.integers(0, 5_000)),
    max_size=40,
)


def known(board: Board) -> dict[str, object]:
    return {
        name: (committing(one)[:2], one.partitions, one.lone, one.lone and summarise(name, one))
        for name, one in board.groups.items()
    }


@given(commits, st.sets(st.sampled_from(GROUPS)))
def test_when_and_how_fast_groups_commit_needs_no_single_position(
    drawn: list[tuple[str, int, int, int]], lone: set[str]
) -> None:
    """An offset of -1 says that the coordinator has dropped the partition; the last one drops the group."""
    held = {name: Positions(lone=name in lone) for name in GROUPS}
    whole, plain, now = Board(), Board(measures=False), 0
    for group, partition, offset, gap in drawn:
        now += gap
        positions.keep(
            held[group], now, partition_entry(b"t", partition), offset.to_bytes(8, "big", signed=True)
        )
        held[group].commits += 1
        for board in (whole, plain):
            board.publish(group, positions.copied(held[group]), now)
            board.want(now)
        assert known(plain) == known(whole)
    assert plain.topics == frozenset()
    assert all(one.windows is NO_WINDOWS for one in plain.groups.values())


@dataclass
class Plain:
    """The oracle: a plain map of positions and windows, every position taken anew."""

    tracks: dict[tuple[str, int], PlainTrack] = field(default_factory=dict)
    went_back: dict[tuple[str, int], int] = field(default_factory=dict)

    def take(self, places: positions.Places) -> None:
        flat = {(topic, p): place for topic, found in places.items() for p, place in found.items()}
        self.tracks = {key: self.tracks.get(key, PlainTrack()) for key in flat}
        self.went_back = {key: before for key, before in self.went_back.items() if key in flat}
        for key, place in flat.items():
            track = self.tracks[key]
            rules.commit(track, place)
            if track.from_offset >= 0:
                self.went_back[key] = track.from_offset


request = st.tuples(
    st.sampled_from([(0,), (1,), (0, 1), (1, 0, 2), (2, 3, 4, 5)]),
    st.integers(-1, 50),
    st.integers(0, 5_000),
    st.booleans(),
)
requests = st.lists(request, max_size=60)


@given(requests)
def test_packed_positions_and_windows_are_those_of_a_plain_map(
    drawn: list[tuple[tuple[int, ...], int, int, bool]],
) -> None:
    """However requests overlap, whatever went back or was dropped, and whenever runs are merged."""
    held, board, now = Positions(), Board(), 0
    plain = Plain()
    for listed, offset, gap, merges in drawn:
        now += gap
        commit(held, now, listed, offset)
        if merges:
            positions.merge(held)
        board.publish_all({"g": positions.copied(held)}, now, {})
        places = positions.places_of(held)
        if not places:
            plain = Plain()
            assert "g" not in board.groups
            continue
        plain.take(places)
        found = board.groups["g"]
        assert found.places is found.written
        assert {(t, p): place for t, p, place in found.places} == {
            (t, p): place for t, one in places.items() for p, place in one.items()
        }
        assert [(t, p) for t, p, _ in found.places] == sorted(plain.tracks)
        assert {key: unmoved(found.track(*key)) for key in plain.tracks} == {
            key: unmoved(track) for key, track in plain.tracks.items()
        }
        assert found.went_back == plain.went_back
        assert found.last_commit == positions.newest(places) or offset < 0


def commit(held: Positions, now: int, listed: tuple[int, ...], offset: int) -> None:
    entries = b"".join(partition_entry(b"t" if not place else None, p) for place, p in enumerate(listed))
    offsets = b"".join(max(offset + p, -1).to_bytes(8, "big", signed=True) for p in listed)
    positions.take_commits(held, now, entries, offsets)


@given(st.lists(st.dictionaries(st.sampled_from(GROUPS), st.lists(request, max_size=3)), max_size=20))
def test_many_groups_are_published_at_once_as_one_after_the_other(
    rounds: list[dict[str, list[tuple[tuple[int, ...], int, int, bool]]]],
) -> None:
    held, together, alone, now = {name: Positions() for name in GROUPS}, Board(), Board(), 0
    for drawn in rounds:
        for group, wanted in drawn.items():
            for listed, offset, gap, merges in wanted:
                now += gap
                commit(held[group], now, listed, offset)
                if merges:
                    positions.merge(held[group])
        together.publish_all({name: positions.copied(held[name]) for name in drawn}, now, {"a": 7})
        for name in drawn:
            alone.publish(name, positions.copied(held[name]), now, {"a": 7}.get(name, -1))
        sample = EndsSample(now, now, {"t": (60,) * 6})
        for board in (together, alone):
            board.take(sample, ())
        assert seen(together) == seen(alone)


def tracks_of(one: Consumed) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(topic, partition): unmoved(one.track(topic, partition)) for topic, partition, _ in one.places}


def seen(board: Board) -> dict[str, object]:
    return {
        name: (tracks_of(one), one.went_back, one.last_commit, one.counts, one.shard, one.runs)
        for name, one in board.groups.items()
    }


def unmoved(track: Track | None) -> tuple[int, ...]:
    """Where a position went back from is kept beside the windows."""
    assert track is not None
    return tuple(getattr(track, name) for name in Track.__struct_fields__)


def test_groups_with_the_same_partitions_share_what_says_which() -> None:
    board = Board()
    for group in GROUPS:
        held = Positions()
        positions.keep(held, 1, partition_entry(b"t", 3) + partition_entry(None, 5), bytes(16))
        board.publish(group, positions.copied(held), 1)
    assert len({id(one.places.layout) for one in board.groups.values()}) == 1


@given(st.lists(st.tuples(st.integers(0, 2**33), st.integers(0, 2**34)), max_size=300))
def test_totals_keep_the_newest_whatever_their_size(drawn: list[tuple[int, int]]) -> None:
    totals, at = Totals(), T0
    expected = []
    for gap, waiting in drawn:
        at += gap
        totals.add(at, waiting)
        expected.append((at, waiting))
    assert list(totals) == expected[-TOTALS_KEPT:]
    assert totals[-3:] == expected[-3:]
    assert totals.every(5) == [waiting for _, waiting in expected[-TOTALS_KEPT:][::-1][::5]][::-1]


@given(commits)
def test_a_sample_counts_the_partitions_that_groups_consume(
    drawn: list[tuple[str, int, int, int]],
) -> None:
    held, board, now = {name: Positions() for name in GROUPS}, Board(), 0
    for group, partition, offset, gap in drawn:
        now += gap
        place = partition_entry(b"t", partition)
        positions.keep(held[group], now, place, offset.to_bytes(8, "big", signed=True))
        board.publish(group, positions.copied(held[group]), now)
    board.take(EndsSample(now, now, {"t": (7, 7)}), ())
    assert board.followed == sum(len(p) for one in held.values() for p in positions.places_of(one).values())


def test_a_group_that_publishes_while_no_sample_comes_copies_no_windows_of_others() -> None:
    """Every group does so while the brokers are away: 10,000 copies of what all groups have are seconds."""
    board, wide, width = Board(), 20_000, 3
    for group, partitions in (("large", wide), ("small", width)):
        board.publish(group, committed_by_all(partitions, 1), 1_000)
    board.take(EndsSample(1_000, 1_001, {"x": (99,) * wide}), ())
    large, small = board.groups["large"], board.groups["small"]
    assert small.windows is large.windows
    held = [committed_by_all(width, offset) for offset in range(2, MOST_PENDING + 4)]
    tracemalloc.start()
    for number, one in enumerate(held):
        board.publish("small", one, 2_000 + number)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(small.pending) < len(held)
    assert most < large.windows.values.nbytes / 4
    assert unmoved(small.track("x", width - 1)) == unmoved(small.track("x", 0))
    assert small.track_at(0).moved == MOST_PENDING + 3
    assert large.track_at(0).moved == 1


def committed_by_all(partitions: int, offset: int) -> Positions:
    """The offset is the time of its commit, too."""
    held, later = Positions(), [partition_entry(None, place) for place in range(1, partitions)]
    entries = b"".join([partition_entry(b"x", 0), *later])
    positions.keep(held, offset, entries, offset.to_bytes(8, "big") * partitions)
    held.commits = offset
    return held
