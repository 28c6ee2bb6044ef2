"""A job that is too slow says by how much, keeps the order, catches up, and marks what came late."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from bench.feeding import feeding
from rebalance_monitor.coordinator.findings import LATE_AFTER_MS
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.broker import LabBroker
from rebalance_monitor.lab.node import wait_until
from tests.chaos.rig import JVM, PATIENCE_S, WORKERS, Rig, command_line, of_faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.coordinator.findings import Finding

pytestmark = of_faults(600 + 5 * PATIENCE_S)
LIVELY = ("before", "held", "after")
PARTITIONS, GROUPS, PER_S, REBALANCES = 50, 200, 4_000, 5
# How long the workers stand still after the member that must be told late.
HELD_S = LATE_AFTER_MS / 1_000 + 15


@contextmanager
def held(rig: Rig, name: str) -> Iterator[None]:
    """Let the processes below the driver stand still that bear this in their command line."""
    stopped = [pid for pid in rig.job.below() if name in command_line(pid)]
    assert stopped
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def rebalance_of(rig: Rig, group: str) -> Finding:
    return rig.await_told(lambda f: f.group == group and f.kind == "rebalance")


def behind(rig: Rig, phase: str) -> Finding:
    return rig.await_told(lambda f: f.details.get("cause") == "behind" and f.phase == phase)


def is_in_order(told: list[Finding]) -> bool:
    """Whether each partition's findings come in the order of the records that decided them."""
    last: dict[int, int] = {}
    for finding in told:
        if finding.shard is None or finding.offset is None or finding.phase:
            continue
        if finding.offset < last.get(finding.shard, -1):
            return False
        last[finding.shard] = finding.offset
    return bool(last)


@pytest.mark.parametrize("stands_still", [WORKERS, JVM], ids=["workers", "jvm"])
def test_a_job_that_falls_behind_says_by_how_much_keeps_order_and_marks_what_came_late(
    tmp_path: Path, stands_still: str
) -> None:
    with LabBroker(offsets_partitions=PARTITIONS) as broker:
        rig = Rig(broker.bootstrap, tmp_path)
        rig.pulse("before")
        # All in one partition: its coordinator loads anew what others wrote, and serves nobody meanwhile.
        load = {"groups": GROUPS, "per_s": PER_S, "rebalances": REBALANCES, "hot": 1.0}
        assert all(coordinator_partition(group, PARTITIONS) for group in LIVELY)
        with rig.job:
            rig.job.wait_ready()
            with feeding(broker.bootstrap, 1_200, **load) as feed:
                rebalance_of(rig, "before")
                rig.await_told(
                    lambda f: f.group not in rig.groups and f.kind == "rebalance" and not f.history
                )
                with held(rig, stands_still):
                    rig.pulse("held")
                    written = time.monotonic()
                    told = behind(rig, "opened")
                    time.sleep(max(0.0, written + HELD_S - time.monotonic()))
                freed = time.monotonic()
                late = rebalance_of(rig, "held")
                behind(rig, "resolved")
                caught_up = time.monotonic() - freed
                rig.pulse("after")
                fresh = rebalance_of(rig, "after")
                assert feed.poll() is None
            waits = [f.detected_at - f.at for f in rig.told() if f.kind == "rebalance" and f.late]
            # Shown with -s.
            sys.stdout.write(
                f"said at {told.details['lag_ms']} ms; held {HELD_S:.0f} s at {PER_S:,} commits a second; "
                f"{len(waits)} findings up to {max(waits) / 1_000:.0f} s late; well {caught_up:.1f} s after\n"
            )
            rig.groups |= {f.group for f in rig.told() if f.group}
            rig.require_truth()
            rig.job.require()
    # Ten seconds without a finished batch, but for one that was told and not finished when all stood still.
    assert int(told.details["lag_ms"]) >= 8_000
    assert (late.late, late.history) == (True, False)
    assert (fresh.late, fresh.history) == (False, False)
    assert {f.late for f in rig.told() if f.kind == "rebalance"} == {True, False}
    assert all(f.late == (f.detected_at - f.at > LATE_AFTER_MS) for f in rig.told() if not f.history)
    assert is_in_order(rig.told())
    assert wait_until(lambda: "behind resolved" in rig.health(), PATIENCE_S)
