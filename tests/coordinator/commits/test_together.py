"""Commits of history that are taken together leave what they leave one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalance_monitor.checkpoints.state.codec import encode_state
from rebalance_monitor.coordinator.findings.outputs import Output, StatOut, with_short_names
from rebalance_monitor.coordinator.lag.publishing import MAX_LONE
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import Row
from rebalance_monitor.engine.batch.step import OpenShard, Plan
from tests.coordinator.support.calls import calls_in
from tests.coordinator.support.timeline import T0, Client, Topic
from tests.coordinator.test_invariance import topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.coordinator.state.shard_state import ShardState

SETTINGS = DetectionSettings()
MEMBERS = [
    Client("a-1", (0, 2), "consumer-a", session=30_000),
    Client("b-1", (1,), "rdkafka", "/10.0.0.2", session=6_000),
    Client("c-1", (3,), "kafka-python-2", "/10.0.0.3"),
]
EVERY = (0, 1, 2, 3)
FAR = 10**15
# A client commits all that it has, again and again, but for a few times.
beats = st.sampled_from([100, 160, 500, 1_000, 5_000, 14_000, 20_000])
runs = st.lists(
    st.one_of(
        st.just(("usual", 0)),
        st.just(("usual", 0)),
        st.just(("usual", 0)),
        st.tuples(st.just("later"), st.sampled_from([-40, 60, 3_000, 9_000, 35_000, 400_000])),
        st.tuples(st.just("only"), st.sampled_from([(2, 0), (1,), (1, 1), (3,), (5,), (0, 2)])),
        st.tuples(st.just("stands"), st.sets(st.sampled_from(EVERY), min_size=1)),
        st.tuples(st.just("unknown"), st.sampled_from(EVERY)),
        st.tuples(st.just("clock"), st.sampled_from([-60_000, -4_000])),
        st.tuples(st.just("generation"), st.integers(0, 3)),
    ),
    min_size=20,
    max_size=60,
)


@st.composite
def busy_topics(draw: st.DrawFn) -> Topic:
    """A group that commits all of its partitions and moves them on, but for a few times."""
    topic, at, beat = Topic(), 0, draw(beats)
    offsets = dict.fromkeys(EVERY, 0)
    topic.generation(at, 1, MEMBERS)
    for number, (what, how) in enumerate(draw(runs), start=2):
        at += beat + (how if what == "later" else 0)
        if what == "generation":
            topic.generation(at, number, MEMBERS[:how])
            continue
        stands = how if what == "stands" else ()
        offsets = {place: offset + (place not in stands) for place, offset in offsets.items()}
        listed = how if what == "only" else EVERY
        said = {place: offsets.get(place, 0) for place in listed}
        if what == "unknown":
            said[how] = -1
        topic.commit(at, said)
        if what == "clock":
            topic.rows[-1] = replace(topic.rows[-1], record_ts=topic.rows[-1].record_ts + how)
    return topic


def asleep(state: ShardState, *, silent: bool) -> None:
    """Let the groups be due in a far future, as after a restart of a monitor that was live.

    `silent`: it had said of their first members that they were silent.
    """
    for group in state.groups.values():
        group.wake = FAR
        for member in group.members[:1] if silent else ():
            member.silent_id, member.silent_at = "said", T0


def one_by_one(topic: Topic, ends: int, cut: int, *, silent: bool = False) -> tuple[list[Output], bytes]:
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, ends), SETTINGS, "c", ends)
    found = [out for row in topic.rows[:cut] for out in shard.on_row(row)]
    asleep(shard.state, silent=silent)
    return found + [out for row in topic.rows[cut:] for out in shard.on_row(row)], encode_state(shard.state)


def together(topic: Topic, ends: int, cut: int, *, silent: bool = False) -> tuple[list[Output], bytes]:
    """Two batches, the first of `cut` rows."""
    shard = OpenShard(Plan(SETTINGS, "c", {topic.shard: ends}), topic.shard, 0, None)
    found = shard.advance(topic.rows[:cut], 0, ticks=False)
    asleep(shard.state, silent=silent)
    return found + shard.advance(topic.rows[cut:], 0, ticks=False), encode_state(shard.state)


@settings(max_examples=200, deadline=None)
@given(st.one_of(busy_topics(), busy_topics(), topics()), st.data())
def test_commits_that_are_taken_together_leave_what_they_leave_one_by_one(
    topic: Topic, data: st.DataObject
) -> None:
    ends = max(topic.offset - data.draw(st.integers(0, 60)), 0)
    cut, silent = data.draw(st.integers(0, 40)), data.draw(st.booleans())
    outputs, state = one_by_one(topic, ends, cut, silent=silent)
    found, kept = together(topic, ends, cut, silent=silent)
    assert kept == state
    said = list(map(with_short_names, outputs))
    assert sorted(map(repr, found)) == sorted(map(repr, said))
    assert not [out for out in found if isinstance(out, StatOut) and out.kind == "operator_error"]


@pytest.mark.parametrize("many", [4, 40, 1_022, 1_030, 3_000])
def test_many_commits_of_one_batch_count_as_one_by_one(many: int) -> None:
    topic = Topic()
    topic.generation(0, 1, MEMBERS)
    for number in range(many):
        topic.commit(1_000 + number * 1_000, dict.fromkeys((0, 1, 2, 3), number))
    assert together(topic, topic.offset + 1, 4)[1] == one_by_one(topic, topic.offset + 1, 4)[1]


@pytest.mark.parametrize("cut", range(13, 20))
def test_a_group_that_sleeps_is_woken_by_what_would_wake_it_one_by_one(cut: int) -> None:
    alone = Client("a-1", EVERY, "consumer-a", session=60_000)
    for unknown, beats in [(15, [5_000] * 30), (-1, [20_000] * 15 + [1_000] * 15)]:
        topic, at = Topic(), 0
        topic.generation(at, 1, [alone])
        for number, beat in enumerate(beats):
            at += beat
            topic.commit(at, dict.fromkeys(EVERY, -1 if number == unknown else number))
        assert together(topic, topic.offset + 1, cut)[1] == one_by_one(topic, topic.offset + 1, cut)[1]


class Read(list[Row]):
    """Rows that count how many of them are read."""

    count = 0

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - of an index a row, of a slice a list
        found = super().__getitem__(place)
        self.count += len(found) if isinstance(place, slice) else 1
        return found


@pytest.mark.parametrize("many", [10, 1_000])
def test_a_commit_of_a_large_group_is_not_read_again_with_each_other_one(many: int) -> None:
    topic = Topic()
    topic.generation(0, 1, [Client(f"m-{place}", (place,)) for place in range(many)])
    for place in range(many):
        topic.commit(1_000 + place, {place: 1})
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, topic.offset + 1), SETTINGS, "c")
    shard.on_row(topic.rows[0])
    shard.waiting["g"] = read = Read(topic.rows[1:])
    shard.settle("g")
    assert sum(member.commits for member in shard.state.groups["g"].members) == many
    assert read.count <= 2 * many


def test_of_consumers_without_a_record_those_stay_that_committed_last_in_a_batch() -> None:
    merged = Topic()
    for place in range(MAX_LONE + 1):
        for group in ("steady", f"once-{place}"):
            one = Topic(group, offset=merged.offset)
            one.commit(place, {0: place})
            merged.rows += one.rows
            merged.offset = one.offset
    shard = OpenShard(Plan(SETTINGS, "c", {merged.shard: merged.offset + 1}), merged.shard, 0, None)
    shard.advance(merged.rows, T0, ticks=False)
    last = Topic("last", offset=merged.offset)
    last.commit(60_000, {0: 1})
    shard.advance(last.rows, T0 + 60_000, ticks=True)
    assert shard.state.catching_up_until is None
    assert len(shard.state.lone) == MAX_LONE
    assert {"steady", "last"} <= shard.state.lone.keys()


def calls_of(take: Callable[[Topic, int, int], object], topic: Topic) -> int:
    """Calls of functions while `topic` is taken as history."""
    return calls_in(lambda: take(topic, topic.offset + 1, 0))


@pytest.mark.parametrize(("in_a_row", "share"), [(1, 1.1), (2, 1.1), (4, 1.1), (2_000, 0.2)])
def test_commits_are_taken_together_where_that_costs_less(in_a_row: int, share: float) -> None:
    """Members that commit in turns leave few in a row; many in a row fill the counts of intervals."""
    topic = Topic()
    topic.generation(0, 1, [Client(f"m-{place}", (place,), session=45_000) for place in range(10)])
    for number in range(2_000):
        turn = number // in_a_row % 10
        all_at_once = dict.fromkeys(range(10), number)
        topic.commit(1_000 * number, all_at_once if in_a_row > 10 else {turn: number})
    assert calls_of(together, topic) <= share * calls_of(one_by_one, topic)
