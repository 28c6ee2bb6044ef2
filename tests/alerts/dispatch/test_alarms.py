"""A receiver that fails or hangs is an alert to the others, until it works again or is no more."""

from __future__ import annotations

import pytest

from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.coordinator.findings.kinds import Severity
from tests.alerts.support.play import BASE, MINUTE, ONLY_SLACK, PAGER, SECOND, Play, storm


def test_a_receiver_that_fails_for_good_is_an_alert_to_the_others() -> None:
    play = Play(ONLY_SLACK, broken={"sre/slack": SinkError("invalid_auth", permanent=True)})
    play.happens(storm())
    told = play.run(2 * MINUTE)
    assert told == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]
    assert play.last.notification.alerts[0].finding.details == {"cause": "sink_failing", "sink": "sre/slack"}
    assert "invalid_auth" in play.last.notification.alerts[0].finding.causes[0].why
    play.broken = {}
    told = play.run(20 * MINUTE)
    assert ("sre/slack", Phase.OPENED, Reason.FIRST) in told
    assert ("pager/pagerduty", Phase.RESOLVED, Reason.ALL_RESOLVED) in told


def test_a_receiver_that_fails_for_long_is_an_alert_too() -> None:
    play = Play(ONLY_SLACK, broken={"sre/slack": SinkError("503")})
    play.happens(storm())
    assert play.run(5 * MINUTE) == []
    assert play.run(5 * MINUTE) == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]


@pytest.mark.parametrize("is_over", [True, False])
def test_a_restart_ends_the_alarm_of_a_receiver_that_nothing_waits_for_and_no_other(*, is_over: bool) -> None:
    play = Play(BASE, broken={PAGER: SinkError("the service answered 403", permanent=True)})
    play.happens(storm(severity=Severity.CRITICAL))
    play.run(MINUTE)
    if is_over:
        play.happens(storm("resolved"))
    play.run(30 * MINUTE)
    phases = [one.notification.phase for one in play.heard("sre/slack")]
    assert phases == [Phase.OPENED]
    play.start()
    play.run(10 * MINUTE)
    phases = [one.notification.phase for one in play.heard("sre/slack")]
    assert phases == [Phase.OPENED, Phase.RESOLVED] if is_over else [Phase.OPENED]


def test_a_receiver_that_never_answers_is_an_alert_to_the_others_until_it_does() -> None:
    play = Play(ONLY_SLACK)
    play.happens(storm())
    play.now += 15 * SECOND
    play.dispatch.advance(play.now)
    (hanging,) = play.dispatch.ready(play.now)
    assert play.run(4 * MINUTE) == []
    assert play.run(3 * MINUTE) == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]
    assert "the receiver sre/slack hangs" in play.last.notification.alerts[0].finding.causes[0].why
    play.dispatch.arrived(hanging, {}, play.now)
    assert ("pager/pagerduty", Phase.RESOLVED, Reason.ALL_RESOLVED) in play.run(3 * MINUTE)


def test_the_alarm_of_a_receiver_that_was_taken_out_of_the_configuration_ends() -> None:
    play = Play(ONLY_SLACK, broken={"sre/slack": SinkError("invalid_auth", permanent=True)})
    play.happens(storm())
    assert play.run(2 * MINUTE) == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]
    play.section = {"receivers": BASE["receivers"][1:], "route": {"receiver": "pager"}}
    play.start()
    play.run(10 * MINUTE)
    alarms = [alert for alert in play.memory.engine.alerts.values() if "sink" in alert.finding.details]
    assert all(alert.resolved(play.now) for alert in alarms)
    told = [one.notification for _, one in play.told if "sink" in one.notification.alerts[0].finding.details]
    assert told[-1].phase is Phase.RESOLVED


def test_the_alarm_of_a_failing_receiver_is_raised_anew_and_ends_under_the_cluster_s_new_name() -> None:
    play = Play(ONLY_SLACK, broken={"sre/slack": SinkError("invalid_auth", permanent=True)})
    play.happens(storm())
    play.run(2 * MINUTE)
    play.cluster = "payments"
    play.start()
    play.run(20 * MINUTE)
    heard = [(one.notification.labels["cluster"], one.notification.phase) for one in play.heard(PAGER)]
    assert set(heard) == {("prod", Phase.OPENED), ("prod", Phase.RESOLVED), ("payments", Phase.OPENED)}
    play.broken = {}
    play.run(20 * MINUTE)
    assert play.heard(PAGER)[-1].notification.phase is Phase.RESOLVED


def test_a_notification_that_is_refused_for_good_holds_up_no_other_and_stays_an_alarm() -> None:
    hook = {"name": "hook", "webhook": {"url": "http://127.0.0.1:1"}}
    play = Play({"receivers": [hook], "route": {"receiver": "hook"}})
    play.refused = "poison"
    play.happens(storm(group="poison"))
    play.run(MINUTE)
    for number in range(10):
        play.happens(storm(group=f"g{number}"))
        play.run(MINUTE)
        assert play.last.notification.labels["group"] == f"g{number}"
    (alarm,) = [told for told in play.heard("hook/webhook") if "group" not in told.notification.labels]
    assert "413" in alarm.notification.alerts[0].finding.causes[0].why
    assert play.tried < 25
    play.happens(storm("resolved", group="poison"))
    play.run(12 * MINUTE)
    play.happens(storm(group="last"))
    play.run(3 * MINUTE)
    alarms = [
        one.notification.phase for one in play.heard("hook/webhook") if "group" not in one.notification.labels
    ]
    assert alarms == [Phase.OPENED, Phase.RESOLVED]
