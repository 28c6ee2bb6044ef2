"""One fault each, on a real broker and a real job: it says what is wrong, and loses and doubles nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.broker import LabBroker
from rebalance_monitor.lab.node import free_ports, wait_until
from tests.chaos.rig import OFFSETS, PATIENCE_S, TOPIC, Proxy, Record, Rig, inject, of_faults
from tests.coordinator.timeline import Client, metadata
from tests.decoders.encode import commit_key, commit_value, group_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.coordinator.findings import Finding

pytestmark = of_faults(1_200)
# How long brokers stay away and a network stalls; CHAOS_AWAY_S=300 for five minutes.
AWAY_S = float(os.environ.get("CHAOS_AWAY_S", "40"))
PARTITIONS = 8
LARGE = {"message.max.bytes": "30000000", "replica.fetch.max.bytes": "30000000"}


@pytest.fixture(scope="module")
def broker() -> Iterator[LabBroker]:
    with LabBroker(offsets_partitions=PARTITIONS, settings=LARGE) as found:
        yield found


@pytest.fixture
def rig(broker: LabBroker, tmp_path: Path) -> Rig:
    return Rig(broker.bootstrap, tmp_path)


def completed(rig: Rig, group: str) -> Finding:
    """Await a completed generation of `group`."""
    return rig.await_told(lambda finding: finding.group == group and finding.kind == "rebalance")


def test_a_killed_python_worker_costs_nothing(rig: Rig) -> None:
    rig.pulse("worker-a")
    with rig.job:
        rig.job.wait_ready()
        for number in range(3):
            assert wait_until(lambda: bool(rig.job.python_workers()), PATIENCE_S)
            for pid in rig.job.python_workers():
                os.kill(pid, signal.SIGKILL)
            rig.pulse(f"worker-{number}")
        rig.require_truth()
        rig.job.require()


def test_a_killed_executor_costs_nothing(broker: LabBroker, tmp_path: Path) -> None:
    spark = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"}
    rig = Rig(broker.bootstrap, tmp_path, {"spark": spark})
    rig.pulse("executor-a")
    with rig.job:
        rig.job.wait_ready()
        completed(rig, "executor-a")
        executors = rig.job.executors()
        assert len(executors) == 2
        os.kill(executors[0], signal.SIGKILL)
        rig.pulse("executor-b")
        completed(rig, "executor-b")
        rig.require_truth()
        rig.job.require()
        assert executors[0] not in rig.job.executors()


def test_a_broker_that_dies_and_returns_is_waited_for(tmp_path: Path) -> None:
    with LabBroker(offsets_partitions=PARTITIONS, folder=tmp_path / "broker") as broker:
        rig = Rig(broker.bootstrap, tmp_path / "job")
        rig.pulse("away-a")
        with rig.job:
            rig.job.wait_ready()
            broker.nodes[0].kill()
            away_until = time.monotonic() + AWAY_S
            rig.await_told(lambda f: f.kind == "monitor_degraded" and f.phase == "opened")
            time.sleep(max(0.0, away_until - time.monotonic()))
            broker.nodes[0].start()
            broker.wait_ready()
            rig.pulse("away-b")
            completed(rig, "away-b")
            rig.require_truth()
            rig.job.require()
            assert wait_until(rig.is_well, PATIENCE_S), rig.health()


def test_a_network_that_stalls_is_told_and_caught_up_with(tmp_path: Path) -> None:
    plain, behind, front, controller = free_ports(4)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},VIA://127.0.0.1"
    settings = {
        "listeners": f"{listeners}:{behind},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"{listeners}:{front}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,VIA:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    proxy = Proxy(("127.0.0.1", behind), front)
    with LabBroker(
        offsets_partitions=PARTITIONS, folder=tmp_path / "broker", port=plain, settings=settings
    ) as broker:
        rig = Rig(broker.bootstrap, tmp_path / "job", seen_at=f"127.0.0.1:{front}")
        rig.pulse("stall-a")
        with rig.job:
            rig.job.wait_ready()
            completed(rig, "stall-a")
            proxy.flows.clear()
            rig.pulse("stall-b")
            rig.await_told(lambda f: f.kind == "monitor_degraded" and f.phase == "opened")
            time.sleep(AWAY_S / 2)
            assert not [finding for finding in rig.told() if finding.group == "stall-b"]
            proxy.flows.set()
            completed(rig, "stall-b")
            rig.require_truth()
            rig.job.require()
            assert wait_until(rig.is_well, PATIENCE_S), rig.health()
    proxy.close()


def test_a_full_disk_is_named_and_the_job_goes_on_once_there_is_room(
    broker: LabBroker, tmp_path: Path
) -> None:
    (disk := tmp_path / "disk").mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here (needs root)")
    try:
        rig = Rig(broker.bootstrap, tmp_path / "job", {"storage": {"path": str(disk / "data")}})
        rig.job.storage = disk / "data"
        rig.pulse("disk-a")
        with rig.job:
            rig.job.wait_ready()
            completed(rig, "disk-a")
            fill(disk / "filler")
            rig.pulse("disk-b")
            assert wait_until(lambda: "No space left on device" in rig.job.log, PATIENCE_S), rig.job.log
            (disk / "filler").unlink()
            completed(rig, "disk-b")
            rig.require_truth()
            rig.job.require()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 65_536)
        except OSError:
            return


def test_one_percent_of_garbage_is_counted_and_harms_no_group(rig: Rig, broker: LabBroker) -> None:
    rig.pulse("garbage-a")
    now = int(time.time() * 1000)
    good = (commit_key("simple", TOPIC, 0), commit_value(7, now))
    bad = [(b"\0\2\0\5g", b"\0\3"), (b"", b"x"), (b"\x7f\xff", b"?"), (group_key("bad"), b"\xff" * 40)]
    with rig.job:
        rig.job.wait_ready()
        pairs = [bad[number // 100 % len(bad)] if number % 100 == 0 else good for number in range(20_000)]
        inject(broker.bootstrap, [Record(n % PARTITIONS, *pair) for n, pair in enumerate(pairs)])
        rig.pulse("garbage-b")
        found = rig.await_told(lambda f: f.kind == "unreadable_records" and f.phase == "opened")
        assert found.details["reason"] in {"truncated", "unknown_type", "bad_length", "unknown_version"}
        completed(rig, "garbage-b")
        rig.require_truth()
        rig.job.require()


def test_a_group_of_ten_thousand_members_is_one_rebalance(rig: Rig, broker: LabBroker) -> None:
    group, now = "crowd", int(time.time() * 1000)
    members = [Client(f"member-{n:06d}-{'x' * 36}", (n,), f"client-{n}") for n in range(10_000)]
    shard = coordinator_partition(group, PARTITIONS)
    value = metadata(1, members, now)
    assert len(value) > 1_400_000
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    allow_large(admin)
    rig.pulse("crowd-a")
    with rig.job:
        rig.job.wait_ready()
        began = time.monotonic()
        inject(broker.bootstrap, [Record(shard, group_key(group), value)])
        found = completed(rig, group)
        assert found.members_total == 10_000
        assert found.members_affected == 10_000
        assert time.monotonic() - began < 60
        rig.pulse("crowd-b")
        completed(rig, "crowd-b")
        rig.groups.add(group)
        rig.require_truth()


def allow_large(admin: AdminClient) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry("max.message.bytes", "30000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()


def test_a_hanging_transaction_hides_no_other_group(rig: Rig, broker: LabBroker) -> None:
    group = "hangs"
    shard = coordinator_partition(group, PARTITIONS)
    neighbour = next(
        name
        for name in (f"beside-{n}" for n in range(1_000))
        if coordinator_partition(name, PARTITIONS) == shard
    )
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "hangs"})
    with rig.job:
        rig.job.wait_ready()
        consumer.subscribe([TOPIC])
        assert wait_until(lambda: consumer.poll(0.2) is not None or bool(consumer.assignment()), PATIENCE_S)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(TOPIC, 0, 3)], consumer.consumer_group_metadata(), 30
        )
        producer.flush(10)
        # The last stable offset of the partition now stands still; a reader of committed records would wait.
        began = time.monotonic()
        rig.pulse(neighbour)
        completed(rig, neighbour)
        assert time.monotonic() - began < 60
        producer.abort_transaction(30)
        consumer.close()
        rig.groups.add(group)
        rig.require_truth()


def test_a_shard_with_half_of_all_traffic_delays_no_other(rig: Rig, broker: LabBroker) -> None:
    now, hot = int(time.time() * 1000), coordinator_partition("hot", PARTITIONS)
    cold = next(
        name for name in (f"cold-{n}" for n in range(99)) if coordinator_partition(name, PARTITIONS) != hot
    )
    commits = [
        Record(
            hot if n % 2 else n % PARTITIONS,
            commit_key(f"simple-{n % 50}", TOPIC, n % 7),
            commit_value(n, now),
        )
        for n in range(200_000)
    ]
    with rig.job:
        rig.job.wait_ready()
        inject(broker.bootstrap, commits)
        began = time.monotonic()
        rig.pulse(cold)
        completed(rig, cold)
        assert time.monotonic() - began < 60
        rig.require_truth()
        rig.job.require()


def test_a_dead_destination_of_notifications_stops_nothing(broker: LabBroker, tmp_path: Path) -> None:
    (nobody,) = free_ports(1)
    alerts = {
        "receivers": [{"name": "dead", "webhook": {"url": f"http://127.0.0.1:{nobody}/"}}],
        "route": {"receiver": "dead"},
    }
    rig = Rig(broker.bootstrap, tmp_path, {"alerts": alerts})
    with rig.job:
        rig.job.wait_ready()
        rig.pulse("unheard")
        completed(rig, "unheard")
        rig.require_truth()
        rig.job.require()


def test_a_topic_recreated_under_the_job_ends_it_with_what_to_do(tmp_path: Path) -> None:
    with LabBroker(offsets_partitions=PARTITIONS, folder=tmp_path / "broker") as broker:
        rig = Rig(broker.bootstrap, tmp_path / "job", {"source": {"refresh_seconds": 2.0}})
        rig.pulse("recreated")
        with rig.job:
            rig.job.wait_ready()
            # Collected before its request is done, a client would never finish it.
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.delete_topics([OFFSETS])[OFFSETS].result()
            time.sleep(2)
            rig.pulse("recreated")
            assert wait_until(lambda: not rig.job.alive, PATIENCE_S), rig.job.log
        assert "was recreated while the monitor ran" in rig.job.log
        assert "--rebuild-state" in rig.job.log
        assert "blind opened" in rig.health()
