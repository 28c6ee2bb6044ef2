"""The driver is killed again and again, at any moment: nothing is lost, doubled or notified twice.

The truth is what the coordinator alone finds in the topic, which is what an undisturbed job tells.
KILLS=100 kills it more often, KILL_SEED=7 draws other moments. `make test-slow` kills it six times: three of
these follow a batch, so all of it, its driver and its JVM are each killed once. `make chaos` kills it ten
times, so that the dice also hit a start or an unfinished batch.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from rebalance_monitor.dashboard.tables.findings_table import read_newest
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.node import wait_until
from tests.alerts.support.fakes import WebhookFake
from tests.chaos.support.rig import PATIENCE_S as CHAOS_PATIENCE_S
from tests.chaos.support.rig import ChaosJob
from tests.streaming.support import notified
from tests.streaming.support.kills import AFTER, ALL, DRIVER, THE_JVM, Kills
from tests.streaming.support.undisturbed import (
    Decided,
    both,
    findings_of_topic,
    left_open,
    record_driven,
    require_by_samples,
)
from tests.streaming.test_end_to_end import PATIENCE_S as SPARK_PATIENCE_S
from tests.streaming.test_end_to_end import Members, told

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

KILLS = int(os.environ.get("KILLS", "6"))
# With fewer, late kills are too few for each victim; and the dice may let all kills follow a batch.
EACH_VICTIM, EACH_STAGE = 6, 10
SEED = int(os.environ.get("KILL_SEED", "20"))
PATIENCE_S = max(SPARK_PATIENCE_S, CHAOS_PATIENCE_S)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.timeout(4 * PATIENCE_S + 120 * KILLS),
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
GROUP = "crash-loop"


class CrashLoop(threading.Thread):
    """A member that joins, lives for some seconds and is killed, again and again."""

    def __init__(self, members: Members) -> None:
        super().__init__(daemon=True)
        self._members = members
        self.ended = threading.Event()

    def run(self) -> None:
        life = 0
        while not self.ended.is_set():
            worker = self._members.start(f"life-{life}")
            self.ended.wait(5)
            worker.send(signal.SIGKILL)
            life += 1


def settled(bootstrap: str) -> list[tuple[str, str, str]]:
    """What the coordinator finds once the broker has no member left: those killed last expire later.

    That it found the group empty says less: on a busy machine it may have been so before.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": "0"})

    def is_empty() -> bool:
        return bool(admin.describe_consumer_groups([GROUP])[GROUP].result().state is ConsumerGroupState.EMPTY)

    assert wait_until(is_empty, PATIENCE_S)
    return record_driven(findings_of_topic(bootstrap), {GROUP})


def covers(told: list[Decided], expected: list[Decided]) -> bool:
    return len(told) >= len(expected)


def test_kills_at_any_moment_lose_nothing_double_nothing_and_publish_nothing_twice(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    # Shown with -s, and where it fails.
    sys.stdout.write(f"\nKILL_SEED={SEED} KILLS={KILLS}\n")
    bootstrap, dice = lab_broker.bootstrap, random.Random(SEED)  # noqa: S311 - no secret
    notified.prepare(bootstrap)
    with WebhookFake() as hook:
        settings = {"alerts": notified.alerts_to(hook), "detection": notified.DETECTION}
        job = ChaosJob(bootstrap, tmp_path / "job", settings)
        loops = [
            notified.Incidents(bootstrap, hook, name, random.Random(f"{name}/{SEED}"), awaited=name != "blip")  # noqa: S311 - no secret
            for name in ("one", "two", "blip")
        ]
        kills = Kills(job, dice, PATIENCE_S)
        with ExitStack() as stack:
            members = Members(bootstrap, GROUP, tmp_path / "workers", stack)
            kill_again_and_again(job, kills, loops, members)
        assert len(settled(bootstrap)) > KILLS // 2
        with job:
            assert [loop.finish(PATIENCE_S) for loop in loops] == [True] * len(loops)
            names = [name for loop in loops for name in loop.names]
            found = findings_of_topic(bootstrap)
            groups = {GROUP, *names}
            wait_until(lambda: covers(*both(told(job), found, groups)), PATIENCE_S)
            assert wait_until(lambda: notified.none_open(hook), PATIENCE_S)
            assert wait_until(lambda: not left_open(told(job)), PATIENCE_S), left_open(told(job))
            job._process.terminate()
            job._process.wait(PATIENCE_S)
        must = {*loops[0].names, *loops[1].names}
        say(kills, hook, must, {*loops[2].names})
        ours, expected = both(told(job), found, groups)
        assert ours == expected, sorted(set(ours) ^ set(expected))
        require_by_samples(told(job), found)
        require_no_doubles(job)
        require_resumed(job)
        notified.require_told_once(hook, found, must, {*loops[2].names})
    assert kills.stages.total() == KILLS
    assert kills.stages[AFTER] > 0
    if KILLS >= EACH_VICTIM:
        assert kills.victims.keys() == {ALL, DRIVER, THE_JVM}
    if KILLS >= EACH_STAGE:
        assert kills.stages[AFTER] < KILLS


def kill_again_and_again(
    job: ChaosJob, kills: Kills, loops: list[notified.Incidents], members: Members
) -> None:
    """The first kill falls into the very first start; then short and long lives take turns."""
    kills.early()
    with job:
        job.wait_ready(PATIENCE_S)
    members.start("stays")
    crashes = CrashLoop(members)
    for thread in (crashes, *loops):
        thread.start()
    for number in range(1, KILLS):
        kills.late() if number % 2 else kills.early()
    crashes.ended.set()
    crashes.join()


def say(kills: Kills, hook: WebhookFake, must: set[str], may: set[str]) -> None:
    """Shown with -s."""
    threads = notified.told_to(hook)
    heard = {group for told_of in threads.values() for group in told_of.groups}
    sys.stdout.write(f"\nwhere {kills.stages.total()} kills fell: {dict(kills.stages)}\n")
    sys.stdout.write(f"whom they hit: {dict(kills.victims)}\n")
    sys.stdout.write(
        f"incidents told: {len(must & heard)} of {len(must)} that must be, {len(may & heard)} of {len(may)} "
        f"that may be; {len(threads)} threads, {len(hook.calls)} notifications, of which "
        f"{notified.repeated(threads.values())} again with the same key\n"
    )


def require_resumed(job: ChaosJob) -> None:
    """No state was given up for another one: each life went on with what the one before had committed."""
    assert [path.name for path in job.storage.glob("state/*")] == ["1"]
    assert not [one for one in told(job) if one.details.get("cause") == "state_rebuilt"]


def require_no_doubles(job: ChaosJob) -> None:
    """Every id is published once, and the table holds the same findings, field by field."""
    ours = sorted(told(job), key=lambda one: one.id)
    assert len({finding.id for finding in ours}) == len(ours)
    rows = read_newest(Storage(job.storage).findings, sys.maxsize)
    assert sorted(rows, key=lambda one: one.id) == ours
