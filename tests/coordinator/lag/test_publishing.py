"""Positions leave the coordinator at most once in 5 s a group, and all of them to whoever has none."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from rebalance_monitor.checkpoints.state.codec import decode_state, encode_state
from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.commits.positions import Places, Position
from rebalance_monitor.coordinator.findings.outputs import Output, PositionsOut
from rebalance_monitor.coordinator.lag.publishing import MAX_LONE, MAX_LONE_BYTES, PUBLISH_MS, WAIT_MS
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.shard_state import ShardState
from rebalance_monitor.decoders.rows import COMMIT_RUN
from tests.coordinator.support.classic import A, B, two_members
from tests.coordinator.support.timeline import T0, Topic, text


def shard(state: ShardState, reader: int = 1) -> ShardCoordinator:
    return ShardCoordinator(state, DetectionSettings(), "c1", reader=reader)


def fresh(history: int | None = None) -> ShardState:
    return new_shard_state(7, 0, history)


def told(out: list[Output]) -> list[PositionsOut]:
    return [one for one in out if isinstance(one, PositionsOut)]


def places(out: PositionsOut) -> Places:
    return positions.places_of(out.held)


def played(
    coordinator: ShardCoordinator, topic: Topic, last: int, every: int = 1_000
) -> list[tuple[int, PositionsOut]]:
    """Let the topic's rows and a clock each second pass; what was published, with its clock."""
    rows, found = sorted(topic.rows, key=lambda row: row.record_ts), []
    for second in range(every, last + 1, every):
        while rows and rows[0].record_ts < T0 + second:
            row = rows.pop(0)
            # As in the topic: offsets ascend with time.
            row = replace(row, first_offset=row.record_ts, last_offset=row.record_ts)
            assert not told(coordinator.on_row(row))
        found += [(second, out) for out in told(coordinator.on_clock(T0 + second))]
    return found


def test_a_group_that_commits_every_second_is_published_every_5_s_with_its_newest() -> None:
    found = played(shard(fresh()), two_members(60_000, idle=False), 60_000)
    clocks = [at for at, _ in found]
    assert all(after - before >= PUBLISH_MS for before, after in pairwise(clocks))
    assert all(after - before <= PUBLISH_MS + 1_000 for before, after in pairwise(clocks))
    for at, out in found:
        newest = {p: place.at - T0 for p, place in places(out)["orders"].items()}
        assert all(at - 1_000 <= when < at for when in newest.values()), (at, newest)
        assert set(newest) == {*A.partitions, *B.partitions}


def test_groups_that_commit_every_5_s_are_published_together_each_with_its_newest_commit() -> None:
    topic = Topic()
    for group, first in (("early", 340), ("late", 790)):
        topic.group = group
        topic.generation(first - 300, 1, [A])
        topic.commits(first, 60_000, A, every=5_000, moving=1)
    found = played(shard(fresh()), topic, 60_000, every=250)
    assert {at % 1_000 for at, _ in found} == {0}
    assert len(found) == 2 * len({at for at, _ in found}) >= 10
    for at, out in found:
        (newest,) = {place.at - T0 for place in places(out)["orders"].values()}
        assert at - 1_000 <= newest < at, (at, out.group, newest)


def test_the_last_commit_before_a_silence_is_published_too() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commits(500, 12_500, A, moving=1)
    found = played(shard(fresh()), topic, 30_000)
    assert places(found[-1][1])["orders"][0] == Position(112, T0 + 12_500)
    assert found[-1][0] <= 12_500 + PUBLISH_MS + WAIT_MS + 1_000


def test_a_reader_that_is_new_is_given_everything_once() -> None:
    topic = two_members(20_000)
    topic.group = "lone"
    topic.commit(9_000, {5: 77})
    state = fresh()
    played(shard(state), topic, 60_000)
    again = decode_state(encode_state(state))
    assert not told(shard(again).on_clock(T0 + 61_000))
    anew = told(shard(again, reader=2).on_clock(T0 + 62_000))
    assert [out.group for out in anew] == ["g", "lone"]
    assert not told(shard(again, reader=2).on_clock(T0 + 70_000))


