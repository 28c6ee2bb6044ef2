"""Oracle (a) for what is embedded in group metadata: the classes of Kafka's clients, Connect and Streams."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.decoders.embedded import connect, consumer, sticky, streams
from tests.oracle import corpus, kafka_java
from tests.oracle.needs import needs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rebalance_monitor.decoders import Failure

LINES = corpus.load_lines("embedded")
Values = dict[str, Any]


def of_kind(kind: str) -> list[tuple[bytes, Values]]:
    found = [(base64.b64decode(line["bytes"]), line["kafka"]) for line in LINES if line["kind"] == kind]
    assert found
    return found


def test_subscriptions_read_as_kafka_reads_them() -> None:
    for data, kafka in of_kind("subscription"):
        found = consumer.decode_subscription(data)
        assert isinstance(found, consumer.Subscription)
        assert found.version == kafka["version"]
        ours = {
            "topics": list(found.topics),
            "userData": text(found.user_data),
            "ownedPartitions": named(found.owned_partitions),
            "generationId": found.generation_id,
            "rackId": found.rack_id,
        }
        assert {name: ours[name] for name in kafka["data"]} == kafka["data"]


def test_assignments_read_as_kafka_reads_them() -> None:
    for data, kafka in of_kind("assignment"):
        found = consumer.decode_assignment(data)
        assert isinstance(found, consumer.Assignment)
        assert found.version == kafka["version"]
        assert named(found.partitions) == kafka["data"]["assignedPartitions"]
        assert text(found.user_data) == kafka["data"]["userData"]


@pytest.mark.parametrize(
    ("kind", "decode"),
    [("sticky", sticky.decode_sticky), ("cooperative_sticky", sticky.decode_cooperative_sticky)],
)
def test_sticky_user_data_reads_as_kafka_reads_it(
    kind: str, decode: Callable[[bytes], sticky.StickyUserData | Failure]
) -> None:
    for data, kafka in of_kind(kind):
        found = decode(data)
        assert isinstance(found, sticky.StickyUserData)
        assert found.generation == kafka["generation"]
        # The order of partitions is the assignor's own: sets on both sides.
        assert sorted(flat(found.previous_assignment)) == sorted(map(tuple, kafka["partitions"]))


def test_connect_metadata_reads_as_connect_reads_it() -> None:
    for data, kafka in of_kind("connect_metadata"):
        found = connect.decode_connect_metadata(data)
        assert isinstance(found, connect.ConnectMetadata)
        assert (found.version, found.url, found.config_offset) == (
            kafka["version"],
            kafka["url"],
            kafka["offset"],
        )
        allocation = None if found.allocation is None else connect_values(found.allocation)
        assert allocation == known(kafka.get("allocation"))


def test_connect_assignments_read_as_connect_reads_them() -> None:
    for data, kafka in of_kind("connect_assignment"):
        found = connect.decode_connect_assignment(data)
        assert isinstance(found, connect.ConnectAssignment)
        assert connect_values(found) == known(kafka)


def test_streams_subscriptions_read_as_streams_reads_them() -> None:
    for data, kafka in of_kind("streams_subscription"):
        found = streams.decode_streams_subscription(data)
        assert isinstance(found, streams.StreamsSubscription)
        ours = {
            "version": found.version,
            "latest_supported_version": found.latest_supported_version,
            "process_id": str(uuid.UUID(bytes=found.process_id)),
            "user_end_point": found.user_end_point.decode() or None,
            "error_code": found.error_code,
            "client_tags": {tag.key.decode(): tag.value.decode() for tag in found.client_tags},
        }
        assert ours == kafka


def test_streams_assignments_read_as_streams_reads_them() -> None:
    for data, kafka in of_kind("streams_assignment"):
        found = streams.decode_streams_assignment(data)
        assert isinstance(found, streams.StreamsAssignment)
        assert {name: getattr(found, name) for name in kafka} == kafka


@pytest.mark.slow
def test_kafka_writes_the_checked_in_embedded_corpus_byte_for_byte() -> None:
    with needs():
        written = kafka_java.run(kafka_java.EMBEDDED)
    assert written == LINES


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def named(partitions: Iterable[tuple[str, tuple[int, ...]]]) -> list[Values]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions]


def flat(partitions: Iterable[tuple[str, tuple[int, ...]]]) -> list[tuple[str, int]]:
    return [(topic, number) for topic, numbers in partitions for number in numbers]


def connect_values(found: connect.ConnectAssignment) -> Values:
    return {
        "version": found.version,
        "error": found.error,
        "leader": found.leader,
        "leader_url": found.leader_url,
        "offset": found.config_offset,
        **split("", found.assignment),
        **(split("revoked_", found.revoked) if found.version else {}),
        **({"delay": found.delay} if found.version else {}),
    }


def split(prefix: str, assigned: Iterable[connect.ConnectorTasks]) -> Values:
    # Task -1 stands for the connector itself.
    tasks = [(a.connector, task) for a in assigned for task in a.tasks]
    return {
        f"{prefix}connectors": sorted(name for name, task in tasks if task < 0),
        f"{prefix}tasks": sorted([name, task] for name, task in tasks if task >= 0),
    }


def known(kafka: Values | None) -> Values | None:
    if kafka is None:
        return None
    return {name: sorted(value) if isinstance(value, list) else value for name, value in kafka.items()}
