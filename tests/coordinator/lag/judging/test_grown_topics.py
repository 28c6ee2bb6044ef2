"""On a real broker: members that have not heard that their topic grew leave its new partitions to nobody."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.cluster.ends.ends import Rounds
from rebalance_monitor.cluster.ends.offsets import OffsetsClient
from rebalance_monitor.coordinator.findings.kinds import Severity
from rebalance_monitor.coordinator.findings.outputs import GroupOut
from rebalance_monitor.coordinator.lag.judging.unowned import METADATA_MS, Unowned
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import made_rows
from rebalance_monitor.lab.suite.suite import capture_broker

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.lab.cluster.broker import LabBroker

SETTINGS = DetectionSettings()


def summary_of(group: str, broker: LabBroker, path: Path) -> dict[str, Any]:
    """The group's newest summary, from all records that the broker holds."""
    capture_broker(broker, path, [], [])
    found: dict[str, Any] = {}
    with read_capture(path).by_partition(100_000) as streams:
        for shard, batches in streams.items():
            coordinator = ShardCoordinator(new_shard_state(shard, 0, None), SETTINGS, "c")
            rows = [row for batch in batches for row in made_rows(decode_batch(batch))]
            said = [out for row in rows for out in coordinator.on_row(row)]
            said += coordinator.on_clock(int(time.time() * 1000) + 60_000)
            found |= {out.group: out.summary for out in said if isinstance(out, GroupOut)}
    summary: dict[str, Any] = found[group]
    return summary


def sampled(broker: LabBroker, topic: str, partitions: int) -> EndsSample:
    with OffsetsClient({"bootstrap.servers": broker.bootstrap}) as client:
        rounds = Rounds(client)
        for _ in range(600):
            sample = rounds.sample({topic})
            if len(sample.latest.get(topic, ())) == partitions and min(sample.latest[topic]) >= 0:
                return sample
            time.sleep(0.1)
    raise AssertionError(sample)


def later(sample: EndsSample, ms: int) -> EndsSample:
    return replace(sample, asked_at=sample.asked_at + ms, at=sample.at + ms)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize(("protocol", "hears"), [("classic", False), ("consumer", True)])
def test_only_members_that_do_not_hear_of_new_partitions_leave_them_to_nobody(
    protocol: str, lab_broker: LabBroker, tmp_path: Path, *, hears: bool
) -> None:
    """A KIP-848 coordinator assigns them itself; a classic client asks for metadata once an hour here."""
    topic = group = f"grown-{protocol}"
    admin = AdminClient({"bootstrap.servers": lab_broker.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": lab_broker.bootstrap})
    settings = {"bootstrap.servers": lab_broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    settings |= {
        "group.protocol": protocol,
        "topic.metadata.refresh.interval.ms": "1000" if hears else "3600000",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        owns(consumer, 2)
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(60)
        before = sampled(lab_broker, topic, 4)
        owns(consumer, 4 if hears else 2)
        producer.produce(topic, b"x", partition=3)
        assert producer.flush(60) == 0
        after = sampled(lab_broker, topic, 4)
        summary = summary_of(group, lab_broker, tmp_path / "capture")
    judge, judged = Unowned(SETTINGS, "c"), []
    for sample in (before, later(after, METADATA_MS), later(after, METADATA_MS + 60_000)):
        judged += judge.on_sample(sample, {group: summary}, ())
    if hears:
        assert judged == []
        return
    (opened,) = judged
    said = (opened.severity, opened.partitions_affected, opened.details["arrived"])
    assert said == (Severity.CRITICAL, 2, 1)


def owns(consumer: Consumer, partitions: int) -> None:
    """Poll until the member owns so many partitions, and for a while then."""
    end = time.monotonic() + 180
    while len(consumer.assignment()) != partitions:
        consumer.poll(0.2)
        assert time.monotonic() < end
    for _ in range(10):
        consumer.poll(0.2)
