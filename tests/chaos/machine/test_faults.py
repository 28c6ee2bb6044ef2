"""One fault each, on a real broker and a real job: it says what is wrong, and loses and doubles nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.engine.driver.failures import NO_WORKER
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import (
    OFFSETS,
    PATIENCE_S,
    TOPIC,
    Record,
    Rig,
    inject,
    needs_spark,
    of_faults,
    processes,
)
from tests.coordinator.support.timeline import Client, metadata
from tests.decoders.encode import commit_key, commit_value, group_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = of_faults(1_200)
PARTITIONS = 8
# As long as a broker lets a transaction hang: the test ends it.
HANGS_MS = 900_000
LARGE = {"message.max.bytes": "30000000", "replica.fetch.max.bytes": "30000000"}


@pytest.fixture(scope="module")
def broker() -> Iterator[LabBroker]:
    with LabBroker(offsets_partitions=PARTITIONS, settings=LARGE) as found:
        yield found


@pytest.fixture
def rig(broker: LabBroker, tmp_path: Path) -> Rig:
    return Rig(broker.bootstrap, tmp_path)


@needs_spark
@pytest.mark.parametrize("master", ["local[2]", "local[2,4]"], ids=["the batch again", "the task again"])
def test_python_workers_that_are_killed_while_they_serve_cost_nothing(
    broker: LabBroker, tmp_path: Path, master: str
) -> None:
    rig = Rig(broker.bootstrap, tmp_path, {"spark": {"spark.master": master, "spark.driver.memory": "1g"}})
    name = "".join(filter(str.isdigit, master))
    rig.pulse(f"worker-{name}")
    commit = (commit_key("simple", TOPIC, 0), commit_value(7, int(time.time() * 1000)))
    work = [Record(n % PARTITIONS, *commit) for n in range(20_000)]
    with rig.job:
        rig.job.wait_ready()
        for number in range(3):
            inject(broker.bootstrap, work)
            killed = kill_a_busy_worker(rig)
            rig.pulse(f"worker-{name}-{number}")
            rig.completed(f"worker-{name}-{number}")
            assert killed not in rig.job.python_workers()
        rig.require_truth()
        rig.job.require()
        # Where Spark may try a task again it does so within the batch.
        assert (NO_WORKER in rig.job.log) == (master == "local[2]")


def kill_a_busy_worker(rig: Rig) -> int:
    """Do to a Python worker that has the processor what the kernel does where memory is short."""
    busy: list[int] = []

    def looks() -> bool:
        states = processes()
        busy[:] = [pid for pid in rig.job.python_workers() if states.get(pid, "Z")[0] == "R"]
        return bool(busy)

    assert wait_until(looks, PATIENCE_S, 0.01), rig.job.log[-3_000:]
    os.kill(busy[0], signal.SIGKILL)
    return busy[0]


@needs_spark
def test_a_killed_executor_costs_nothing(broker: LabBroker, tmp_path: Path) -> None:
    spark = {"spark.master": "local-cluster[2,1,2048]", "spark.executor.memory": "2g"}
    rig = Rig(broker.bootstrap, tmp_path, {"spark": spark})
    rig.pulse("executor-a")
    with rig.job:
        rig.job.wait_ready()
        rig.completed("executor-a")
        executors = rig.job.executors()
        assert len(executors) == 2
        os.kill(executors[0], signal.SIGKILL)
        rig.pulse("executor-b")
        rig.completed("executor-b")
        rig.require_truth()
        rig.job.require()
        assert executors[0] not in rig.job.executors()


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
        rig.completed("garbage-b")
        rig.require_truth()
        counted = "records_unreadable_total"
        assert wait_until(lambda: rig.metric(counted) == len(pairs) // 100, PATIENCE_S), rig.metric(counted)
        paths = files(Storage(rig.job.storage).quarantine)
        kept = [row for path in paths for row in pq.ParquetFile(path).read(["reason", "key"]).to_pylist()]
        assert {row["key"] for row in kept} == {key for key, _ in bad}
        assert all(row["reason"] for row in kept)
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
        inject(broker.bootstrap, [Record(shard, group_key(group), value)])
        found = rig.completed(group)
        assert found.members_total == 10_000
        assert found.members_affected == 10_000
        rig.pulse("crowd-b")
        rig.completed("crowd-b")
        rig.groups.add(group)
        rig.require_truth()


def allow_large(admin: AdminClient) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry("max.message.bytes", "30000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()


def committed_until(bootstrap: str, shard: int) -> int:
    """The offset at which a reader of committed records stands at the end of what it is given."""
    settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "group.id": "control"}
    reader = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
    reader.assign([TopicPartition(OFFSETS, shard, OFFSET_BEGINNING)])
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            message = reader.poll(1)
            if message is not None and message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return int(message.offset())
    finally:
        reader.close()
    raise AssertionError(shard)


def test_a_hanging_transaction_hides_no_other_group(rig: Rig, broker: LabBroker) -> None:
    group = "hangs"
    shard = coordinator_partition(group, PARTITIONS)
    neighbour = next(
        name
        for name in (f"beside-{n}" for n in range(1_000))
        if coordinator_partition(name, PARTITIONS) == shard
    )
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    transaction = {"transactional.id": "hangs", "transaction.timeout.ms": HANGS_MS}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **transaction})
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
        # The last stable offset of the partition now stands still; a reader of committed records waits.
        stable = committed_until(broker.bootstrap, shard)
        rig.pulse(neighbour)
        told = rig.completed(neighbour)
        assert told.shard == shard
        assert told.offset is not None
        assert committed_until(broker.bootstrap, shard) == stable <= told.offset
        # Shown with -s.
        waited_ms = told.detected_at - told.at
        sys.stdout.write(f"told after {waited_ms} ms, committed until {stable}, decided by {told.offset}\n")
        producer.abort_transaction(30)
        assert wait_until(lambda: committed_until(broker.bootstrap, shard) > told.offset, PATIENCE_S)
        consumer.close()
        rig.groups.add(group)
        rig.require_truth()


def test_a_topic_recreated_under_the_job_ends_it_with_what_to_do(tmp_path: Path) -> None:
    with LabBroker(offsets_partitions=PARTITIONS, folder=tmp_path / "broker") as broker:
        rig = Rig(broker.bootstrap, tmp_path / "job", {"source": {"refresh": "2s"}})
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
