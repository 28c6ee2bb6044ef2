"""A replay fed into the snapshot: what the job would show, up to a moment, at a pace, until it is stopped."""

from __future__ import annotations

import threading
import time

from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.engine.replay.feeding import Feed
from rebalance_monitor.engine.replay.replaying import replay_capture
from tests.dashboard.web import known

SETTINGS = DetectionSettings()


def test_a_feed_shows_every_finding_and_the_last_word_on_every_group() -> None:
    snapshot = Snapshot("lab")
    seen: list[str] = []
    snapshot.listen(lambda _known, update: seen.extend(finding.id for finding in update.findings))
    told = Feed(snapshot).run(known.CAPTURE, SETTINGS)
    assert seen == [finding.id for finding in replay_capture(known.CAPTURE, SETTINGS)]
    assert told == len(seen)
    assert snapshot.known.groups[known.STORMY].summary["state"] == "Empty"
    assert "group-deleted.aiokafka" not in snapshot.known.groups
    assert snapshot.known.health.is_ready


def test_a_feed_ends_at_its_moment() -> None:
    middle = next(one.opened_at for one in known.replayed().incidents.open.values() if one.kind == "storm")
    snapshot = Snapshot("lab")
    Feed(snapshot).run(known.CAPTURE, SETTINGS, middle)
    assert middle <= snapshot.known.health.now < middle + 5_000
    assert snapshot.known.groups[known.STORMY].summary["members"] > 0


def test_a_paced_feed_takes_its_time_and_stops_when_asked() -> None:
    snapshot, stop = Snapshot("lab"), threading.Event()
    times: list[float] = []

    def listen(_known: object, _update: Update) -> None:
        times.append(time.monotonic())
        if len(times) == 6:
            stop.set()

    snapshot.listen(listen)
    Feed(snapshot, pace=10.0, stop=stop.is_set).run(known.CAPTURE, SETTINGS)
    # A second of record time a batch, at ten times its speed.
    assert times[5] - times[0] >= 0.3
    assert len(times) < 40
