"""Over a restart incidents go on where they were notified, though cluster or receiver have changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.alerts.engine.decision import Reason
from rebalance_monitor.alerts.messages.notification import Phase
from rebalance_monitor.alerts.runtime.memory_file import MemoryFile, MemoryFileError
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import AT, finding
from tests.alerts.support.play import MINUTE, PAGER, SECOND, Play, storm

if TYPE_CHECKING:
    from pathlib import Path


def test_incidents_continue_over_a_restart(tmp_path: Path) -> None:
    play, file = Play(), MemoryFile(tmp_path / "memory.jsonl")
    play.happens(storm())
    play.run(20 * SECOND)
    thread = play.last.notification.thread
    file.save(play.memory)
    play.memory = file.load()
    play.start()
    play.happens(storm("updated"))
    play.run(MINUTE)
    play.happens(storm("resolved"))
    play.run(2 * MINUTE)
    assert [one.notification.phase for _, one in play.told] == [Phase.OPENED, Phase.UPDATED, Phase.RESOLVED]
    assert {one.notification.thread for _, one in play.told} == {thread}


def test_a_memory_of_another_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    path.write_text('{"format": 99}\n')
    with pytest.raises(MemoryFileError, match="move it away"):
        MemoryFile(path).load()


def test_a_cluster_that_is_named_anew_ends_its_alerts_and_goes_on_with_them_under_its_name() -> None:
    play = Play()
    play.happens(storm(), finding(Kind.SESSION_TIMEOUT, group="other"))
    play.run(MINUTE)
    play.cluster = "payments"
    play.start()
    told = play.run(2 * MINUTE)
    labels = [one.notification.labels["cluster"] for _, one in play.told[-4:]]
    assert Counter(zip(labels, (phase for _, phase, _ in told), strict=True)) == {
        ("prod", Phase.RESOLVED): 2,
        ("payments", Phase.OPENED): 2,
    }
    play.happens(storm("resolved", cluster="payments"))
    assert ("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED) in play.run(10 * MINUTE)
    assert all(alert.resolved(play.now) for alert in play.memory.engine.alerts.values())


def test_an_incident_goes_on_when_its_receiver_gets_another_way_out() -> None:
    pager = {"name": "pager", "pagerduty": {"routing_key": "r"}}
    play = Play({"receivers": [pager], "route": {"receiver": "pager"}})
    play.happens(storm())
    play.run(MINUTE)
    thread = play.last.notification.thread
    play.section = {**play.section, "receivers": [{**pager, "console": {}}]}
    play.start()
    assert play.run(2 * MINUTE) == [("pager/console", Phase.OPENED, Reason.FIRST)]
    play.happens(storm("resolved"))
    play.run(2 * MINUTE)
    assert [one.notification.thread for one in play.heard(PAGER)] == [thread, thread]
    assert play.heard(PAGER)[-1].notification.phase is Phase.RESOLVED


def test_a_way_out_that_is_taken_away_is_counted_with_what_stays_open_there() -> None:
    play = Play()
    play.happens(storm(), storm(group="other"))
    play.run(MINUTE)
    play.section = {**play.section, "receivers": [{"name": "sre", "console": {}}]}
    play.section["route"] = {"receiver": "sre"}
    play.start()
    assert play.dispatch.orphaned == {"sre/slack": 2}
    play.start()
    assert play.dispatch.orphaned == {}


@given(
    cuts=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    ended=st.booleans(),
    restarts=st.booleans(),
    batch_ms=st.integers(1, 200) | st.integers(10 * SECOND, 60 * SECOND),
)
def test_what_a_monitor_reads_after_it_was_away_is_decided_as_a_whole(
    *, cuts: list[int], ended: bool, restarts: bool, batch_ms: int
) -> None:
    """However its batches are cut, restarts or not: an ended storm is not sent, an open one once."""
    play = Play()
    events = [storm(at=AT - 40 * MINUTE), storm("updated", at=AT - 30 * MINUTE)]
    events += [storm("resolved", at=AT - 20 * MINUTE)] * ended
    bounds = [0, *sorted(cuts), len(events)]
    told = []
    for number, (first, last) in enumerate(pairwise(bounds)):
        if restarts:
            play.start()
            told += play.run(batch_ms)
        known = [replace(one, detected_at=play.now, late=True) for one in events[first:last]]
        play.dispatch.take(known, play.now)
        play.dispatch.catch_up(play.now, is_behind=number < len(bounds) - 2)
        told += play.run(batch_ms)
    told += play.run(2 * MINUTE)
    assert [phase for _, phase, _ in told] == ([] if ended else [Phase.OPENED])


def test_a_monitor_that_stays_behind_publishes_what_it_knows() -> None:
    play = Play()
    play.dispatch.catch_up(play.now, is_behind=True)
    play.dispatch.take([replace(storm(at=AT - 40 * MINUTE), detected_at=play.now, late=True)], play.now)
    assert play.run(5 * MINUTE) == []
    assert [phase for _, phase, _ in play.run(6 * MINUTE)] == [Phase.OPENED]


def test_what_is_no_news_of_the_past_waits_for_nothing() -> None:
    play = Play()
    play.dispatch.catch_up(play.now, is_behind=True)
    play.happens(storm())
    assert [phase for _, phase, _ in play.run(MINUTE)] == [Phase.OPENED]
