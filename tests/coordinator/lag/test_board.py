"""What the board knows of how groups commit is the same whether ends are measured or not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag.board import Board, Consumed
from rebalance_monitor.coordinator.lag.committing import committing, summarise
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry

GROUPS = ("a", "b", "c")
commits = st.lists(
    st.tuples(st.sampled_from(GROUPS), st.integers(0, 3), st.integers(-1, 50), st.integers(0, 5_000)),
    max_size=40,
)


def known(board: Board) -> dict[str, object]:
    return {
        name: (committing(one), one.partitions, one.lone, one.lone and summarise(name, one))
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
            board.publish(group, positions.published(held[group]), now)
            board.want(now)
        assert known(plain) == known(whole)
    assert plain.topics == frozenset()
    assert not any(one.tracks for one in plain.groups.values())


def taken_whole(known: Consumed | None, held: Positions) -> Consumed:
    """The oracle: every position is placed anew."""
    found = known or Consumed()
    places = positions.places_of(held)
    found.place({topic: dict(sorted(one.items())) for topic, one in places.items()})
    return found


requests = st.lists(
    st.tuples(
        st.sampled_from([(0,), (1,), (0, 1), (1, 0, 2), (2, 3, 4, 5)]),
        st.integers(-1, 50),
        st.integers(0, 5_000),
        st.booleans(),
    ),
    max_size=60,
)


@given(requests)
def test_positions_that_repeat_are_the_same_as_positions_that_are_taken_as_a_whole(
    drawn: list[tuple[tuple[int, ...], int, int, bool]],
) -> None:
    """However requests overlap, whatever went back or was dropped, and whenever runs are merged."""
    held, board, now = Positions(), Board(), 0
    expected: Consumed | None = None
    for listed, offset, gap, merges in drawn:
        now += gap
        entries = b"".join(partition_entry(b"t" if not place else None, p) for place, p in enumerate(listed))
        offsets = b"".join(max(offset + p, -1).to_bytes(8, "big", signed=True) for p in listed)
        positions.keep(held, now, entries, offsets)
        if merges:
            positions.merge(held)
        board.publish("g", positions.published(held), now)
        if not positions.places_of(held):
            expected = None
            assert "g" not in board.groups
            continue
        expected = taken_whole(expected, held)
        found = board.groups["g"]
        assert found.places == found.written == expected.places
        assert [list(one) for one in found.places.values()] == [list(one) for one in expected.places.values()]
        assert (found.tracks, found.went_back) == (expected.tracks, expected.went_back)
        assert found.last_commit == positions.newest(expected.places) or offset < 0


@given(commits)
def test_a_sample_counts_the_partitions_that_groups_consume(
    drawn: list[tuple[str, int, int, int]],
) -> None:
    held, board, now = {name: Positions() for name in GROUPS}, Board(), 0
    for group, partition, offset, gap in drawn:
        now += gap
        place = partition_entry(b"t", partition)
        positions.keep(held[group], now, place, offset.to_bytes(8, "big", signed=True))
        board.publish(group, positions.published(held[group]), now)
    board.take(EndsSample(now, now, {"t": (7, 7)}), ())
    assert board.followed == sum(one.partitions for one in board.groups.values())
