"""The timing of notifications, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.alerts.engine.decision import Entry, Reason, needs_update
from rebalance_monitor.alerts.engine.engine import Due, Engine, Rules, State
from rebalance_monitor.alerts.incidents import incidents
from rebalance_monitor.alerts.incidents.alert import Alert
from rebalance_monitor.alerts.messages.measures import key_rows
from rebalance_monitor.alerts.routing.intervals import Interval
from rebalance_monitor.alerts.routing.matchers import parse
from rebalance_monitor.alerts.routing.routes import InhibitRule, Route
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.degraded import degraded
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from tests.alerts.support.findings import AT, finding

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

MINUTE = 60_000
ROUTE = Route("0", "sre", group_by=("cluster", "group"), group_wait=10_000, group_interval=MINUTE)


class Timeline:
    """Feeds findings to an engine and notes what it tells; a receiver in `down` gets nothing."""

    def __init__(self, rules: Rules) -> None:
        self.state = State()
        self.engine = Engine(rules, self.state)
        self.told: list[tuple[int, Due]] = []
        self.down: set[str] = set()

    def happens(self, finding: Finding) -> None:
        seen = replace(finding, detected_at=finding.at)
        for alert in incidents.taken(self.state.alerts, seen, incidents.Policy()):
            self.engine.take(alert, finding.at)

    def until(self, end: int, step: int = 1_000) -> list[tuple[int, Reason]]:
        start = self.told[-1][0] if self.told else AT
        fresh = []
        for now in range(start, end + 1, step):
            for note in self.engine.due(now):
                if note.way not in self.down:
                    self.engine.sent(note, now)
                    self.told.append((now, note))
                    fresh.append((now - AT, note.reason))
        return fresh


def storm(at: int, phase: str, **changes: object) -> Finding:
    return finding(Kind.STORM, at=at, phase=phase, incident="i1", opened_at=AT, **changes)  # type: ignore[arg-type] # fields of a finding


def test_an_incident_is_notified_once_after_group_wait_and_once_when_it_is_over() -> None:
    line = Timeline(Rules(ROUTE))
    line.happens(storm(AT, "opened"))
    for tick in range(1, 20):
        line.happens(storm(AT + tick * 5_000, "updated"))
    assert line.until(AT + 10 * MINUTE) == [(10_000, Reason.FIRST)]
    line.happens(storm(AT + 11 * MINUTE, "resolved", resolution="quiet"))
    assert line.until(AT + 30 * MINUTE) == [(11 * MINUTE + 10_000, Reason.ALL_RESOLVED)]
    assert line.state.alerts == {}


def behind(at: int, phase: str, number: int, lag_ms: int) -> Finding:
    details: dict[str, str | int | float] = {"lag_ms": lag_ms}
    why = "no batch was finished"
    return degraded(
        "c", Cause.BEHIND, why, opened_at=AT, at=at, phase=phase, details=details, sequence=number
    )


def test_a_monitor_that_falls_further_behind_pages_nobody_anew_and_ends_with_the_most_it_was() -> None:
    line = Timeline(Rules(ROUTE, updating=frozenset({"thread"}), ways={"sre": ("pager", "thread")}))
    line.happens(behind(AT, "opened", 0, 10_000))
    line.until(AT + MINUTE // 2)
    for number in range(1, 6):
        line.happens(behind(AT + number * MINUTE, "updated", number, 10_000 << number))
        line.until(AT + (number + 1) * MINUTE)
    line.happens(behind(AT + 6 * MINUTE, "resolved", 0, 400_000))
    line.until(AT + 9 * MINUTE)
    reasons = {way: [due.reason for _, due in line.told if due.way == way] for way in ("pager", "thread")}
    assert reasons["pager"] == [Reason.FIRST, Reason.ALL_RESOLVED]
    assert reasons["thread"] == [Reason.FIRST, *[Reason.CHANGED] * 5, Reason.ALL_RESOLVED]
    (over,) = line.told[-1][1].resolved
    assert dict(key_rows(over.finding))["Behind"] == "6 min 40 s"


def test_a_lasting_incident_is_repeated_after_the_repeat_interval_only() -> None:
    line = Timeline(Rules(replace(ROUTE, repeat_interval=30 * MINUTE)))
    line.happens(storm(AT, "opened"))
    told = line.until(AT + 70 * MINUTE)
    assert [reason for _, reason in told] == [Reason.FIRST, Reason.REPEAT, Reason.REPEAT]
    assert told[1][0] - told[0][0] > 30 * MINUTE


def test_a_sink_that_was_down_gets_one_message_with_the_present() -> None:
    line = Timeline(Rules(ROUTE))
    line.down = {"sre"}
    line.happens(storm(AT, "opened"))
    assert line.until(AT + 60 * MINUTE) == []
    line.happens(storm(AT + 60 * MINUTE, "updated", severity=Severity.CRITICAL, generation=99))
    line.down = set()
    told = line.until(AT + 70 * MINUTE)
    assert [reason for _, reason in told] == [Reason.FIRST]
    assert line.told[-1][1].firing[0].finding.generation == 99


def test_an_incident_that_opened_and_resolved_while_muted_is_never_notified() -> None:
    always = {"always": (Interval(),)}
    line = Timeline(Rules(replace(ROUTE, mute_time_intervals=("always",)), intervals=always))
    line.happens(storm(AT, "opened"))
    line.happens(storm(AT + MINUTE, "resolved"))
    assert line.until(AT + 10 * MINUTE) == []


def test_a_storm_swallows_the_single_findings_of_its_group_and_no_others() -> None:
    line = Timeline(Rules(ROUTE))
    line.happens(storm(AT, "opened"))
    line.happens(finding(Kind.SESSION_TIMEOUT, at=AT + 1))
    line.happens(finding(Kind.SESSION_TIMEOUT, at=AT + 1, group="payments"))
    line.until(AT + MINUTE)
    told = {(alert.labels["group"], alert.labels["alertname"]) for _, n in line.told for alert in n.firing}
    assert told == {("orders", "storm"), ("payments", "session_timeout")}


def test_history_and_weak_suspicions_open_nothing() -> None:
    policy = incidents.Policy()
    assert incidents.apply(None, storm(AT, "opened", history=True), policy) is None
    weak = finding(Kind.MEMBER_SILENT, evidence="suspected", confidence=0.4)
    assert incidents.apply(None, weak, policy) is None


def test_the_end_of_another_incident_does_not_end_this_one() -> None:
    alert = incidents.apply(None, storm(AT, "opened"), incidents.Policy())
    other = replace(storm(AT + 1, "resolved"), incident="i0")
    assert incidents.apply(alert, other, incidents.Policy()) == alert


def test_routes_go_to_the_first_match_and_on_only_where_it_says_continue() -> None:
    first = Route("0/0", "pager", parse('severity="critical"'), goes_on=True)
    second = Route("0/1", "team", parse('group=~"orders.*"'))
    third = Route("0/2", "rest", parse('cluster="prod"'))
    tree = replace(ROUTE, routes=(first, second, third))
    labels = {"severity": "critical", "group": "orders", "cluster": "prod"}
    assert [route.receiver for route in tree.match(labels)] == ["pager", "team"]
    assert [route.receiver for route in tree.match({"cluster": "prod"})] == ["rest"]
    assert [route.receiver for route in tree.match({})] == ["sre"]


@pytest.mark.parametrize(
    ("source", "told"), [("critical|warning", {"orders", "other"}), ("critical", {"other"}), ("info", set())]
)
def test_alerts_on_both_sides_of_a_rule_do_not_inhibit_each_other(source: str, told: set[str]) -> None:
    rule = InhibitRule(parse(f'severity=~"{source}"'), parse('severity=~"critical|warning"'), ("cluster",))
    line = Timeline(Rules(ROUTE, (rule,)))
    quiet = incidents.apply(None, storm(AT, "opened", group="light"), incidents.Policy())
    assert quiet is not None
    line.engine.take(replace(quiet, labels={**quiet.labels, "severity": "info"}, quiet=True), AT)
    line.happens(storm(AT, "opened", severity=Severity.WARNING))
    line.happens(storm(AT, "opened", group="other"))
    line.until(AT + MINUTE)
    assert {alert.finding.group for _, due in line.told for alert in due.firing} == told


@pytest.mark.parametrize("text", ["", "severity", 'severity=="x"', 'a="b" c="d"', 'a=~"("', "{}"])
def test_a_matcher_that_cannot_be_read_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="matcher"):
        parse(text)


def test_matchers_compare_whole_values_and_absent_labels_as_empty() -> None:
    (like,) = parse('group=~"orders"')
    assert not like.matches({"group": "orders-2"})
    (absent,) = parse('team=""')
    assert absent.matches({})


def test_a_notified_alert_is_not_notified_again() -> None:
    entry = Entry(AT, frozenset({"a", "b"}), frozenset())
    args = {"repeat_interval": MINUTE, "send_resolved": True}
    assert needs_update(entry, frozenset({"a"}), frozenset(), AT + 1, **args) is None
    assert needs_update(entry, frozenset({"a"}), frozenset({"b"}), AT + 1, **args) is Reason.SOME_RESOLVED
    assert needs_update(entry, frozenset({"a", "c"}), frozenset(), AT + 1, **args) is Reason.NEW_ALERTS
    assert needs_update(None, frozenset(), frozenset({"a"}), AT, **args) is None


def test_a_message_updates_what_it_says_while_its_alert_stays_the_same() -> None:
    opened = incidents.apply(None, storm(AT, "opened"), incidents.Policy())
    updated = incidents.apply(opened, storm(AT + 1, "updated", severity=Severity.WARNING), incidents.Policy())
    assert isinstance(opened, Alert)
    assert isinstance(updated, Alert)
    assert (updated.fingerprint, updated.starts_at) == (opened.fingerprint, opened.starts_at)
    assert updated.labels["severity"] == "warning"
