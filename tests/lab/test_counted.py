"""Storms by the broker's count: enough generations in the window, of a group that keeps losing members."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.lab.counted import MIN_LOSSES, counted_storms
from rebalance_monitor.lab.foldstate import Fact

LIMITS = DetectionSettings()
COUNT, WINDOW = LIMITS.storm_threshold, LIMITS.storm_window_ms
LOSS = f"cause:{Cause.POLL_INTERVAL_EXCEEDED}"


def generations(times: list[int], group: str = "g") -> list[Fact]:
    return [Fact(Kind.REBALANCE, group, number, "", at) for number, at in enumerate(times)]


def losses(times: list[int], group: str = "g") -> list[Fact]:
    return [Fact(LOSS, group, -1, f"m-{number}", at) for number, at in enumerate(times)]


def stormy(times: list[int], lost: list[int]) -> bool:
    """The definition, counted window by window."""
    return any(
        sum(end - WINDOW < at <= end for at in times) >= COUNT
        and sum(end - WINDOW < at <= end for at in lost) >= MIN_LOSSES
        for end in times
    )


@given(
    times=st.lists(st.integers(0, 3 * WINDOW), max_size=3 * COUNT, unique=True),
    lost=st.lists(st.integers(0, 3 * WINDOW), max_size=3 * MIN_LOSSES),
)
def test_a_storm_is_counted_where_some_window_has_the_generations_and_the_losses(
    times: list[int], lost: list[int]
) -> None:
    found = counted_storms(generations(times) + losses(lost))
    assert bool(found) == stormy(times, lost)


def test_one_storm_for_each_group_and_nobody_has_to_tell_of_it() -> None:
    often = list(range(0, WINDOW, WINDOW // (3 * COUNT)))
    facts = (
        generations(often, "a") + losses(often[:4], "a") + generations(often, "b") + losses(often[:4], "b")
    )
    found = counted_storms(facts)
    assert [(one.label, one.group, one.required) for one in found] == [
        (Kind.STORM, "a", False),
        (Kind.STORM, "b", False),
    ]


def test_a_restart_among_members_that_leave_by_themselves_is_none_however_often_it_rebalances() -> None:
    often = list(range(0, WINDOW, WINDOW // (4 * COUNT)))
    left = [Fact(f"cause:{Cause.MEMBER_LEFT}", "g", -1, f"m-{at}", at) for at in often]
    assert counted_storms(generations(often) + left) == []
