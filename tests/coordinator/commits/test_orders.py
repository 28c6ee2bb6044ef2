"""All intervals between a member's commits, by order of length: what its last ones do not show."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalance_monitor.checkpoints.state.codec import decode_state, encode_state
from rebalance_monitor.coordinator.departure.evidence import HAD_WORK, Departed, Evidence, Trace
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from tests.coordinator.support.timeline import Client, Topic

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import Member

SURE = 0.8
SESSION, POLL = 30_000, 300_000
A, B = Client("a-1", (0,), session=SESSION), Client("b-1", (1,), session=SESSION)


def member_after(gaps: list[int], *, again: int | None = None) -> Member:
    """The member after commits so far apart (ms); `again`: another generation begins after so many."""
    topic = Topic()
    topic.generation(0, 1, [A])
    for place, at in enumerate(accumulate(gaps, initial=1_000)):
        topic.commit(at, {0: place})
        if place == again:
            topic.generation(at + 100, 2, [A, B])
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, None), DetectionSettings(), "test")
    for row in topic.rows:
        shard.on_row(row)
    read = decode_state(encode_state(shard.state))
    (member, *_) = read.groups["g"].members
    return member


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(150, 2_000_000), max_size=60))
def test_every_interval_counts_in_its_order(gaps: list[int]) -> None:
    orders = member_after(gaps).orders
    assert (sum(orders[::2]), sum(orders[1::2])) == (sum(gaps), len(gaps))
    means = [total / count for total, count in zip(orders[::2], orders[1::2], strict=True) if count]
    assert means == sorted(means)


def test_an_interval_across_a_rebalance_is_none_of_its_own() -> None:
    orders = member_after([5_000] * 6 + [90_000] + [5_000] * 6, again=6).orders
    assert orders[-2:] == [60_000, 12]


def test_a_silence_is_not_forgotten_among_thousands_of_commits_and_its_memory_is_bounded() -> None:
    member = member_after([40_000, *[1_000, 2_500, 300, 700] * 1_500])
    assert member.orders[-2:] == [40_000, 1]
    assert max(member.orders[1::2]) <= 1_023
    assert member.gaps == [1_000, 2_500, 300, 700] * 2


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(150, 2**40), max_size=300))
def test_the_orders_of_a_member_take_at_most_120_bytes(gaps: list[int]) -> None:
    assert len(msgspec.msgpack.encode(member_after(gaps).orders)) <= 120


def closed(silence: int, long: int, often: int) -> Departed:
    """It committed every five seconds of late; before, it was also silent for `long` ms, so `often`."""
    orders = (100_000, 20, long * often, often) if often else (100_000, 20)
    trace = Trace(silence, (5_000,) * 8, commits=21 + often, orders=orders)
    return Departed(SESSION, POLL, 2_000_000, trace, "java", work=HAD_WORK)


def shares(*gone: Departed) -> list[list[float]]:
    return explain(Evidence(2_000_000, 0, gone, (), 0, 0, POLL, SESSION)).ways


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("late", [100, 1_500, 4_000])
def test_one_that_was_never_so_silent_before_has_expired(members: int, late: int) -> None:
    found = shares(*[closed(SESSION + late, 0, 0)] * members)
    assert all(ways[Way.DIED] >= SURE for ways in found)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("late", [4_000, 9_000, 20_000])
def test_one_that_was_often_silent_for_as_long_is_not_said_to_have_expired(members: int, late: int) -> None:
    found = shares(*[closed(SESSION + late, 60_000, 200)] * members)
    assert all(ways[Way.DIED] < SURE for ways in found)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 200), min_size=2, max_size=6))
def test_the_more_often_it_was_silent_the_less_its_silence_says(counts: list[int]) -> None:
    found = [shares(closed(SESSION + 1_500, 60_000, often))[0][Way.DIED] for often in sorted(counts)]
    assert all(more <= less + 1e-9 for less, more in pairwise(found))


def test_a_trace_without_orders_is_judged_by_its_last_intervals() -> None:
    one = closed(SESSION + 4_000, 60_000, 200)
    before = replace(one, trace=replace(one.trace, orders=()))
    assert shares(before)[0][Way.DIED] >= SURE > shares(one)[0][Way.DIED]
