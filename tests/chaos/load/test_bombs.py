"""Records that are small on the wire and huge in memory, written beside groups that are judged rightly."""

from __future__ import annotations

import re
from struct import pack
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import ENGINE, OFFSETS, PATIENCE_S, Rig, of_faults
from tests.decoders.encode import group_key, string

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from confluent_kafka import KafkaError, Message

pytestmark = of_faults(1_200)
PARTITIONS = 8
BOMB = "bomb"
BESIDE = [f"beside-{n}" for n in range(20) if coordinator_partition(f"beside-{n}", PARTITIONS)
          != coordinator_partition(BOMB, PARTITIONS)][:4]  # fmt: skip
# What Spark gives its JVM where nothing is set.
DEFAULT_HEAP = {"spark": {"spark.master": "local[2]"}}
MEMBERS = 838_860
SAID = {
    "spark": "partition {shard}, offset {place:,} unpacks to more than 100 MB",
    "embedded": "The records from offset {place:,} of partition {shard} of __consumer_offsets on",
}


@pytest.fixture
def broker() -> Iterator[LabBroker]:
    # What snappy makes of the bomb is 5 MB.
    with LabBroker(offsets_partitions=PARTITIONS, settings={"message.max.bytes": "20000000"}) as found:
        yield found


def of_members(count: int) -> bytes:
    """A GroupMetadata value, version 3, of so many members that are all alike and nameless."""
    head = pack(">h", 3) + string("consumer") + pack(">i", 1) + string("range") + string("m")
    member = string("") + string(None) + string("") + string("") + pack(">iiii", 1, 1, 0, 0)
    return head + pack(">qi", 1_795_000_000_000, count) + member * count


def write_small(bootstrap: str, *values: bytes, codec: str = "zstd") -> None:
    """Write a batch that compression makes small; brokers bound what comes over the wire."""
    one_batch = {"message.max.bytes": 900_000_000, "batch.size": 1_000_000_000, "linger.ms": 1_000}
    settings = {"client.id": "__admin_client", "compression.type": codec, **one_batch}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    refused: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error.str())

    for value in values:
        partition = coordinator_partition(BOMB, PARTITIONS)
        producer.produce(OFFSETS, value, group_key(BOMB), partition, on_delivery=delivered)
    assert producer.flush(120) == 0
    assert not refused


def test_one_small_record_of_very_many_members_is_published_and_cuts_no_batch(
    broker: LabBroker, tmp_path: Path
) -> None:
    rig = Rig(broker.bootstrap, tmp_path, DEFAULT_HEAP)
    rig.pulse(BESIDE[0])
    with rig.job:
        rig.job.wait_ready()
        write_small(broker.bootstrap, of_members(MEMBERS))
        rig.pulse(*BESIDE[1:])
        for group in BESIDE:
            rig.completed(group)
        told = rig.await_told(lambda finding: finding.group == BOMB)
        assert told.members_total == MEMBERS
        rig.job.require()
        assert "OutOfMemoryError" not in rig.job.log


@pytest.mark.parametrize(
    ("codec", "size"),
    [("zstd", 500_000_000), ("gzip", 500_000_000), ("lz4", 200_000_000), ("snappy", 110_000_000)],
)
def test_a_record_that_no_heap_holds_ends_the_job_with_its_place_and_is_skipped_once_that_is_set(
    broker: LabBroker, tmp_path: Path, codec: str, size: int
) -> None:
    rig = Rig(broker.bootstrap, tmp_path, DEFAULT_HEAP)
    rig.pulse(BESIDE[0])
    shard = coordinator_partition(BOMB, PARTITIONS)
    with rig.job:
        rig.job.wait_ready()
        # One batch: who asks for its second record is given the first one, too.
        write_small(broker.bootstrap, bytes(size), b"after it", codec=codec)
        assert wait_until(lambda: rig.job.code is not None, PATIENCE_S), rig.job.log[-4_000:]
    assert rig.job.code == ExitCode.USAGE, rig.job.log[-4_000:]
    (place,) = re.findall(rf"source\.skip: \{{{shard}: (\d+)\}}", rig.job.log)
    assert SAID[ENGINE].format(shard=shard, place=int(place) - 1) in rig.job.log
    assert "blind opened" in rig.health()
    rig.job.set({"source": {"skip": {shard: int(place)}}})
    with rig.job:
        rig.pulse(*BESIDE[1:])
        for group in BESIDE:
            rig.completed(group)
        lost = rig.await_told(lambda finding: finding.details.get("cause") == "data_lost")
        assert f"{shard}: up to {int(place) + 1:,} records up to offset {int(place):,}" in str(
            lost.causes[0].why
        )
        rig.job.require()
