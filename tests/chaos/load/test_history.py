"""The first start on a long history: nobody is alerted of the past, memory is bounded, and nothing is lost.

Nor is anybody told twice when the checkpoint is lost and the history is read once more.

CHAOS_HISTORY=10000000 for ten million records: 1 GB of disk for the broker, and some ten minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.alerts.support.fakes import WebhookFake
from tests.chaos.support.rig import PATIENCE_S, Rig, of_faults
from tests.streaming.support.undisturbed import findings_of_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = int(os.environ.get("CHAOS_HISTORY", "200000"))
GROUPS = min(10_000, RECORDS // 500)
# As slow as a machine may read history, beside what everything else may take.
READ_S = PATIENCE_S + RECORDS / 2_000
pytestmark = of_faults(1_200 + 6 * READ_S)
PARTITIONS = 50
# Groups of real members, and where their coordinators write.
LIVELY = ("first", "before", "after")
AWAKE = {coordinator_partition(group, PARTITIONS) for group in LIVELY}
# The most that processes may ever have had, in MB: Python's one by one, and all of the job's at one moment,
# for that is what a pod's limit counts. The JVM's heap is 1 GB (lab/suite/job.py).
BOUNDS = {"driver": 1_000, "worker": 1_000, "together": 4_000}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LabBroker]:
    # The coordinator reads what the job has read: nothing is compacted in between.
    settings = {"log.cleaner.enable": "false"}
    with LabBroker(folder=tmp_path / "broker", offsets_partitions=PARTITIONS, settings=settings) as found:
        yield found


def is_history(group: str) -> bool:
    """Whether a group is nothing but records.

    A coordinator reads a partition anew once it has written beside us, and awaits the members that it finds
    there: a session timeout later it writes, truly, that they are gone.
    """
    return group not in LIVELY and coordinator_partition(group, PARTITIONS) not in AWAKE


def opened(hook: WebhookFake) -> Counter[str]:
    """Group -> how often an incident of it was opened; what the monitor says of itself is of none."""
    bodies = [json.loads(call.body) for call in hook.calls]
    groups = [body["labels"].get("group", "") for body in bodies if body["phase"] == "opened"]
    return Counter(group for group in groups if group in LIVELY or (group and is_history(group)))


def most(pid: int) -> float:
    """The most memory that a process has had, in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


class Together:
    """Watches, while it is entered, how much memory all processes of the job have at one moment, in MB.

    Pages that several of them share count once (PSS).
    """

    def __init__(self, rig: Rig) -> None:
        self.most = 0.0
        self._rig, self._over = rig, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(1):
            self.most = max(self.most, sum(map(share, self._rig.job.below())))


def share(pid: int) -> float:
    """What a process has in memory now, with its part of what it shares, in MB; 0 of one that has ended."""
    with suppress(OSError, IndexError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(text.partition("\nPss:")[2].split()[0]) / 1024
    return 0.0


def peaks(rig: Rig) -> dict[str, float]:
    """The most memory that driver, JVM and the largest worker have had, in MB; the embedded engine is one."""
    parts = {"driver": [rig.job.pid], "jvm": rig.job.jvms(), "worker": rig.job.python_workers()}
    return {name: max(map(most, pids)) for name, pids in parts.items() if pids}


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_long_history_raises_no_alert_and_keeps_within_its_memory(
    broker: LabBroker, tmp_path: Path
) -> None:
    with WebhookFake() as hook:
        alerts = {
            "receivers": [{"name": "hook", "webhook": {"url": hook.url, "per_minute": 600}}],
            "route": {"receiver": "hook", "group_wait": "0s", "group_by": ["group"]},
            "minimum_severity": "info",
        }
        rig = Rig(broker.bootstrap, tmp_path / "job", {"alerts": alerts})
        # The broker makes the topic for its first group.
        rig.pulse("first")
        command = [sys.executable, "-m", "bench.traffic.load", "--bootstrap", broker.bootstrap]
        subprocess.run([*command, "--groups", str(GROUPS), "--records", str(RECORDS)], check=True)
        with rig.job:
            with Together(rig) as together:
                rig.job.wait_ready(READ_S)
                requires_history(rig)
                assert opened(hook) == {}
                lives(rig, hook, "before")
            requires_memory(peaks(rig) | {"together": together.most})
        shutil.rmtree(rig.job.storage / "state")
        with rig.job:
            rig.await_told(lambda f: f.details.get("cause") == "state_rebuilt", READ_S)
            lives(rig, hook, "after")
        assert opened(hook) == {"before": 1, "after": 1}


def requires_history(rig: Rig) -> None:
    """The job tells what the topic holds, and all of it as history."""
    found = findings_of_topic(rig.bootstrap)
    groups = {finding.group for finding in found if finding.group}
    assert len(groups) == GROUPS + 1
    # Of the others the topic holds more by the time that it has been read.
    rig.groups |= set(filter(is_history, groups))
    jsonl = Storage(rig.job.storage).jsonl
    assert wait_until(lambda: lines(jsonl) >= len(found) or not rig.job.alive, READ_S, 2)
    rig.require_truth()
    told = [finding for finding in rig.told() if finding.group and is_history(finding.group)]
    assert {finding.history for finding in told} == {True}


def lives(rig: Rig, hook: WebhookFake, group: str) -> None:
    """A group that lives now is published and alerted, and no other."""
    others = opened(hook)
    rig.pulse(group)
    assert wait_until(lambda: group in opened(hook), READ_S), rig.job.log[-3_000:]
    rig.require_truth()
    assert opened(hook) == others + Counter([group])


def requires_memory(found: dict[str, float]) -> None:
    # Shown with -s.
    sys.stdout.write(f"{RECORDS:,} records, {GROUPS:,} groups; the most memory, MB: {found}\n")
    assert {name: mb for name, mb in found.items() if mb > BOUNDS.get(name, mb)} == {}
