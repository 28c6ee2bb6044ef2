"""What failed is tried again, ever more slowly, under the same key; what is over by then is not notified."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.alerts.dispatch.retry import LONGEST_PAUSE_MS, Pace
from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.sinks.http import retry_after
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import AT, finding
from tests.alerts.support.play import BASE, MINUTE, ONLY_SLACK, SECOND, SLACK, Play, storm

if TYPE_CHECKING:
    from rebalance_monitor.alerts.dispatch.plan import Outgoing, WayOut
    from rebalance_monitor.alerts.engine.engine import Due

PAGED = {**BASE, "route": {"receiver": "pager"}}


def test_a_sink_that_was_down_for_an_hour_gets_the_present_only() -> None:
    play = Play(broken={"sre/slack": SinkError("away")})
    play.happens(storm(group="first"))
    play.run(MINUTE)
    for number in range(30):
        play.happens(storm(group=f"g{number}"))
        play.run(MINUTE, 5 * SECOND)
        play.happens(storm("resolved", group=f"g{number}"))
    play.happens(storm(group="last"))
    play.run(30 * MINUTE, 5 * SECOND)
    assert play.tried < 40
    play.broken = {}
    play.run(10 * MINUTE)
    heard = [one.notification for one in play.heard("sre/slack") if "group" in one.notification.labels]
    phases = {told.labels["group"]: told.phase for told in heard}
    assert phases.pop("first") is Phase.OPENED
    assert phases.pop("last") is Phase.OPENED
    # What was over and never tried is not notified; only an attempt that may have arrived gets its end.
    assert set(phases.values()) <= {Phase.RESOLVED}
    assert len(phases) <= 3


def test_retries_pause_longer_and_longer_and_as_long_as_the_service_asks() -> None:
    pace, now, pauses = Pace(), AT, []
    for _ in range(12):
        pace.fail(SinkError("no"), now, 0.999)
        pauses.append(pace.next_try - now)
        now = pace.next_try
    assert pauses == sorted(pauses)
    assert pauses[0] <= 1_000
    assert pauses[-1] <= LONGEST_PAUSE_MS
    pace.fail(SinkError("slow down", retry_after_s=299), now, 0.0)
    assert pace.next_try == now + 299_000


@pytest.mark.parametrize("asked", ["86400", "1e300", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_no_retry_after_silences_a_receiver_for_longer_than_five_minutes(asked: str) -> None:
    pace = Pace()
    pace.fail(SinkError("slow down", retry_after_s=retry_after(asked, AT)), AT, 0.0)
    assert pace.next_try == AT + LONGEST_PAUSE_MS == AT + 300_000


def test_an_integration_is_notified_no_faster_than_its_rate() -> None:
    section = {**ONLY_SLACK, "receivers": [{"name": "sre", "slack": {**SLACK, "per_minute": 6}}]}
    play = Play(section)
    play.happens(*[storm(group=f"g{number}") for number in range(40)])
    assert len(play.run(MINUTE)) <= 6 + 6
    assert len(play.run(10 * MINUTE)) >= 40 - 12


def test_an_attempt_that_may_have_arrived_is_sent_again_under_the_same_key() -> None:
    play = Play(broken={"sre/slack": SinkError("cut")})
    play.happens(storm())
    play.run(12 * SECOND)
    first = play.memory.threads[next(iter(play.memory.threads))]
    assert first.uncertain
    play.broken = {}
    play.run(MINUTE)
    told = play.last.notification
    assert told.maybe_sent
    assert told.key == f"{first.id}/opened/0"


def test_what_may_have_arrived_is_brought_to_its_end_even_if_over_by_then() -> None:
    play = Play(broken={"sre/slack": SinkError("cut")})
    play.happens(storm())
    play.run(12 * SECOND)
    play.happens(storm("resolved"))
    play.broken = {}
    assert play.run(5 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]
    assert play.last.notification.maybe_sent


def test_what_may_have_arrived_is_brought_to_its_end_even_if_it_was_silenced_meanwhile() -> None:
    play = Play(broken={"sre/slack": SinkError("cut")}, section=PAGED)
    play.broken = {"pager/pagerduty": SinkError("timed out")}
    play.happens(storm())
    play.run(12 * SECOND)
    play.silenced = lambda _labels, _now: True
    play.broken = {}
    assert play.run(5 * MINUTE) == []
    play.happens(storm("resolved"))
    assert [phase for _, phase, _ in play.run(10 * MINUTE)] == [Phase.RESOLVED]
    assert play.last.notification.maybe_sent
    assert not play.memory.threads


def test_a_receiver_without_resolved_notifications_gets_none_and_delays_no_other() -> None:
    quiet = [{**BASE["receivers"][0], "slack": {**SLACK, "send_resolved": False}}, BASE["receivers"][1]]
    routes = [{"matchers": ['severity="critical"'], "receiver": "pager", "continue": True}]
    play = Play({"receivers": quiet, "route": {"receiver": "sre", "routes": [*routes, {"receiver": "sre"}]}})
    play.broken = {"sre/slack": SinkError("cut"), "pager/pagerduty": SinkError("cut")}
    play.happens(storm())
    play.run(12 * SECOND)
    play.happens(storm("resolved"))
    play.broken = {}
    assert ("pager/pagerduty", Phase.RESOLVED) in [told[:2] for told in play.run(5 * MINUTE)]
    assert not play.dispatch.broken
    assert not play.heard("sre/slack")


def test_what_cannot_be_made_for_one_way_out_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = [{"matchers": ['severity="critical"'], "receiver": "pager", "continue": True}]
    play = Play({**BASE, "route": {"receiver": "sre", "routes": [*routes, {"receiver": "sre"}]}})
    made = play.dispatch._made

    def broken(facts: WayOut, due: Due, now: int) -> Outgoing:
        if facts.name == "sre/slack":
            raise ValueError("a bug")
        return made(facts, due, now)

    monkeypatch.setattr(play.dispatch, "_made", broken)
    play.happens(storm())
    play.run(MINUTE)
    assert [way for way, *_ in play.run(0)] == []
    assert play.heard("pager/pagerduty")
    assert str(play.dispatch.broken["sre/slack"]) == "a bug"


def test_what_was_refused_for_good_and_is_over_by_then_is_not_notified_at_all() -> None:
    play = Play(broken={"sre/slack": SinkError("the service answered 413", permanent=True)})
    play.happens(storm())
    play.run(12 * SECOND)
    assert play.tried >= 1
    play.happens(storm("resolved"))
    play.broken = {}
    play.run(30 * MINUTE)
    assert [one for one in play.heard("sre/slack") if "group" in one.notification.labels] == []


def test_what_may_have_arrived_is_not_ended_while_some_of_it_fires_unseen() -> None:
    play = Play(broken={"sre/slack": SinkError("cut")})
    play.happens(storm(), finding(Kind.REBALANCE_STUCK, phase="opened", incident="i-stuck", id="stuck"))
    play.run(12 * SECOND)
    play.silenced = lambda _labels, _now: True
    play.happens(storm("resolved"))
    play.broken = {}
    assert play.run(5 * MINUTE) == []
    play.silenced = lambda _labels, _now: False
    assert play.run(5 * MINUTE)[0][:2] == ("sre/slack", Phase.OPENED)
