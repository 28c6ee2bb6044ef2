"""Capture from a real broker, and the other verbs on the broker and on what was captured."""

import json
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.view.snapshot import Snapshot
from rebalance_monitor.engine.replay.feeding import Feed
from rebalance_monitor.lab.cluster.broker import LabBroker

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
    assert run(["capture", str(path), "--bootstrap", servers, "--until-end", "--probe"]) == 0
    capture = read_capture(path)
    with ClusterAdmin({"bootstrap.servers": servers}) as admin:
        topic = admin.topic()
        assert topic is not None
        assert (capture.metadata.cluster_id, capture.metadata.topic_id) == (admin.cluster_id(), topic.id)
        assert capture.metadata.partitions == topic.partitions
        assert capture.metadata.end_offsets == admin.end_offsets()
        assert capture.metadata.max_message_bytes() == admin.max_message_bytes()
    assert capture.rows == sum(capture.metadata.end_offsets.values())
    assert capture.sightings is not None
    capsys.readouterr()
    assert run(["decode", "--bootstrap", servers]) == 0
    from_broker = sorted(capsys.readouterr().out.splitlines())
    assert run(["decode", "--capture", str(path)]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == from_broker


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
