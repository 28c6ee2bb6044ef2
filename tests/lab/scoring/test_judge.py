from dataclasses import replace

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.lab.scenario.model import Expectation
from rebalance_monitor.lab.scoring.judge import Injected, judge, noises

FINDING = Finding(
    id="x",
    kind=Kind.SESSION_TIMEOUT,
    scope=Scope.GROUP,
    severity=Severity.WARNING,
    evidence="suspected",
    group="g",
    at=20_000,
    detected_at=22_500,
    causes=(CauseEntry(Cause.SESSION_TIMEOUT, 0.9, "why", client_id="g-b"),),
    details={},
)
KILLED = Injected("g", "b is killed", Expectation("session_timeout", 16, member="b"), 13_000)


def test_the_first_finding_that_fits_detects_the_fault_and_gives_the_delay() -> None:
    (verdict,) = judge([KILLED], [FINDING])
    assert verdict.finding is FINDING
    assert verdict.delay_s == 9.5


def test_another_group_member_kind_phase_or_cause_or_an_earlier_time_detects_nothing() -> None:
    other = replace(FINDING, causes=(CauseEntry(Cause.SESSION_TIMEOUT, 0.9, "why", client_id="g-a"),))
    stranger, earlier = replace(FINDING, group="h"), replace(FINDING, at=9_000)
    kind = replace(FINDING, kind=Kind.POLL_INTERVAL_EXCEEDED)
    assert judge([KILLED], [other, stranger, earlier, kind])[0].finding is None
    wanted = replace(KILLED, expectation=replace(KILLED.expectation, phase="opened"))
    assert judge([wanted], [FINDING])[0].finding is None
    caused = replace(KILLED, expectation=replace(KILLED.expectation, cause="member_left"))
    assert judge([caused], [FINDING])[0].finding is None


def test_a_missed_fault_has_no_delay() -> None:
    assert judge([KILLED], [])[0].delay_s is None


def test_what_is_said_of_a_silent_group_after_it_settled_is_noise() -> None:
    early, late = replace(FINDING, at=15_000), replace(FINDING, at=25_000)
    assert noises(["g"], 0, [early, late]) == [late]
    assert noises(["h"], 0, [early, late]) == []


def test_a_silent_group_among_many_that_a_finding_lists_is_noise_too() -> None:
    listed = replace(FINDING, group=None, groups=("x", "g"), at=25_000)
    assert noises(["g"], 0, [listed]) == [listed]
    assert noises(["h"], 0, [listed]) == []
