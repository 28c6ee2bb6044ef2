"""A history of large records under a small heap: it is published whole, or the job ends with what it read."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Record, Rig, inject, needs_spark, of_faults
from tests.coordinator.support.timeline import Client, metadata, text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [*of_faults(600 + 4 * PATIENCE_S), needs_spark]
PARTITIONS = 8
# 360 MB in records of 900 KB: a broker takes 1 MB.
GROUPS, MEMBERS, NAME = 400, 30, 30_000


def large(group: str) -> Record:
    """A generation with members of long names that nothing makes shorter."""
    names = [os.urandom(NAME // 2).hex() for _ in range(MEMBERS)]
    members = [Client(f"{number}", (number,), name) for number, name in enumerate(names)]
    value = metadata(1, members, time.time_ns() // 1_000_000)
    return Record(coordinator_partition(group, PARTITIONS), b"\0\2" + text(group), value)


def test_a_history_of_large_records_is_published_whole_or_ends_the_job_with_what_it_read(
    tmp_path: Path,
) -> None:
    # Spark takes no less than 450 MB.
    small = {"spark": {"spark.master": "local[2]", "spark.driver.memory": "512m"}}
    with LabBroker(offsets_partitions=PARTITIONS, settings={"log.cleaner.enable": "false"}) as broker:
        rig = Rig(broker.bootstrap, tmp_path, small)
        rig.pulse("before")
        names = [f"large-{number}" for number in range(GROUPS)]
        inject(broker.bootstrap, [large(name) for name in names])
        rig.groups |= set(names)
        with rig.job:
            wait_until(lambda: rig.job.code is not None or reported(rig) >= rig.groups, PATIENCE_S)
            # Shown with -s.
            sys.stdout.write(f"exit code {rig.job.code}, {len(reported(rig))} groups reported\n")
            if rig.job.code is None:
                rig.require_truth()
                rig.job.require()
            else:
                assert rig.job.code == ExitCode.UNREACHABLE, rig.job.log[-3_000:]
                end = rig.job.log[-3_000:]
                assert "spark.driver.memory" in end
                assert "partition 0 from" in end
                assert "heap" in end
                assert reported(rig) == set()


def reported(rig: Rig) -> set[str]:
    """The groups whose generation was published."""
    return {str(f.group) for f in rig.told() if f.kind == "rebalance" and f.group in rig.groups}
