"""Partitions of the offsets topic whose only broker is away: the embedded job reads the others meanwhile."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import ranges
from rebalance_monitor.lab.cluster.quiet import quiet
from tests.chaos.support.rig import TOPIC, Rig
from tests.engine.support.halves import Halves, halves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
SETTINGS = {"engine": "embedded", "web": {"enabled": False}, "source": {"refresh": "2s"}}
SESSION_MS = 10_000


@pytest.fixture(scope="module")
def half() -> Iterator[Halves]:
    with halves() as found:
        yield found


@pytest.fixture
def stays() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def says(rig: Rig, phase: str) -> Finding:
    return rig.await_told(lambda one: (one.details.get("cause"), one.phase) == (Cause.BLIND, phase))


def test_a_job_goes_on_without_the_partitions_and_says_so_until_they_have_a_leader(
    half: Halves, tmp_path: Path
) -> None:
    rig = Rig(half.cluster.bootstrap, tmp_path / "job", SETTINGS, copies=3)
    with rig.job as job:
        job.wait_ready()
        half.kill()
        assert f"({ranges(half.partitions)})" in says(rig, "opened").causes[0].why
        led = half.group("led-all-along", there=False)
        rig.pulse(led)
        rig.completed(led)
        half.start()
        says(rig, "resolved")
        # It followed the topic once: nothing ended it.
        assert job.log.count('"query": "') == 1, job.log[-4_000:]


def test_a_job_that_is_started_meanwhile_reads_the_others_and_takes_them_up_with_nothing_lost(
    half: Halves, tmp_path: Path, stays: ExitStack
) -> None:
    """One job is killed and started again, with its state; another one begins a state."""
    here, away = half.group("led", there=False), half.group("away", there=True)
    rig = Rig(half.cluster.bootstrap, tmp_path / "job", SETTINGS, copies=3)
    anew = Rig(half.cluster.bootstrap, tmp_path / "anew", SETTINGS, copies=3)
    with rig.job as job:
        job.wait_ready()
        rig.pulse(here, away)
        rig.completed(away)
        staying = half.group("stays", there=True)
        stays.enter_context(member(rig.bootstrap, staying))
        rig.completed(staying)
        half.kill()
        job.kill()
    with rig.job:
        assert f"({ranges(half.partitions)})" in says(rig, "opened").causes[0].why
        rig.pulse(here)
        rig.await_told(generations(here, 3))
    # It has kept its state without those partitions once, and is started again.
    with rig.job as job, anew.job:
        job.wait_ready()
        says(anew, "opened")
        assert not [one for one in anew.told() if one.group == away]
        half.start()
        says(rig, "resolved")
        says(anew, "resolved")
        rig.pulse(here, away)
        rig.await_told(generations(away, 3))
        anew.await_told(generations(away, 3))
        rig.require_truth()
        # What was there when it had a leader again is history, and what came then is not.
        rebalances = [one for one in anew.told() if one.group == away and one.kind is Kind.REBALANCE]
        assert [one.history for one in rebalances] == [one.generation < 3 for one in rebalances]
        # A member that nobody coordinated was not silent.
        last = half.group("last", there=True)
        rig.pulse(last)
        anew.await_told(generations(last, 1))
        rig.await_told(generations(last, 1))
        assert not silences(rig), silences(rig)
        assert not silences(anew), silences(anew)


def generations(group: str, number: int) -> Callable[[Finding], bool]:
    return lambda one: one.group == group and one.kind is Kind.REBALANCE and (one.generation or 0) >= number


@contextmanager
def member(bootstrap: str, group: str) -> Iterator[None]:
    """A consumer that commits every half a second, whenever there is a coordinator."""
    ends = Event()

    def live() -> None:
        settings = {"group.id": group, "session.timeout.ms": SESSION_MS, "reconnect.backoff.max.ms": 500}
        consumer = Consumer(quiet(bootstrap) | settings)
        consumer.subscribe([TOPIC])
        while not ends.is_set():
            consumer.poll(0.5)
            with suppress(KafkaException):
                consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        consumer.close()

    thread = Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def silences(rig: Rig) -> list[Finding]:
    kinds = {Kind.MEMBER_SILENT, Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED}
    return [one for one in rig.told() if one.kind in kinds]
