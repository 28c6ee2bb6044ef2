"""Capture from a real broker, and the other verbs on the broker and on what was captured."""

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC, ClusterAdmin
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.view.snapshot import Snapshot
from rebalance_monitor.engine.replay.feeding import Feed
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until

pytestmark = pytest.mark.broker
TOPIC = "capture-tests"


@pytest.fixture(scope="module")
def servers(lab_broker: LabBroker) -> str:
    client = AdminClient({"bootstrap.servers": lab_broker.bootstrap})
    try:
        client.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result()
    except KafkaException as error:
        # A request that a busy broker answered too late is sent again, and finds what it has made.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    come_and_go(lab_broker.bootstrap, "came-and-went")
    return lab_broker.bootstrap


def come_and_go(servers: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "session.timeout.ms": 10_000})
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + 60
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.2)
    consumer.close()


def test_a_capture_holds_what_the_broker_has_and_says_where_it_is_from(
    servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c"
    with ClusterAdmin({"bootstrap.servers": servers}) as admin:
        before = admin.end_offsets()
        assert run(["capture", str(path), "--bootstrap", servers, "--until-end", "--probe"]) == 0
        capture, after, topic = read_capture(path), admin.end_offsets(), admin.topic()
        ends = capture.metadata.end_offsets
        assert topic is not None
        assert (capture.metadata.cluster_id, capture.metadata.topic_id) == (admin.cluster_id(), topic.id)
        assert capture.metadata.partitions == topic.partitions
        assert before.keys() == ends.keys()
        # Groups of other tests may still write.
        assert all(before[p] <= end <= after[p] for p, end in ends.items())
        assert capture.metadata.max_message_bytes() == admin.max_message_bytes()
    captured = [
        (one["partition"], one["offset"], one["key"], one["value"])
        for batch in capture.batches()
        for one in batch.to_pylist()
    ]
    assert captured == there_until(servers, ends)
    assert capture.rows == len(captured) > 0
    assert capture.sightings is not None
    capsys.readouterr()
    assert run(["decode", "--bootstrap", servers]) == 0
    lines = capsys.readouterr().out.splitlines()
    from_broker = sorted(
        line for line in lines if (one := json.loads(line))["offset"] < ends[one["partition"]]
    )
    assert run(["decode", "--capture", str(path)]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == from_broker


def there_until(servers: str, ends: Mapping[int, int]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """What the topic holds before these offsets, by a client that is not the product's.

    Offsets may have no record: the marker of a transaction, or what another test removed.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reads-alone",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
        }
    )
    left, found, deadline = {p for p, end in ends.items() if end}, [], time.monotonic() + 60
    consumer.assign([TopicPartition(OFFSETS_TOPIC, p, OFFSET_BEGINNING) for p in sorted(left)])
    while left and time.monotonic() < deadline:
        for message in consumer.consume(1_000, 0.5):
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is None and offset < ends[partition]:
                found.append((partition, offset, message.key(), message.value()))
            elif error is None or error.code() == KafkaError._PARTITION_EOF:
                left.discard(partition)
    consumer.close()
    assert not left
    return sorted(found, key=lambda one: one[:2])


def test_a_broker_and_its_capture_are_replayed_to_the_same_findings(
    servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c"
    assert run(["capture", str(path), "--bootstrap", servers, "--until-end"]) == 0
    capsys.readouterr()
    assert run(["replay", "--capture", str(path), "-o", "jsonl"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert run(["replay", "--bootstrap", servers, "-o", "jsonl"]) == 0
    assert capsys.readouterr().out.splitlines() == lines
    mine = [found for line in lines if (found := json.loads(line))["group"] == "came-and-went"]
    assert next(found["kind"] for found in mine) == "rebalance"
    assert "group_empty" in [found["kind"] for found in mine]


def test_a_capture_for_a_duration_from_the_end_holds_only_what_came_meanwhile(
    servers: str, tmp_path: Path
) -> None:
    path = tmp_path / "c"
    meanwhile = threading.Timer(2.0, come_and_go, [servers, "meanwhile"])
    meanwhile.start()
    assert run(["capture", str(path), "--bootstrap", servers, "--from", "latest", "--duration", "12s"]) == 0
    meanwhile.join()
    keys = [key for batch in read_capture(path).batches() for key in batch.column("key").to_pylist()]
    assert any(b"meanwhile" in key for key in keys)
    assert not any(b"came-and-went" in key for key in keys)


@pytest.mark.slow
def test_a_capture_whose_brokers_are_away_at_its_end_keeps_what_it_has_and_says_what_it_may_lack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c"
    with LabBroker(offsets_partitions=3) as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        client.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result()
        come_and_go(broker.bootstrap, "came-before")
        dies = threading.Timer(4.0, broker.nodes[0].kill)
        dies.start()
        assert run(["capture", str(path), "--bootstrap", broker.bootstrap, "--duration", "8s"]) == 1
        dies.join()
    assert "no broker answers for 3 partitions of __consumer_offsets (0-2)" in capsys.readouterr().err
    keys = [key for batch in read_capture(path).batches() for key in batch.column("key").to_pylist()]
    assert any(b"came-before" in key for key in keys)


def test_a_capture_that_is_over_before_it_has_read_what_was_there_says_how_much_it_lacks(
    servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for start, lacks in (("earliest", True), ("latest", False)):
        path = tmp_path / start
        command = ["capture", str(path), "--bootstrap", servers, "--from", start, "--duration", "0"]
        assert run(command) == 0
        assert (f"{path} ends before up to " in capsys.readouterr().err) == lacks


def test_a_capture_whose_topic_is_made_anew_meanwhile_says_so(
    servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client, name, path = AdminClient({"bootstrap.servers": servers}), "made-anew", tmp_path / "c"
    client.create_topics([NewTopic(name, 1, 1)])[name].result()

    def make_anew() -> None:
        client.delete_topics([name])[name].result()
        assert wait_until(lambda: name not in client.list_topics(timeout=10).topics, 30)
        client.create_topics([NewTopic(name, 1, 1)])[name].result()

    anew = threading.Timer(4.0, make_anew)
    anew.start()
    command = ["capture", str(path), "--bootstrap", servers, "--set", f"source.topic={name}"]
    assert run([*command, "--duration", "12s"]) == 1
    anew.join()
    assert f"{name} was made anew" in capsys.readouterr().err


def test_a_capture_with_the_probe_is_replayed_with_the_lag_of_its_time(servers: str, tmp_path: Path) -> None:
    produced, committed = 30, 10
    producer = Producer({"bootstrap.servers": servers})
    for number in range(produced):
        producer.produce(TOPIC, str(number), partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "behind"})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, committed)], asynchronous=False)
    consumer.close()
    path = tmp_path / "c"
    command = ["capture", str(path), "--bootstrap", servers, "--probe", "--duration", "8s"]
    assert run([*command, "--set", "ends.interval=1s"]) == 0
    snapshot = Snapshot("lab")
    Feed(snapshot).run(path, DetectionSettings())
    assert snapshot.known.lags["behind"].records == produced - committed


def test_offsets_of_no_partition_and_a_duration_that_is_none_are_usage_errors(
    servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["capture", str(tmp_path / "c"), "--bootstrap", servers]
    assert run([*command, "--from", "77:1"]) == 2
    assert "has no partitions [77]" in capsys.readouterr().err
    assert run([*command, "--from", "nowhere"]) == 2
    assert run([*command, "--duration", "soon"]) == 2
    assert list(tmp_path.iterdir()) == []
