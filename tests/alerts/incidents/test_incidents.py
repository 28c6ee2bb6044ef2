"""Which findings open an incident that notifies, what suppresses them, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.incidents.incidents import Policy, apply
from rebalance_monitor.alerts.messages.notification import Phase
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from tests.alerts.support.findings import AT, MEMBER, finding
from tests.alerts.support.play import BASE, MINUTE, ONLY_SLACK, SECOND, Play, storm

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding


def roll_up(kind: Kind, groups: tuple[str, ...], total: int | None = None, phase: str = "opened") -> Finding:
    cause = CauseEntry(Cause.COORDINATOR_MOVED, 0.8, "together")
    return finding(
        kind,
        scope=Scope.CLUSTER,
        group=None,
        groups=groups,
        groups_total=total or len(groups),
        evidence="suspected",
        confidence=0.8,
        phase=phase,
        incident=f"many/{kind.value}",
        causes=(cause,),
    )


def test_history_opens_nothing_and_ends_what_was_open() -> None:
    play = Play()
    play.happens(storm(history=True))
    assert play.run(5 * MINUTE) == []
    play.happens(storm())
    play.run(MINUTE)
    play.happens(storm("resolved", history=True))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]


def test_weak_suspicions_and_light_findings_are_never_notified() -> None:
    play = Play()
    play.happens(
        finding(Kind.SESSION_TIMEOUT, evidence="suspected", confidence=0.59),
        finding(Kind.REBALANCE),
        finding(Kind.GROUP_EMPTY, group="other"),
    )
    assert play.run(10 * MINUTE) == []
    play.happens(finding(Kind.SESSION_TIMEOUT, evidence="suspected", confidence=0.6))
    assert play.run(MINUTE) == [("sre/slack", Phase.OPENED, Reason.FIRST)]


def test_a_storm_swallows_what_is_in_it_also_after_its_end() -> None:
    play = Play({**ONLY_SLACK, "route": {"receiver": "sre", "group_by": ["alertname", "group"]}})
    play.happens(storm(), finding(Kind.SESSION_TIMEOUT))
    play.run(MINUTE)
    play.happens(finding(Kind.SESSION_TIMEOUT))
    play.run(MINUTE)
    play.happens(storm("resolved"))
    play.run(10 * MINUTE)
    told = {one.notification.labels["alertname"] for _, one in play.told}
    assert told == {"storm"}


def test_what_was_notified_before_the_storm_ends_where_it_was_notified() -> None:
    play = Play({**ONLY_SLACK, "route": {"receiver": "sre", "group_by": ["alertname", "group"]}})
    play.happens(finding(Kind.SESSION_TIMEOUT))
    play.run(MINUTE)
    play.happens(storm(), finding(Kind.SESSION_TIMEOUT, id="another"))
    play.run(3 * MINUTE)
    phases = [one.notification.phase for _, one in play.told if "session" in str(one.way)]
    assert phases == [Phase.OPENED]
    play.happens(storm("resolved"))
    play.run(3 * MINUTE)
    phases = [one.notification.phase for _, one in play.told if "session" in str(one.way)]
    assert phases == [Phase.OPENED, Phase.RESOLVED]


def test_a_roll_up_is_notified_instead_of_its_groups() -> None:
    play, kind = Play(), Kind.SESSION_TIMEOUT
    groups = tuple(f"g{number}" for number in range(7))
    play.happens(*[finding(kind, group=group) for group in groups], finding(kind, group="elsewhere"))
    play.run(4 * SECOND)
    play.happens(roll_up(kind, groups))
    play.run(3 * MINUTE)
    told = [one.notification.labels.get("group", "cluster") for _, one in play.told]
    assert sorted(told) == ["cluster", "elsewhere"]


def test_a_roll_up_that_is_notified_again_is_one_thread_and_ends_with_what_it_explains() -> None:
    play, kind = Play(), Kind.SESSION_TIMEOUT
    groups = tuple(f"g{number}" for number in range(7))
    play.happens(*[finding(kind, group=group) for group in groups])
    play.run(4 * SECOND)
    play.happens(roll_up(kind, groups))
    play.run(MINUTE)
    play.happens(finding(kind, group="late"), roll_up(kind, (*groups, "late"), phase="updated"))
    play.run(5 * MINUTE - SECOND)
    play.happens(roll_up(kind, groups, phase="resolved"))
    play.run(20 * MINUTE)
    told = [one.notification for _, one in play.told]
    assert {one.labels.get("group") for one in told} == {None}
    assert [one.phase for one in told if one.phase is not Phase.UPDATED] == [Phase.OPENED, Phase.RESOLVED]
    assert len({one.thread for one in told}) == 1


@pytest.mark.parametrize(
    ("host", "after", "told"),
    [("/h1", 0, []), ("/h1", MINUTE // 2, []), ("/h1", 2 * MINUTE, ["payments"]), ("/h2", 0, ["payments"])],
)
def test_a_group_that_a_roll_up_does_not_name_is_in_it_at_its_time_and_on_its_host(
    host: str, after: int, told: list[str]
) -> None:
    play, kind = Play(), Kind.SESSION_TIMEOUT
    rolled = roll_up(kind, tuple(f"g{number}" for number in range(50)), total=51)
    play.happens(replace(rolled, causes=(replace(rolled.causes[0], host="/h1"),)))
    play.run(after + SECOND)
    lost = replace(MEMBER, host=host)
    play.happens(finding(kind, group="payments", members=(lost,), at=rolled.at + after))
    play.run(2 * MINUTE)
    groups = {one.notification.labels.get("group") for _, one in play.told}
    assert sorted(groups - {None}) == told


def test_a_group_that_must_never_be_empty_pages_beside_a_roll_up() -> None:
    play = Play()
    empty = finding(Kind.GROUP_EMPTY, group="g1", severity=Severity.CRITICAL, incident="e")
    play.happens(empty, roll_up(Kind.SESSION_TIMEOUT, ("g1", "g2")))
    play.run(MINUTE)
    assert "g1" in {one.notification.labels.get("group") for _, one in play.told}


def test_a_rolling_restart_lowers_what_it_explains_before_and_after() -> None:
    play = Play()
    play.happens(finding(Kind.SESSION_TIMEOUT), finding(Kind.SESSION_TIMEOUT, group="other"))
    play.run(3 * SECOND)
    play.happens(finding(Kind.ROLLING_RESTART, details={"window_ms": 4_000}))
    play.happens(finding(Kind.SESSION_TIMEOUT, id="later"))
    play.run(10 * MINUTE)
    assert {one.notification.labels["group"] for _, one in play.told} == {"other"}


def test_a_removed_group_has_no_open_incident() -> None:
    play = Play()
    play.happens(finding(Kind.OFFSETS_EXPIRING, incident="e"))
    play.run(MINUTE)
    play.happens(finding(Kind.GROUP_REMOVED))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]


@pytest.mark.parametrize("kind", [Kind.GROUP_EMPTY, Kind.OFFSETS_EXPIRING])
def test_a_group_with_members_again_is_empty_no_more_even_if_its_state_was_rebuilt(kind: Kind) -> None:
    play = Play()
    play.happens(finding(kind, phase="opened", incident="e", severity=Severity.CRITICAL))
    play.run(MINUTE)
    play.happens(finding(Kind.REBALANCE, history=True))
    assert play.run(2 * MINUTE) == []
    play.happens(finding(Kind.REBALANCE))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]


def expiring(topic: str, phase: str = "opened") -> Finding:
    details: dict[str, str | int | float] = {"topic": topic, "expires_at": AT, "retention_ms": 1}
    return finding(Kind.OFFSETS_EXPIRING, phase=phase, incident=f"e-{topic}", details=details)


def test_offsets_of_a_topic_expire_though_the_group_rebalances_each_to_its_own_end() -> None:
    play = Play()
    play.happens(expiring("t1"), expiring("t2"))
    play.run(MINUTE)
    play.happens(finding(Kind.REBALANCE))
    assert play.run(2 * MINUTE) == []
    play.happens(expiring("t2", "resolved"))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.UPDATED, Reason.SOME_RESOLVED)]
    firing, over = play.last.notification.alerts
    assert [firing.labels["topic"], over.labels["topic"]] == ["t1", "t2"]
    play.happens(finding(Kind.GROUP_REMOVED))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]


def test_each_silent_member_is_an_alert_of_its_own_and_of_its_own_labels() -> None:
    play = Play()
    for name in ("m1", "m2"):
        silent = replace(MEMBER, member_id=name)
        told = finding(Kind.MEMBER_SILENT, severity=Severity.WARNING, members=(silent,), incident=name)
        play.happens(told)
    play.run(MINUTE)
    labels = [alert.labels for alert in play.last.notification.alerts]
    assert sorted(one["member_id"] for one in labels) == ["m1", "m2"]


def test_a_flood_of_warnings_keeps_no_critical_alert_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalance_monitor.alerts.engine.engine.MAX_ALERTS", 3)
    play = Play(BASE)
    play.happens(*(finding(Kind.SESSION_TIMEOUT, group=f"g{number}") for number in range(6)))
    assert play.memory.engine.refused == 3
    play.happens(storm(group="worst"))
    assert ("pager/pagerduty", Phase.OPENED, Reason.FIRST) in play.run(MINUTE)


def test_what_continues_an_incident_of_another_kind_is_the_same_alert_until_that_ends() -> None:
    play = Play()
    stopped = finding(Kind.CONSUMPTION_STOPPED, incident="i", details={"topic": "orders"})
    play.happens(stopped)
    assert play.run(MINUTE) == [("sre/slack", Phase.OPENED, Reason.FIRST)]
    silent = finding(
        Kind.MEMBER_SILENT, id="s", severity=Severity.WARNING, incident="i", phase="updated", confidence=0.9
    )
    play.happens(silent, finding(Kind.POLL_INTERVAL_EXCEEDED, id="p", incident="i"))
    play.run(10 * MINUTE)
    assert len(play.last.notification.alerts) == 1
    play.happens(replace(stopped, id="r", phase="resolved"))
    assert play.run(10 * MINUTE)[-1] == ("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)


@pytest.mark.parametrize("removed", [0, 1])
def test_a_stuck_rebalance_whose_deadline_removed_a_live_member_fires_as_critical_at_its_end(
    removed: int,
) -> None:
    """Before that a dead member would have explained it."""
    stuck: dict[str, object] = {"incident": "s1", "opened_at": AT, "evidence": "read", "detected_at": AT}
    opened = finding(Kind.REBALANCE_STUCK, phase="opened", severity=Severity.WARNING, **stuck)
    details = {"waits_for": "c", **({"removed": 1} if removed else {})}
    ended = replace(opened, phase="resolved", severity=Severity.CRITICAL, details=details)
    policy = Policy()
    alert = apply(apply(None, opened, policy), ended, policy)
    assert alert is not None
    assert alert.labels["severity"] == ("critical" if removed else "warning")
    assert alert.ends_at == AT + policy.hold_ms * removed
