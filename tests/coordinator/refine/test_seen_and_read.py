"""What looks and records say of the same thing at the same time, taken together in either order."""

import json
from dataclasses import replace
from typing import Any

import pytest

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.refine.test_suppressed import T0, finding, look, storming

SETTINGS = DetectionSettings()
STUCK_S = 60
PREPARING = "PreparingRebalance"


def again(live: Live) -> Live:
    return Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))


def of(found: list[Finding], *kinds: Kind) -> list[tuple[Kind, str | None]]:
    return [(one.kind, one.phase) for one in found if one.kind in kinds]


def reconciling(at: int, group_type: str = "consumer", state: str = "Reconciling") -> ProbeSample:
    return replace(look(at), groups=(RebalancingGroup("g", state, group_type, group_type),))


def summary(state: str, as_of: int, away: int = 0) -> dict[str, dict[str, Any]]:
    return {"g": {"state": state, "as_of": T0 + as_of, "generation": 7, "away": away}}


def test_a_storm_whose_generations_complete_no_more_goes_on_as_long_as_samples_see_it() -> None:
    live = Live(SETTINGS, "c1")
    (opened,) = live.refine([finding(Kind.STORM, "opened", 0, "r1", opened_at=T0)])
    assert storming(live, 0, 300_000) == []
    assert live.refine([finding(Kind.STORM, "resolved", 300_000, "r1", opened_at=T0)]) == []
    live = again(live)
    assert "r1" in live.opened
    assert storming(live, 300_000, 600_000) == []
    (ended,) = [
        one
        for one in live.on_samples([look(at) for at in range(600_000, 900_000, 1_000)])
        if one.kind is Kind.STORM
    ]
    assert (ended.phase, ended.incident, ended.opened_at) == ("resolved", opened.incident, T0)
    assert [one.phase for one in storming(live, 900_000, 1_200_000)] == ["opened"]


def test_a_storm_of_the_records_goes_on_where_generations_complete_again() -> None:
    live = Live(SETTINGS, "c1")
    live.refine([finding(Kind.STORM, "opened", 0, "r1", opened_at=T0)])
    storming(live, 0, 300_000)
    live.refine([finding(Kind.STORM, "resolved", 300_000, "r1", opened_at=T0)])
    storming(live, 300_000, 310_000)
    (told,) = live.refine([finding(Kind.STORM, "opened", 310_000, "r2", opened_at=T0 + 310_000)])
    assert (told.phase, told.incident, told.opened_at) == ("updated", "r1", T0)


def test_samples_of_a_storm_that_is_over_do_not_count_for_another_one() -> None:
    live = Live(SETTINGS, "c1")
    live.refine([finding(Kind.STORM, "opened", 0, "r1")])
    storming(live, 0, 70_000)
    live.on_samples([look(at) for at in range(70_000, 125_000, 1_000)])
    assert live.refine([finding(Kind.STORM, "resolved", 125_000, "r1")])
    barrier = live.on_samples([look(at, state=PREPARING) for at in range(125_000, 155_000, 1_000)])
    assert of(barrier, Kind.STORM) == []


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_storm_is_seen_though_its_coordinator_answers_only_some_samples(every: int) -> None:
    live, found = Live(SETTINGS, "c1"), []
    for at in range(0, 300_000, 1_000):
        answers = at // 1_000 % every == 0
        state = PREPARING if answers and at % 15_000 else ""
        found += live.on_samples([look(at, answered=answers, state=state)])
    assert of(found, Kind.STORM) == [(Kind.STORM, "opened")]


def test_a_group_that_rebalances_in_few_of_the_samples_that_were_answered_is_no_storm() -> None:
    live, found = Live(SETTINGS, "c1"), []
    for at in range(0, 300_000, 1_000):
        answers = at // 1_000 % 2 == 0
        state = PREPARING if answers and at % 10_000 < 4_000 else ""
        found += live.on_samples([look(at, answered=answers, state=state)])
    assert of(found, Kind.STORM) == []


def test_a_storm_that_damaged_records_never_end_does_not_hide_the_next_one() -> None:
    for damaged, told in ((7, ["opened"]), (8, [])):
        live = Live(SETTINGS, "c1")
        live.refine([finding(Kind.STORM, "opened", 0, "r1")])
        live = again(live)
        live.forget_records(damaged)
        assert [one.phase for one in storming(live, 3_600_000, 3_900_000)] == told