def test_history_publishes_nothing_until_it_has_been_read() -> None:
    found = played(shard(fresh(history=T0 + 30_000)), two_members(20_000), 40_000)
    assert found[0][0] in {31_000, 32_000}
    assert set(places(found[0][1])["orders"]) == {0, 1, 2, 3}


def test_positions_outlive_the_end_of_a_group_s_members_and_another_protocol() -> None:
    topic = two_members(5_000)
    topic.generation(61_000, 2, [])
    topic.commit(62_000, {0: 900})
    found = played(shard(fresh()), topic, 80_000)
    assert places(found[-1][1])["orders"][0] == Position(900, T0 + 62_000)
    assert places(found[-1][1])["orders"][3].offset == 100


def test_a_group_s_own_record_takes_over_what_was_committed_before_it() -> None:
    topic = Topic()
    topic.commit(1_000, {8: 5})
    topic.generation(2_000, 1, [A])
    state = fresh()
    found = played(shard(state), topic, 20_000)
    assert places(found[-1][1]) == {"orders": {8: Position(5, T0 + 1_000)}}
    assert not state.lone


def test_an_offset_that_expires_is_a_position_no_more() -> None:
    topic = two_members(5_000)
    topic.record(8_000, b"\0\1" + text("g") + text("orders") + b"\0\0\0\2", None)
    found = played(shard(fresh()), topic, 20_000)
    assert set(places(found[-1][1])["orders"]) == {0, 1, 3}


@pytest.mark.parametrize("more", [0, 3])
def test_groups_without_records_are_bounded_and_those_out_are_counted(more: int) -> None:
    state = fresh()
    coordinator = shard(state)
    for number in range(MAX_LONE + more):
        topic = Topic(group=f"lone-{number:04}", offset=number)
        topic.commit(number, {0: number})
        coordinator.on_row(topic.rows[0])
    assert len(state.lone) == MAX_LONE
    assert state.lone_dropped == more
    assert (f"lone-{0:04}" in state.lone) is (more == 0)
    assert len(told(coordinator.on_clock(T0 + 60_000))) == MAX_LONE


def test_groups_of_very_many_partitions_are_kept_as_far_as_a_shard_has_room() -> None:
    state = fresh()
    coordinator = shard(state)
    for number in range(100):
        topic = Topic(group=f"lone-{number:04}", offset=5_000 * number)
        topic.commit(number, dict.fromkeys(range(5_000), number))
        coordinator.on_row(topic.rows[0])
    assert len(state.lone) > 10
    assert sum(map(len, state.lone.values())) <= MAX_LONE * MAX_LONE_BYTES * 4 / 3
    assert state.lone_dropped == 100 - len(state.lone)


@pytest.mark.parametrize("lone", [True, False])
@pytest.mark.parametrize(("missing", "marked"), [(0, False), (1, True), (2, False)])
def test_a_hole_of_one_offset_behind_a_commit_marks_its_group(
    missing: int,
    marked: bool,  # noqa: FBT001
    lone: bool,  # noqa: FBT001
) -> None:
    topic = two_members(20_000, idle=False)
    rows = [row for row in topic.rows if not lone or row.row_kind == COMMIT_RUN]
    state, offset, found = fresh(), 0, []
    for number, row in enumerate(sorted(rows, key=lambda row: row.record_ts)):
        shard(state).on_row(replace(row, first_offset=offset, last_offset=offset))
        offset += 1 + (missing if row.row_kind == COMMIT_RUN and number > len(rows) // 2 else 0)
        # A shard's state may be stored between any two rows.
        state = decode_state(encode_state(state))
        found += told(shard(state).on_clock(row.record_ts))
    assert found[-1].held.marked is marked
    assert found[0].held.marked is False
