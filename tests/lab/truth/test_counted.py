"""Storms by the broker's count: of a group that loses members, and then those that came in their place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.lab.truth.counted import MIN_LOSSES, counted_storms
from rebalance_monitor.lab.truth.fold import Fact

LIMITS = DetectionSettings()
COUNT, WINDOW = LIMITS.storm_threshold, LIMITS.storm_window_ms
SECOND = 1_000


def generations(times: list[int], group: str = "g") -> list[Fact]:
    return [Fact(Kind.REBALANCE, group, number, "", at) for number, at in enumerate(times)]


def lost(member: str, at: int, group: str = "g", cause: Cause = Cause.SESSION_TIMEOUT) -> Fact:
    return Fact(f"cause:{cause}", group, -1, member, at)


def joined(member: str, at: int, group: str = "g") -> Fact:
    return Fact(f"cause:{Cause.MEMBER_JOINED}", group, -1, member, at)


def crash_loop(times: list[int], group: str = "g") -> list[Fact]:
    """One after the other comes and is lost, ten seconds later, at these times."""
    lives = [(f"life-{number}", at) for number, at in enumerate(times)]
    return [
        fact for name, at in lives for fact in (joined(name, at - 10 * SECOND, group), lost(name, at, group))
    ]


@given(
    times=st.lists(st.integers(1, 3 * WINDOW), max_size=3 * COUNT, unique=True),
    losses=st.lists(st.integers(1, 3 * WINDOW), max_size=3 * MIN_LOSSES, unique=True),
)
def test_a_storm_is_counted_where_some_window_has_the_generations_and_the_losses(
    times: list[int], losses: list[int]
) -> None:
    # The first is lost before everything: all that follow may count.
    facts = [
        lost("first", 0),
        *(joined(f"m-{at}", at) for at in losses),
        *(lost(f"m-{at}", at) for at in losses),
    ]
    stormy = any(
        sum(end - WINDOW < at <= end for at in times) >= COUNT
        and sum(end - WINDOW < at <= end for at in losses) >= MIN_LOSSES
        for end in times
    )
    assert bool(counted_storms(facts + generations(sorted(times)))) == stormy


def test_one_storm_for_each_group_and_it_may_be_missed() -> None:
    often = list(range(0, WINDOW, WINDOW // (3 * COUNT)))
    loops = [fact for group in "ab" for fact in (*generations(often, group), *crash_loop(often[:4], group))]
    assert [(one.label, one.group, one.required) for one in counted_storms(loops)] == [
        (Kind.STORM, "a", False),
        (Kind.STORM, "b", False),
    ]


def often(count: int) -> list[int]:
    return [number * 5 * SECOND for number in range(1, count + 1)]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(
            [
                *generations(often(4 * COUNT)),
                *(lost(f"m-{at}", at, cause=Cause.MEMBER_LEFT) for at in often(9)),
            ],
            id="members that leave by themselves",
        ),
        pytest.param(
            [
                *generations(often(COUNT)),
                *(lost(name, 12 * SECOND, cause=Cause.POLL_INTERVAL_EXCEEDED) for name in "bc"),
                *(joined(f"{name}-again", 20 * SECOND) for name in "bc"),
            ],
            id="two that stall once each and return",
        ),
        pytest.param(
            [
                *generations(often(2 * COUNT)),
                *(
                    fact
                    for at in often(6)
                    for fact in (lost(f"old-{at}", at), joined(f"new-{at}", at + SECOND))
                ),
            ],
            id="everybody restarted by turns, without a goodbye",
        ),
        pytest.param(
            [*generations(often(2 * COUNT)), *crash_loop([200 * SECOND, 210 * SECOND, 220 * SECOND])],
            id="generations of a start, then losses",
        ),
        pytest.param(
            [
                lost("first", 0),
                *(Fact(Kind.REBALANCE, "g", n // 3, "", at) for n, at in enumerate(often(3 * COUNT - 3))),
                *crash_loop([20 * SECOND, 30 * SECOND]),
            ],
            id="fewer generations than facts of them",
        ),
    ],
)
def test_nothing_else_is_one_however_often_it_rebalances(facts: list[Fact]) -> None:
    assert counted_storms(facts) == []
