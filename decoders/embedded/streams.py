"""User data of classic Kafka Streams members (protocol "stream"): subscription, assignment, v1 to v11.

Layouts begin with an int32 version. What the monitor is after: the process of a member, error code 4
(shutdown requested), and the announced time of the next probing rebalance. A version above 11 is refused:
Streams itself reads only a version it knows. Strings are Java's modified UTF-8, equal to UTF-8 for names that
Kafka allows.
"""

import struct
from dataclasses import dataclass
from struct import unpack_from
from typing import TypeVar, cast

from rebalance_monitor.decoders.errors import DecodeError, TruncatedError, UnknownVersionError
from rebalance_monitor.decoders.layouts import compiler
from rebalance_monitor.decoders.layouts.schema import ZERO_UUID, array, wire
from rebalance_monitor.decoders.record import Failure

T = TypeVar("T")
NEWEST = 11
# What Streams writes where no follow-up rebalance is planned.
NEVER_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TaskId:
    """A task: subtopology and partition; `named_topology` holds UTF-16 units (v10+, hardly ever used)."""

    subtopology: int = wire("int32")
    partition: int = wire("int32")
    named_topology: tuple[int, ...] = array("uint16", since=10)


@dataclass(frozen=True, slots=True)
class _OldTaskId:
    subtopology: int = wire("int32")
    partition: int = wire("int32")


@dataclass(frozen=True, slots=True)
class PartitionOffsetSum:
    """Offset sum of one partition's task (v7 to v9)."""

    partition: int = wire("int32")
    offset_sum: int = wire("int64")


@dataclass(frozen=True, slots=True)
class TaskOffsetSum:
    """How far a member's state of a task is (v7+); -2 says that the task is running here."""

    subtopology: int = wire("int32")
    partition: int = wire("int32", since=10, default=-1)
    offset_sum: int = wire("int64", since=10, default=-1)
    named_topology: str | None = wire("string", since=10, null_since=10, default=None)
    partition_to_offset_sum: tuple[PartitionOffsetSum, ...] = array(PartitionOffsetSum, until=9)


@dataclass(frozen=True, slots=True)
class ClientTag:
    """A client tag (v11+)."""

    key: bytes = wire("bytes")
    value: bytes = wire("bytes")


@dataclass(frozen=True, slots=True)
class StreamsSubscription:
    """What a member says of itself; `unique_field` is toggled to force a change (v8+)."""

    version: int = wire("int32")
    latest_supported_version: int = wire("int32", since=3, default=-1)
    process_id: bytes = wire("uuid", default=ZERO_UUID)
    prev_tasks: tuple[_OldTaskId, ...] = array(_OldTaskId, until=6)
    standby_tasks: tuple[_OldTaskId, ...] = array(_OldTaskId, until=6)
    user_end_point: bytes = wire("bytes", since=2)
    task_offset_sums: tuple[TaskOffsetSum, ...] = array(TaskOffsetSum, since=7)
    unique_field: int = wire("int8", since=8)
    error_code: int = wire("int32", since=9)
    client_tags: tuple[ClientTag, ...] = array(ClientTag, since=11)


@dataclass(frozen=True, slots=True)
class StreamsPartition:
    """One partition by name."""

    topic: str = wire("string")
    partition: int = wire("int32")


@dataclass(frozen=True, slots=True)
class StandbyTask:
    """A standby task and the partitions it follows."""

    task: TaskId = wire(TaskId)  # noqa: RUF009 - a field declaration
    partitions: tuple[StreamsPartition, ...] = array(StreamsPartition)


@dataclass(frozen=True, slots=True)
class HostPartitions:
    """What one host serves (v2 to v4)."""

    host: str = wire("string")
    port: int = wire("int32")
    partitions: tuple[StreamsPartition, ...] = array(StreamsPartition)


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """An entry of the topic dictionary (v5+)."""

    index: int = wire("int32")
    topic: str = wire("string")


@dataclass(frozen=True, slots=True)
class IndexedPartition:
    """One partition by its topic's index (v5+)."""

    topic_index: int = wire("int32")
    partition: int = wire("int32")


@dataclass(frozen=True, slots=True)
class IndexedHostPartitions:
    """What one host serves (v5+)."""

    host: str = wire("string")
    port: int = wire("int32")
    partitions: tuple[IndexedPartition, ...] = array(IndexedPartition)


@dataclass(frozen=True, slots=True)
class StreamsAssignment:
    """What a member was given; `next_rebalance_ms` since 1970 is the announced probing rebalance (v7+)."""

    version: int = wire("int32")
    commonly_supported_version: int = wire("int32", since=3, default=-1)
    active_tasks: tuple[TaskId, ...] = array(TaskId)
    standby_tasks: tuple[StandbyTask, ...] = array(StandbyTask)
    partitions_by_host: tuple[HostPartitions, ...] = array(HostPartitions, since=2, until=4)
    topics: tuple[TopicEntry, ...] = array(TopicEntry, since=5)
    active_by_host: tuple[IndexedHostPartitions, ...] = array(IndexedHostPartitions, since=5)
    standby_by_host: tuple[IndexedHostPartitions, ...] = array(IndexedHostPartitions, since=6)
    error_code: int = wire("int32", since=4)
    next_rebalance_ms: int = wire("int64", since=7, default=NEVER_MS)


def decode_streams_subscription(data: bytes) -> StreamsSubscription | Failure:
    """Read the user data of a member's subscription; never raises."""
    return _read(StreamsSubscription, data)


def decode_streams_assignment(data: bytes) -> StreamsAssignment | Failure:
    """Read the user data of a member's assignment; never raises."""
    return _read(StreamsAssignment, data)


def _read(layout: type[T], data: bytes) -> T | Failure:
    try:
        version = _version(data)
        found, _ = compiler.reader(cast("type", layout), version, flexible=False)(data, 0, [])
    except DecodeError as error:
        return Failure(error.reason, "value", error.at, error.field)
    return cast("T", found)


def _version(data: bytes) -> int:
    try:
        version: int = unpack_from(">i", data)[0]
    except struct.error:
        raise TruncatedError(0, "version") from None
    if not 1 <= version <= NEWEST:
        raise UnknownVersionError(0, "version")
    return version
