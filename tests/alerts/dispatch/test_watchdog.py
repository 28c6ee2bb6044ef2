"""The watchdog beats while batches are finished and not a moment longer, on a moved clock and a real one."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.messages.notification import Phase
from rebalance_monitor.alerts.runtime.dispatcher import Dispatcher
from rebalance_monitor.alerts.setup.receivers import plan_of, sinks_of
from rebalance_monitor.alerts.sinks.alertmanager import AlertmanagerSink
from rebalance_monitor.config.alerts import Alerts
from rebalance_monitor.config.durations import Duration
from rebalance_monitor.config.model import Settings
from tests.alerts.support.memo import SECTION, Memo
from tests.alerts.support.play import BASE, MINUTE, Play, storm

if TYPE_CHECKING:
    from pathlib import Path


def test_the_watchdog_is_sent_while_batches_are_finished_and_not_a_moment_longer() -> None:
    play = Play({**BASE, "watchdog": {"to": ["pager"], "interval": "1m", "silent_after": "2m"}})
    assert play.run(5 * MINUTE) == []
    for _ in range(5):
        play.happens()
        play.run(MINUTE)
    beats = [one for _, one in play.told if one.due.reason is Reason.WATCHDOG]
    assert {one.way[0] for one in beats} == {"pager/pagerduty"}
    assert [one.notification.phase for one in beats][:2] == [Phase.OPENED, Phase.REPEATED]
    assert 5 <= len(beats) <= 7
    play.run(3 * MINUTE)
    assert play.run(30 * MINUTE) == []


def test_an_alertmanager_does_not_forget_the_watchdog_between_two_beats() -> None:
    manager = {"urls": ["http://127.0.0.1:9"]}
    dog = {"to": ["am"], "interval": "10m"}
    section = {"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}}
    play = Play({**section, "watchdog": dog})
    play.happens(storm())
    play.run(MINUTE)
    ends = {}
    for sink in sinks_of(Settings(alerts=Alerts(**play.section))).values():
        assert isinstance(sink, AlertmanagerSink)
        for one in play.heard("am/alertmanager"):
            for body in sink.pushed(one.notification, play.now):
                ends[body["labels"]["alertname"]] = datetime.fromisoformat(body["endsAt"])
        sink.close()
    now = datetime.fromtimestamp(play.now / 1_000, UTC)
    assert {name: (end - now).total_seconds() for name, end in ends.items()} == {
        "Watchdog": 2_400,
        "storm": 240,
    }


def test_the_watchdog_beats_on_a_real_clock_while_batches_end_and_stays_away_after(tmp_path: Path) -> None:
    dog = {**SECTION, "watchdog": {"to": ["sre"], "interval": "400ms", "silent_after": "1s"}}
    sink, plan = Memo(), partial(plan_of, Settings(alerts=dog, trigger=Duration("100ms")), "prod")
    with Dispatcher(tmp_path, plan, {"sre/slack": sink}) as dispatcher:
        dispatcher.open({})
        time.sleep(0.6)
        assert sink.told == []
        began, number = time.monotonic(), 0
        while len(sink.told) < 4 and number < 600:
            dispatcher.committed(("q", number))
            dispatcher.committed(("monitor", number), lives=False)
            number += 1
            time.sleep(0.1)
        beats = len(sink.told)
        assert 4 <= beats <= 2 + (time.monotonic() - began) / 0.4
        assert {told.labels["alertname"] for told in sink.told} == {"Watchdog"}
        assert len({told.thread for told in sink.told}) == 1
        for number in range(20):
            # What the monitor says of itself is no proof that the query lives.
            dispatcher.committed(("monitor", 1_000 + number), lives=False)
            time.sleep(0.1)
        late = len(sink.told)
        assert late - beats <= 3
        time.sleep(1.0)
        assert len(sink.told) == late
