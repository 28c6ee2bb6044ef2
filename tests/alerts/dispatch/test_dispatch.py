"""Each integration is notified of an incident once, from opening to end, unless it is silenced."""

from __future__ import annotations

from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import finding
from tests.alerts.support.play import BASE, MINUTE, ONLY_SLACK, SECOND, SLACK, Play, storm


def test_a_thread_opens_gains_what_is_new_and_closes_with_its_tally() -> None:
    play = Play()
    play.happens(storm())
    assert play.run(20 * SECOND) == [("sre/slack", Phase.OPENED, Reason.FIRST)]
    assert not play.last.notification.maybe_sent
    thread = play.last.notification.thread
    for number in range(8):
        play.happens(finding(Kind.REBALANCE, id=f"r{number}"))
    play.happens(storm("updated"))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.UPDATED, Reason.CHANGED)]
    told = play.last.notification
    assert [one.id for one in told.news] == ["updated-orders"]
    assert told.state == {"ts": thread}
    play.happens(storm("resolved"))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]
    told = play.last.notification
    assert (told.thread, told.tally.rebalances) == (thread, 8)
    assert play.memory.threads == {}
    play.happens(storm())
    play.run(2 * MINUTE)
    assert play.last.notification.phase is Phase.OPENED
    assert play.last.notification.thread != thread


def test_only_a_receiver_with_threads_is_notified_of_mere_updates() -> None:
    play = Play(BASE)
    play.happens(storm())
    assert play.run(MINUTE) == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]
    play.happens(storm("updated"))
    assert play.run(10 * MINUTE) == []


def test_what_outlives_its_thread_under_a_silence_is_notified_under_a_key_of_its_own() -> None:
    hook = {"name": "hook", "webhook": {"url": "http://127.0.0.1:1"}}
    play = Play({"receivers": [hook], "route": {"receiver": "hook", "group_by": ["cluster"]}})
    play.happens(storm())
    play.run(MINUTE)
    play.happens(storm(group="other"))
    play.run(2 * MINUTE)
    play.silenced = lambda labels, _now: labels["group"] == "orders"
    play.happens(storm("resolved", group="other"))
    play.run(2 * MINUTE)
    play.silenced = lambda _labels, _now: False
    play.run(2 * MINUTE)
    told = [one.notification for one in play.heard("hook/webhook")]
    assert [one.phase for one in told][-2:] == [Phase.RESOLVED, Phase.OPENED]
    assert len({one.key for one in told}) == len(told)
    assert told[-1].thread != told[0].thread
    assert told[-1].opened_at == told[0].opened_at


def test_a_silence_holds_everything_back_is_acknowledged_and_the_end_closes_the_thread() -> None:
    play = Play()
    play.happens(storm())
    play.run(20 * SECOND)
    play.silenced = lambda labels, _now: labels.get("group") == "orders"
    assert play.run(5 * SECOND) == [("sre/slack", Phase.ACKNOWLEDGED, Reason.SILENCED)]
    play.happens(storm("updated"), storm(group="payments"))
    assert play.run(5 * MINUTE) == [("sre/slack", Phase.OPENED, Reason.FIRST)]
    play.happens(storm("resolved"))
    assert play.run(5 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.CLOSED)]
    assert play.last.notification.alerts[0].resolved(play.now)


def test_a_silenced_incident_that_goes_on_is_notified_again_when_the_silence_ends() -> None:
    play = Play()
    play.silenced = lambda _labels, _now: True
    play.happens(storm())
    assert play.run(5 * MINUTE) == []
    play.silenced = lambda _labels, _now: False
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.OPENED, Reason.FIRST)]


def test_a_receiver_without_send_resolved_hears_of_no_end() -> None:
    quiet = [{"name": "sre", "slack": {**SLACK, "send_resolved": False}}]
    play = Play({**ONLY_SLACK, "receivers": quiet})
    play.happens(storm())
    play.run(MINUTE)
    play.happens(storm("resolved"))
    assert play.run(10 * MINUTE) == []
    assert play.memory.threads == {}


def test_a_way_out_gets_one_notification_at_a_time_and_a_hanging_one_holds_up_no_other() -> None:
    play = Play(BASE)
    play.happens(storm(), finding(Kind.SESSION_TIMEOUT, group="calm"))
    play.now += 15 * SECOND
    play.dispatch.advance(play.now)
    assert {one.way[0] for one in play.dispatch.ready(play.now)} == {"sre/slack", "pager/pagerduty"}
    play.happens(storm(group="more"), finding(Kind.SESSION_TIMEOUT, group="calmer"))
    play.now += 15 * SECOND
    play.dispatch.advance(play.now)
    assert play.dispatch.ready(play.now) == []


def test_both_ways_out_of_a_receiver_hear_of_the_end_though_one_was_down() -> None:
    both = [{"name": "sre", "slack": SLACK, "pagerduty": {"routing_key": "r"}}]
    play = Play({**ONLY_SLACK, "receivers": both})
    play.happens(storm())
    play.run(MINUTE)
    play.broken = {"sre/pagerduty": SinkError("503")}
    play.happens(storm("resolved"))
    assert play.run(3 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]
    play.broken = {}
    assert play.run(6 * MINUTE) == [("sre/pagerduty", Phase.RESOLVED, Reason.ALL_RESOLVED)]
