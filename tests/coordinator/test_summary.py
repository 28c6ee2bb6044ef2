"""Summaries of groups: what a page shows between findings, as often as it changes and no oftener."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.outputs import GroupOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.summary import ranges
from tests.coordinator.support.timeline import T0, Client, S, Topic, outputs

A = Client("a-1", (0, 1), "consumer-g-1")
B = Client("b-1", (2, 3), "consumer-g-2", "/10.0.0.2")


def two_members(end_b: int) -> Topic:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.commits(500, 60_000, A)
    topic.commits(700, end_b, B)
    return topic


def summaries(topic: Topic, until: int = 0) -> list[dict[str, Any]]:
    found = outputs(topic.sorted(), DetectionSettings(summary_interval_ms=2_000), until=until)
    return [out.summary for out in found if isinstance(out, GroupOut)]


def deadlines(summary: dict[str, Any]) -> dict[str, int]:
    return {member["client_id"]: member["deadline"] for member in summary["member_list"]}


def test_members_that_show_life_count_down_to_nothing() -> None:
    (only,) = summaries(two_members(60_000))
    assert deadlines(only) == {"consumer-g-1": -1, "consumer-g-2": -1}
    assert [member["assigned"] for member in only["member_list"]] == [{"orders": "0-1"}, {"orders": "2-3"}]


def test_a_silent_member_counts_down_from_half_its_session_timeout_on() -> None:
    found = summaries(two_members(30_700))
    counting = [one for one in found if deadlines(one)["consumer-g-2"] > 0]
    deadline = T0 + 30_700 + 1_000 + S
    assert {deadlines(one)["consumer-g-2"] for one in counting} == {deadline}
    assert [member["silent"] for member in counting[0]["member_list"]] == [False, False]
    assert [member["silent"] for member in found[-1]["member_list"]] == [False, True]


def test_a_member_that_comes_back_stops_counting_down() -> None:
    topic = two_members(30_700)
    topic.commits(35_700, 60_000, B)
    found = summaries(topic)
    assert any(deadlines(one)["consumer-g-2"] > 0 for one in found)
    assert deadlines(found[-1])["consumer-g-2"] == -1
    assert len(found) <= 4


def test_an_empty_group_says_when_its_offsets_expire() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commit(5_000, {0: 1})
    topic.generation(10_000, 2, [])
    last = summaries(topic, until=5_000)[-1]
    assert last["offsets_expire_at"] == T0 + 10_000 + DetectionSettings().offsets_retention_ms


def test_simple_consumers_leave_no_state() -> None:
    topic = Topic()
    topic.commit(0, {0: 1})
    assert not [out for out in outputs(topic, until=10_000) if isinstance(out, GroupOut)]


def test_a_summary_comes_on_change_and_not_more_often_than_its_interval() -> None:
    topic = Topic()
    for number in range(1, 10):
        topic.generation(number * 1_000, number, [A])
    summaries = [out for out in outputs(topic, until=30_000) if isinstance(out, GroupOut)]
    assert 1 <= len(summaries) <= 3
    assert summaries[-1].summary["generation"] == 9


@pytest.mark.parametrize(("given", "text"), [([], ""), ([4], "4"), ([3, 1, 2, 7], "1-3,7"), ([0, 2], "0,2")])
def test_partitions_are_published_as_ranges(given: list[int], text: str) -> None:
    assert ranges(given) == text


@given(st.sets(st.integers(0, 400)))
def test_ranges_are_bounded_and_lose_nothing_below_the_bound(partitions: set[int]) -> None:
    pieces = ranges(sorted(partitions)).split(",") if partitions else []
    assert len(pieces) <= 51
    if "…" not in pieces:
        bounds = [tuple(map(int, piece.split("-"))) for piece in pieces]
        assert {p for bound in bounds for p in range(bound[0], bound[-1] + 1)} == partitions


@pytest.mark.parametrize("place", [0, 30, 55, 59])
@pytest.mark.parametrize("stops", [30_000, 90_000])
def test_of_a_large_group_the_member_that_holds_up_the_others_is_listed_wherever_it_stands(
    place: int, stops: int
) -> None:
    """It stopped before the others did, or commits on."""
    members = [Client(f"m{i:02}", (i,), f"consumer-{i}", f"/10.0.0.{i}") for i in range(60)]
    topic = Topic()
    topic.generation(0, 1, members)
    for number, member in enumerate(members):
        topic.commits(500 + number, stops if number == place else 60_000, member, every=2_000)
    told = [out.summary for out in outputs(topic.sorted(), until=5_000) if isinstance(out, GroupOut)]
    listed = [member["member_id"] for member in told[-1]["member_list"]]
    assert f"m{place:02}" in listed
    assert len(listed) == len(set(listed)) == DetectionSettings().summary_members
    assert listed == sorted(listed)
