"""An Alertmanager hears of all that fires before it forgets it; what it refuses takes nothing else along."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.messages.notification import Phase
from tests.alerts.support.play import MINUTE, SECOND, Play, storm


def test_an_alertmanager_is_notified_again_before_it_forgets() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "30s"}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(storm())
    told = play.run(5 * MINUTE)
    assert told[0] == ("am/alertmanager", Phase.OPENED, Reason.FIRST)
    assert set(told[1:]) == {("am/alertmanager", Phase.REPEATED, Reason.RESEND)}
    assert 8 <= len(told) <= 11


def test_every_alert_that_fires_is_pushed_to_an_alertmanager_before_it_forgets() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "1m"}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(*(storm(group=f"g{number}") for number in range(150)))
    for _ in range(60):
        play.run(10 * SECOND)
    pushed: dict[str, list[int]] = {}
    for at, one in play.told:
        for alert in one.notification.alerts:
            pushed.setdefault(alert.labels["group"], []).append(at)
    assert len(pushed) == 150
    assert all(later - before < 4 * MINUTE for times in pushed.values() for before, later in pairwise(times))
    assert all(play.now - times[-1] < 4 * MINUTE for times in pushed.values())


def test_with_little_room_all_that_fires_is_notified_again_in_turn() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "1m", "per_minute": 30}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(*(storm(group=f"g{number}") for number in range(60)))
    play.run(20 * MINUTE)
    told = [alert.labels["group"] for _, one in play.told for alert in one.notification.alerts]
    counts = Counter(told)
    assert len(counts) == 60
    assert min(counts.values()) >= 15
    assert len(play.told) < 60 + 60


def test_one_alert_that_an_alertmanager_refuses_takes_no_other_with_it() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "1m", "per_minute": 600}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(*(storm(group=f"g{number}") for number in range(40)))
    play.run(2 * MINUTE)
    play.refused = "g7"
    play.run(20 * MINUTE)
    last: dict[str, int] = {}
    for at, one in play.told:
        last |= {alert.labels["group"]: at for alert in one.notification.alerts if "group" in alert.labels}
    late = {group for group, at in last.items() if play.now - at > 4 * MINUTE}
    assert late == {"g7"}


def test_what_an_alertmanager_keeps_of_each_thread_stays_with_it() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "1m"}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(storm(), storm(group="other"))
    play.run(20 * SECOND)
    play.now += 2 * MINUTE
    play.dispatch.advance(play.now)
    (outgoing,) = play.dispatch.ready(play.now)
    names = [alert.fingerprint for alert in outgoing.notification.alerts]
    play.dispatch.arrived(outgoing, dict.fromkeys(names, "labels"), play.now)
    assert sorted(tuple(thread.state) for thread in play.memory.threads.values()) == sorted(
        (name,) for name in names
    )
    assert {len(thread.last_alerts) for thread in play.memory.threads.values()} == {1}
