"""The offsets topic is given more partitions while the job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from confluent_kafka.admin import AdminClient, NewPartitions

from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.broker import LabBroker
from tests.chaos.support.rig import OFFSETS, PATIENCE_S, Rig, of_faults

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = of_faults(max(1_200, 4 * PATIENCE_S))
BEFORE, AFTER = 2, 8


def test_partitions_added_under_the_job_are_read_from_their_first_record(tmp_path: Path) -> None:
    names = [f"grown-{number}" for number in range(40)]
    moved = [name for name in names if coordinator_partition(name, AFTER) >= BEFORE][:3]
    with LabBroker(offsets_partitions=BEFORE, folder=tmp_path / "broker") as broker:
        rig = Rig(broker.bootstrap, tmp_path / "job", {"source": {"refresh": "2s"}})
        rig.pulse("before")
        with rig.job:
            rig.job.wait_ready()
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_partitions([NewPartitions(OFFSETS, AFTER)])[OFFSETS].result()
            # A broker spreads groups over the partitions that there were when it started.
            for node in broker.nodes:
                node.stop()
                node.start()
            broker.wait_ready()
            rig.pulse(*moved)
            for name in moved:
                found = rig.completed(name)
                assert found.shard == coordinator_partition(name, AFTER)
                assert not found.history
            rig.require_truth()
            rig.job.require()
