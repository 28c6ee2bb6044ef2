"""One group makes half of all commits, and goes on: no other is hidden by it, and the job keeps up.

What counts is what is told, not how fast: docs/measurements/benchmarks.md has the times of a hot shard.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from bench.traffic.feeding import feeding
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig, of_faults
from tests.decoders.encode import string

if TYPE_CHECKING:
    from pathlib import Path

# How long the traffic lasts before anything else is asked of the job.
HOT_S = float(os.environ.get("CHAOS_HOT_S", "60"))
pytestmark = of_faults(600 + HOT_S + 6 * PATIENCE_S)
PARTITIONS, FED = 50, 40
LOAD = {"groups": 200, "per_s": 4_000, "rebalances": 5, "one": 0.5, "shards": FED}
HOT = "team-0.service-0"
# A coordinator loads anew what others wrote into its partition: these live in partitions that nobody feeds.
BEFORE, BESIDE, AFTER = [
    name
    for name in (f"lives-{number}" for number in range(100))
    if coordinator_partition(name, PARTITIONS) >= FED
][:3]


def keeps_up(rig: Rig) -> bool:
    """Whether it is not behind; the brokers know nothing of groups that are fed, which it says too."""
    health = rig.health()
    return health.count("behind opened") == health.count("behind resolved")


def commits_of(bootstrap: str) -> dict[str, int]:
    """How many commits the topic has of the hot group, and in all."""
    found = {"hot": 0, "all": 0}
    with ClusterAdmin({"bootstrap.servers": bootstrap}) as admin:
        begins, ends = admin.begin_offsets(), admin.end_offsets()
    for batch in read_records({"bootstrap.servers": bootstrap}, Reading(begins, until=ends)):
        keys = [key for key in batch["key"].to_pylist() if key and key.startswith(b"\0\1")]
        found["all"] += len(keys)
        found["hot"] += sum(key.startswith(b"\0\1" + string(HOT)) for key in keys)
    return found


def test_a_group_with_half_of_all_traffic_hides_no_other_and_is_kept_up_with(tmp_path: Path) -> None:
    with LabBroker(offsets_partitions=PARTITIONS, settings={"log.cleaner.enable": "false"}) as broker:
        rig = Rig(broker.bootstrap, tmp_path)
        rig.pulse(BEFORE)
        with rig.job:
            rig.job.wait_ready()
            with feeding(broker.bootstrap, 3_600, **LOAD) as feed:
                rig.completed(BEFORE)
                rig.await_told(
                    lambda f: f.group not in rig.groups and f.kind == "rebalance" and not f.history
                )
                time.sleep(HOT_S)
                rig.pulse(BESIDE)
                assert not rig.completed(BESIDE).history
                # However far it fell behind at a start: under the same traffic it is well.
                assert wait_until(lambda: keeps_up(rig), PATIENCE_S), rig.health()
                assert feed.poll() is None
            commits = commits_of(broker.bootstrap)
            rig.pulse(AFTER)
            rig.completed(AFTER)
            rig.groups |= {finding.group for finding in rig.told() if finding.group}
            rig.require_truth()
            rig.job.require()
            assert wait_until(lambda: keeps_up(rig), PATIENCE_S), rig.health()
    assert HOT in rig.groups
    assert commits["hot"] > 0.45 * commits["all"] > 0.45 * LOAD["per_s"] * HOT_S / 2
