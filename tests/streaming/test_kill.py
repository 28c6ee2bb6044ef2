"""The driver is killed ten times while a group crash-loops: nothing is lost and nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.dashboard.table_files import files
from rebalance_monitor.lab.job import Job
from rebalance_monitor.lab.node import wait_until
from rebalance_monitor.streaming.storage import Storage
from tests.streaming.test_end_to_end import PATIENCE_S, Members, told
from tests.streaming.undisturbed import findings_of_topic, record_driven

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.lab.broker import LabBroker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.timeout(600 + 120 * int(os.environ.get("KILLS", "10"))),
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
KILLS = int(os.environ.get("KILLS", "10"))
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


def committed(job: Job) -> int:
    """How many batches Spark has committed."""
    return max((int(path.name) for path in job.storage.glob("state/*/commits/[0-9]*")), default=-1)


def kill_mid_run(job: Job, dice: random.Random) -> None:
    """Start the job, let it commit a batch, and kill driver and JVM at a random moment after that."""
    before = committed(job)
    with job:
        assert wait_until(lambda: committed(job) > before or not job.alive, PATIENCE_S)
        job.require()
        time.sleep(dice.uniform(0, 4))
        os.killpg(job._process.pid, signal.SIGKILL)


def settled(bootstrap: str) -> list[tuple[str, str, str]]:
    """What the coordinator finds once the topic is quiet: members that were killed last expire later."""
    deadline = time.monotonic() + PATIENCE_S
    found = record_driven(findings_of_topic(bootstrap), {GROUP})
    while time.monotonic() < deadline:
        time.sleep(10)
        before, found = found, record_driven(findings_of_topic(bootstrap), {GROUP})
        if found == before and any(kind == "group_empty" for _, kind, _ in found):
            return found
    raise AssertionError(found)


def test_ten_kills_lose_nothing_and_double_nothing(lab_broker: LabBroker, tmp_path: Path) -> None:
    job, dice = Job(lab_broker.bootstrap, tmp_path / "job"), random.Random(20)  # noqa: S311 - no secret
    with ExitStack() as stack:
        members = Members(lab_broker.bootstrap, GROUP, tmp_path / "workers", stack)
        with job:
            job.wait_ready()
        members.start("stays")
        loop = CrashLoop(members)
        loop.start()
        for _ in range(KILLS):
            kill_mid_run(job, dice)
        loop.ended.set()
        loop.join()
    expected = settled(lab_broker.bootstrap)
    assert len(expected) > KILLS
    with job:
        wait_until(lambda: len(record_driven(told(job), {GROUP})) >= len(expected), PATIENCE_S)
        job._process.terminate()
        job._process.wait(60)
    assert record_driven(told(job), {GROUP}) == expected
    ids = [finding.id for finding in told(job)]
    assert len(set(ids)) == len(ids)
    table = files(Storage(job.storage).findings)
    assert sorted(i for path in table for i in pq.ParquetFile(path).read(["id"])["id"].to_pylist()) == sorted(
        ids
    )