def test_samples_are_judged_by_the_generations_that_were_read_with_them() -> None:
    """A slow batch, or the first one after a restart, brings many of both."""
    ends = [finding(Kind.REBALANCE, None, at, None) for at in (30_000, 60_000, 90_000, 120_000)]
    live = Live(SETTINGS, "c1")
    whole = live.on_samples(
        [look(at, state=PREPARING) for at in range(0, 150_000, 1_000)], findings=ends[::-1]
    )
    assert of(whole, Kind.REBALANCE_STUCK) == []
    live = Live(SETTINGS, "c1")
    few = live.on_samples([look(at, state=PREPARING) for at in range(0, 150_000, 1_000)], findings=ends[:1])
    (stuck,) = (one for one in few if one.kind is Kind.REBALANCE_STUCK)
    assert stuck.opened_at == T0 + 30_000


def test_a_join_phase_that_was_begun_again_after_a_generation_is_not_ended_by_it() -> None:
    live = Live(SETTINGS, "c1")
    states = ("CompletingRebalance", PREPARING)
    ended = finding(Kind.REBALANCE, None, 500, None)
    found = live.on_samples(
        [look(at, state=states[at // 1_000 % 2]) for at in range(0, 10_000, 1_000)], findings=[ended]
    )
    live.refine([ended])
    found += live.on_samples([look(at, state=PREPARING) for at in range(10_000, 80_000, 1_000)])
    (stuck,) = (one for one in found if one.kind is Kind.REBALANCE_STUCK)
    assert stuck.opened_at == T0 + 9_000


@pytest.mark.parametrize("batch", [1, 2, 5, 10])
def test_a_convergence_that_ends_in_a_batch_is_not_stuck_for_its_last_samples(batch: int) -> None:
    """Its summary says that it is stable as of a time after these looks."""
    live, found, ends = Live(SETTINGS, "c1"), [], 75_500
    for first in range(0, 90, batch):
        until = (first + batch) * 1_000
        times = range(first * 1_000, until, 1_000)
        looks = [reconciling(at) if at < ends else look(at) for at in times]
        found += live.on_samples(looks, summary("Reconciling" if until <= ends else "Stable", until))
    assert of(found, Kind.REBALANCE_STUCK) == []


def test_a_group_that_records_say_nothing_newer_of_is_stuck_by_what_is_seen() -> None:
    live = Live(SETTINGS, "c1")
    looks = [reconciling(at) for at in range(0, (STUCK_S + 5) * 1_000, 1_000)]
    found = live.on_samples(looks, summary("Stable", -1_000))
    assert of(found, Kind.REBALANCE_STUCK) == [(Kind.REBALANCE_STUCK, "opened")]


def test_a_group_that_changes_its_type_while_it_rebalances_is_judged_as_what_it_is_now() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_samples([look(at, state=PREPARING) for at in range(0, 3_000, 1_000)])
    looks = [reconciling(at) for at in range(3_000, (STUCK_S + 30) * 1_000, 1_000)]
    found += live.on_samples(looks, summary("Reconciling", 3_000))
    (ended,) = live.on_samples([look((STUCK_S + 30) * 1_000)])
    assert of(found, *Kind) == [(Kind.REBALANCE_IN_PROGRESS, "opened")]
    assert ended.group_type == "consumer"


def test_static_members_that_are_away_are_no_rebalance_though_brokers_list_the_group() -> None:
    live = Live(SETTINGS, "c1")
    looks = [reconciling(at) for at in range(0, 300_000, 1_000)]
    assert live.on_samples(looks, summary("Stable", 0, away=1)) == []
    told = of(live.on_samples([reconciling(300_000)], summary("Reconciling", 300_000, away=1)), *Kind)
    assert told == [(Kind.REBALANCE_IN_PROGRESS, "opened")]
    told = of(live.on_samples([reconciling(301_000)], summary("Stable", 301_000, away=1)), *Kind)
    assert told == [(Kind.REBALANCE_IN_PROGRESS, "resolved")]
