"""Oracle (b): what real brokers write for real clients, as Kafka's shipped formatters print it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from rebalance_monitor.decoders import Decoded, decode_record
from rebalance_monitor.decoders.json_form import record_json
from rebalance_monitor.lab.cluster.broker import LabBroker
from tests.fuzz import mutate
from tests.fuzz.properties import check_batch
from tests.oracle.compare import EQUAL
from tests.oracle.formatters import FORMATTED_TYPES, formatted, run_tool
from tests.oracle.needs import needs

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC, MESSAGES = "orders", 60
Pair = tuple[bytes | None, bytes | None]
pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module", params=["3.9.1", "4.1.1"])
def broker(request: pytest.FixtureRequest) -> Iterator[LabBroker]:
    # One partition: then the formatters print the records in the order in which we read them.
    with needs(), LabBroker(version=request.param, offsets_partitions=1) as running:
        use_with_many_clients(running)
        yield running


@pytest.fixture(scope="module")
def records(broker: LabBroker) -> list[Pair]:
    return read_offsets_topic(broker.bootstrap)


def test_every_record_of_a_live_topic_is_read(records: list[Pair]) -> None:
    failures = [record for record in records if not isinstance(decode_record(*record), Decoded)]
    assert failures == []
    assert check_batch(records) > 0


def test_live_records_cover_commits_groups_and_tombstones(broker: LabBroker, records: list[Pair]) -> None:
    seen = {(found.type, found.value is None) for found in decoded(records)}
    expected = {(1, False), (1, True), (2, False), (2, True)}
    if broker.version == "4.1.1":
        expected |= {(number, False) for number in (3, 5, 6, 7, 8)}
    assert expected <= seen
    versions = {found.value_version for found in decoded(records) if found.type == 1 and found.value}
    assert versions == ({4} if broker.version == "4.1.1" else {3})
    assert {found.value_version for found in decoded(records) if found.type == 2 and found.value} == {3}


@pytest.mark.parametrize("formatter", ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"])
def test_live_records_read_as_the_shipped_formatters_print_them(
    broker: LabBroker, records: list[Pair], formatter: str
) -> None:
    with needs():
        kafka = formatted(broker.version, broker.bootstrap, formatter, len(records))
    ours = [
        {part: line[part] for part in ("key", "value")}
        for record in records
        if (line := as_json(record))["key"]["type"] in FORMATTED_TYPES[formatter]
    ]
    assert len(ours) > 0
    # As text: the order of the fields is part of the promise.
    assert [json.dumps(line) for line in ours] == [json.dumps(line) for line in kafka]


def test_live_records_of_every_type_read_as_kafkas_classes_read_them(records: list[Pair]) -> None:
    with needs():
        counts = mutate.kafka_verdicts(records)
    assert dict(counts) == {EQUAL: len(records)}


def as_json(record: Pair) -> dict[str, Any]:
    return record_json(0, 0, 0, *record)


def decoded(records: list[Pair]) -> Iterator[Decoded]:
    return (found for record in records if isinstance(found := decode_record(*record), Decoded))


def use_with_many_clients(broker: LabBroker) -> None:
    """Groups of three client families: dynamic and static members, metadata with commits, deletions."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(timeout=60)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(MESSAGES):
        producer.produce(TOPIC, str(number).encode(), partition=number % 3)
    producer.flush(20)
    with_librdkafka(broker, "librdkafka-grüppe", {"partition.assignment.strategy": "cooperative-sticky"})
    with_librdkafka(broker, "librdkafka-static", {"group.instance.id": "worker-1", "client.id": "w"})
    with_kafka_python(broker)
    with_java(broker, "java-classic")
    if broker.version == "4.1.1":
        with_java(broker, "java-848", "group.protocol=consumer")
    deletions = admin.delete_consumer_groups(["librdkafka-grüppe"], request_timeout=60)
    deletions["librdkafka-grüppe"].result(timeout=30)


def with_librdkafka(broker: LabBroker, group: str, more: dict[str, str]) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "session.timeout.ms": 6000, **more})
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + 60
    read = 0
    while read < MESSAGES and time.monotonic() < deadline:
        read += len(consumer.consume(MESSAGES, timeout=1))
    for metadata in ("", "x" * 127, "团队 😀"):
        places = [TopicPartition(TOPIC, part, 5 + part, metadata) for part in range(3)]
        consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def with_kafka_python(broker: LabBroker) -> None:
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=broker.bootstrap,
        group_id="kafka-python",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    deadline = time.monotonic() + 60
    while not consumer.poll(timeout_ms=1000) and time.monotonic() < deadline:
        continue
    consumer.commit()
    consumer.close()


def with_java(broker: LabBroker, group: str, *properties: str) -> None:
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", TOPIC, "--group", group]
    arguments += ["--from-beginning", "--max-messages", str(MESSAGES), "--timeout-ms", "60000"]
    for name in (*properties, "enable.auto.commit=true"):
        arguments += ["--consumer-property", name]
    run_tool(broker.version, "ConsoleConsumer", arguments)


def read_offsets_topic(bootstrap: str) -> list[Pair]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "not-joined", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
    place = TopicPartition("__consumer_offsets", 0, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=60)
    consumer.assign([place])
    found: list[Pair] = []
    while len(found) < end and (message := consumer.poll(60)) is not None:
        assert message.error() is None
        found.append((message.key(), message.value()))
    consumer.close()
    return found
