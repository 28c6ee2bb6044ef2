"""The comparison itself: what samples decide is left to them, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.lag.consumed import Consumed
from rebalance_monitor.coordinator.lag.costs.incidents import Costs
from rebalance_monitor.coordinator.lag.measured import Totals
from rebalance_monitor.coordinator.refine.reattribution import SAMPLED
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.streaming.support.undisturbed import both, require_by_samples

GROUPS = {"g"}


def rebalance(number: int, *, looked: bool, confidence: float = 0.9) -> Finding:
    why = f"silent; {SAMPLED} 1 s into it" if looked else "silent"
    return Finding(
        id=f"r{number}",
        kind=Kind.REBALANCE,
        scope=Scope.GROUP,
        severity=Severity.INFO,
        evidence="read",
        group="g",
        at=number,
        causes=(CauseEntry(Cause.SESSION_TIMEOUT, confidence, why, "m"),),
        details={},
    )


def gone(number: int, kind: Kind) -> Finding:
    made = rebalance(number, looked=False)
    return replace(made, id=f"{kind.value}{number}", kind=kind, details={"rebalance": f"r{number}"})


SESSION, POLL = Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED


def test_samples_decide_departures_only_where_they_timed_the_join_phase() -> None:
    found = [rebalance(1, looked=False), gone(1, POLL), rebalance(2, looked=False), gone(2, POLL)]
    told = [rebalance(1, looked=True), gone(1, SESSION), rebalance(2, looked=False), gone(2, POLL)]
    ours, expected = both(told, found, GROUPS)
    assert ours == expected
    assert ("g", POLL.value, "poll_interval_exceeded2") in ours
    require_by_samples(told, found)
    ours, expected = both(told[:-1], found, GROUPS)
    assert ours != expected
    ours, expected = both(told[1:], found, GROUPS)
    assert ours != expected


def test_samples_decide_a_departure_also_where_no_sentence_of_its_cause_says_so() -> None:
    """A generation that failed began the sessions anew, which no text says."""
    found = [rebalance(1, looked=False, confidence=0.5)]
    told = [rebalance(1, looked=False), gone(1, SESSION)]
    ours, expected = both(told, found, GROUPS)
    assert ours == expected
    require_by_samples(told, found)
    with pytest.raises(AssertionError):
        require_by_samples(told[:1], found)


def test_samples_decide_departures_of_a_group_that_is_left_empty() -> None:
    empty = replace(rebalance(1, looked=False), kind=Kind.GROUP_EMPTY)
    told = [replace(empty, causes=rebalance(1, looked=True, confidence=0.5).causes)]
    ours, expected = both(told, [empty, gone(1, SESSION)], GROUPS)
    assert ours == expected
    require_by_samples(told, [empty, gone(1, SESSION)])


def test_the_end_of_a_storm_is_compared_unless_the_clock_decided_it() -> None:
    opened = replace(gone(1, Kind.STORM), phase="opened", incident="s", details={})
    ended = replace(opened, id="ended", phase="resolved", at=300)
    ours, expected = both([opened, ended], [opened], GROUPS)
    assert ours == expected != []
    ours, expected = both(
        [opened, ended, rebalance(301, looked=False)], [opened, rebalance(301, looked=False)], GROUPS
    )
    assert ours != expected


def test_what_a_rebalance_cost_may_stand_beside_it() -> None:
    cost = replace(gone(1, Kind.REBALANCE_COST), causes=())
    require_by_samples([rebalance(1, looked=True), gone(1, SESSION), cost], [rebalance(1, looked=False)])


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([rebalance(1, looked=True)], id="not told though they are sure"),
        pytest.param([rebalance(1, looked=True), gone(1, POLL)], id="told as something else"),
        pytest.param([rebalance(1, looked=True), gone(1, SESSION), gone(1, POLL)], id="told twice"),
    ],
)
def test_findings_of_samples_must_be_published_once(told: list[Finding]) -> None:
    with pytest.raises(AssertionError):
        require_by_samples(told, [rebalance(1, looked=False)])


def test_findings_of_which_samples_are_not_sure_may_be_missing() -> None:
    require_by_samples([rebalance(1, looked=True, confidence=0.3)], [rebalance(1, looked=False)])


def test_what_the_ends_add_to_an_open_storm_is_left_out_and_what_records_add_is_not() -> None:
    opened = replace(gone(1, Kind.STORM), phase="opened", incident="s", opened_at=1_000, details={})
    costs = Costs(DetectionSettings())
    costs.price(opened, Consumed(totals=Totals(((0, 5), (2_000, 9)))))
    by_ends = costs.on_sample("g", Consumed(totals=Totals(((0, 5), (2_000, 9), (3_000, 5)))))
    assert [one.phase for one in by_ends] == ["updated"]
    by_records = replace(opened, id="more", phase="updated")
    ours, expected = both([opened, *by_ends, by_records], [opened, by_records], GROUPS)
    assert ours == expected
    assert [name for _, _, name in ours] == ["more", opened.id]
