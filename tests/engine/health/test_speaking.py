"""What cannot wait for a batch is published as soon as nothing is in the way."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.engine.driver.speaking import AGAIN_S, FIRST_BATCH, Speaking
from rebalance_monitor.engine.driver.writer import Published
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.lab.cluster.node import wait_until


@dataclass
class Writer:
    """Publishes by script: True, False (a batch is being written), or an error of its storage."""

    answers: list[Any]
    published: Published = field(default_factory=lambda: Published(batches=1))
    asked: int = 0

    def speak(self) -> bool:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def speaking(writer: Writer, clock: Clock) -> tuple[Speaking, Notices]:
    notices = Notices()
    return Speaking(notices, writer, 10_000, clock), notices  # type: ignore[arg-type]  # all that is used of it


def test_a_storage_that_is_away_with_the_brokers_ends_nothing_and_is_reported_later() -> None:
    writer, clock = Writer([OSError("no route to host"), False, True]), Clock()
    found, notices = speaking(writer, clock)
    found.say(Cause.BLIND, "no broker answers")
    assert notices.condition(Cause.BLIND) == "no broker answers"
    for clock.now in (0.2, 0.4, AGAIN_S, AGAIN_S + 0.2, AGAIN_S + 0.4):
        found.speak()
    assert (writer.asked, writer.answers) == (3, [])


def test_a_silence_is_reported_once_and_ends_with_the_next_batch() -> None:
    writer, clock = Writer([True, True]), Clock()
    found, notices = speaking(writer, clock)
    for clock.now in (9.0, 10.5, 30.0):
        found.turn()
    assert (writer.asked, notices.condition(Cause.BEHIND)) == (1, "no batch was finished for 10 s")
    found.progressed()
    assert notices.condition(Cause.BEHIND) == ""
    clock.now = 50.0
    found.turn()
    assert writer.asked == 2


def test_the_first_batch_may_take_its_time() -> None:
    writer, clock = Writer([True], Published()), Clock()
    found, notices = speaking(writer, clock)
    clock.now = 9.0 * FIRST_BATCH
    found.turn()
    assert notices.condition(Cause.BEHIND) is None
    clock.now = 11.0 * FIRST_BATCH
    found.turn()
    assert notices.condition(Cause.BEHIND)


def test_a_thread_takes_the_turns_while_a_query_runs_and_what_ends_it_is_raised_by_require() -> None:
    broken = ZeroDivisionError("a sink's own")
    writer, clock = Writer([True, broken]), Clock()
    found, notices = speaking(writer, clock)
    with found.listening(threading.Event(), turn_s=0.001):
        clock.now = 10.5
        assert wait_until(lambda: writer.asked == 1, 60, 0.01)
        assert notices.condition(Cause.BEHIND)
        found.require()
        found.progressed()
        clock.now = 21.5
        assert wait_until(lambda: writer.asked == 2, 60, 0.01)
    with pytest.raises(ZeroDivisionError, match="own"):
        found.require()
    clock.now = 60.0
    assert writer.asked == 2


def test_a_slow_last_batch_of_a_job_that_is_stopping_is_not_reported() -> None:
    writer, clock, stop = Writer([]), Clock(), threading.Event()
    found, notices = speaking(writer, clock)
    stop.set()
    with found.listening(stop, turn_s=0.001):
        clock.now = 60.0
        time.sleep(0.05)
    found.require()
    assert (writer.asked, notices.condition(Cause.BEHIND)) == (0, None)
