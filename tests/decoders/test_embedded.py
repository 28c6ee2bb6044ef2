"""What real clients embed in group records is read, also where it is cut short; the rest is a failure."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.decoders import Failure
from rebalance_monitor.decoders.embedded import connect, consumer, sticky, streams
from tests.decoders.encode import blob, string

TOPICS = struct.pack(">i", 2) + string("a") + string("b")
OWNED = struct.pack(">i", 1) + string("a") + struct.pack(">iii", 2, 0, 7)


def version(number: int) -> bytes:
    return struct.pack(">h", number)


def subscription(data: bytes) -> consumer.Subscription:
    found = consumer.decode_subscription(data)
    assert isinstance(found, consumer.Subscription), found
    return found


def test_all_versions_of_a_subscription_are_read() -> None:
    body = TOPICS + blob(None) + OWNED + struct.pack(">i", 12) + string("rack-1")
    found = subscription(version(3) + body)
    assert found == consumer.Subscription(3, ("a", "b"), None, (("a", (0, 7)),), 12, "rack-1")
    assert subscription(version(0) + TOPICS + blob(b"u")).user_data == b"u"


def test_kafka_go_writes_version_1_without_owned_partitions() -> None:
    found = subscription(version(1) + TOPICS + blob(b""))
    assert (found.topics, found.owned_partitions) == (("a", "b"), ())
    assert found.notes == ("version 1 ends before ownedPartitions",)


def test_kafkajs_writes_the_version_of_its_assigner() -> None:
    body = TOPICS + blob(b"") + OWNED + struct.pack(">i", 1) + string(None)
    found = subscription(version(7) + body + b"new")
    assert (found.version, found.notes) == (7, ("3 bytes after the fields of version 3",))


@pytest.mark.parametrize("clients_version", [1, 2, 3])
def test_sarama_may_leave_out_what_its_version_promises(clients_version: int) -> None:
    assert subscription(version(clients_version) + TOPICS).topics == ("a", "b")


def test_an_assignment_of_zero_bytes_is_an_assignment_of_nothing() -> None:
    assert consumer.decode_assignment(b"") == consumer.Assignment(-1, (), None)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff\xff" + TOPICS, version(0), version(1) + TOPICS + OWNED[:-1]]
)
def test_a_subscription_cut_within_a_field_is_a_failure(data: bytes) -> None:
    assert isinstance(consumer.decode_subscription(data), Failure)


def test_sticky_user_data_is_read_with_and_without_generation() -> None:
    had = (("a", (0, 7)),)
    assert sticky.decode_sticky(OWNED + struct.pack(">i", 5)) == sticky.StickyUserData(had, 5)
    old = sticky.decode_sticky(OWNED)
    assert isinstance(old, sticky.StickyUserData)
    assert (old.previous_assignment, old.generation) == (had, -1)


def test_a_sessioned_connect_worker_carries_its_assignment() -> None:
    tasks = struct.pack(">i", 1) + string("sink") + struct.pack(">iii", 2, -1, 0)
    assignment = version(2) + version(0) + string("w1") + string("http://w1") + struct.pack(">q", 42) + tasks
    whole = assignment + struct.pack(">i", 0) + struct.pack(">i", 300_000)
    found = connect.decode_connect_metadata(
        version(2) + string("http://w2") + struct.pack(">q", 41) + blob(whole)
    )
    assert isinstance(found, connect.ConnectMetadata)
    assert found.allocation is not None
    assert found.allocation.assignment == (connect.ConnectorTasks("sink", (-1, 0)),)
    assert found.allocation.delay == 300_000
    early = connect.decode_connect_assignment(assignment)
    assert isinstance(early, connect.ConnectAssignment)
    assert (early.revoked, early.delay) == ((), 0)


def test_a_streams_member_says_its_process_and_a_shutdown() -> None:
    data = struct.pack(">ii", 9, 11) + bytes(range(16)) + blob(b"h:1") + struct.pack(">i", 0)
    found = streams.decode_streams_subscription(data + struct.pack(">bi", 3, 4))
    assert isinstance(found, streams.StreamsSubscription)
    assert (found.process_id, found.unique_field, found.error_code) == (bytes(range(16)), 3, 4)


def test_a_streams_assignment_announces_its_next_rebalance() -> None:
    tasks = struct.pack(">iii", 1, 0, 3) + struct.pack(">i", 0)
    hosts = struct.pack(">iii", 0, 0, 0)
    data = struct.pack(">ii", 7, 7) + tasks + hosts + struct.pack(">iq", 0, 1_700_000_600_000)
    found = streams.decode_streams_assignment(data)
    assert isinstance(found, streams.StreamsAssignment)
    assert (found.next_rebalance_ms, found.active_tasks[0].partition) == (1_700_000_600_000, 3)


@given(st.binary(max_size=120))
def test_no_bytes_raise(data: bytes) -> None:
    for decode in (
        consumer.decode_subscription,
        consumer.decode_assignment,
        sticky.decode_sticky,
        sticky.decode_cooperative_sticky,
        connect.decode_connect_metadata,
        connect.decode_connect_assignment,
        streams.decode_streams_subscription,
        streams.decode_streams_assignment,
    ):
        assert decode(data) is not None
