"""Layouts that several record families share: keys by group (and member), topics with partitions."""

from dataclasses import dataclass

from rebalance_monitor.decoders.layouts.schema import array, wire


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A key that names a group."""

    group: str = wire("string", name="groupId")


@dataclass(frozen=True, slots=True)
class GroupMemberKey:
    """A key that names a member of a group."""

    group: str = wire("string", name="groupId")
    member_id: str = wire("string")


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Partitions of one topic; `topic_id` is the uuid's 16 bytes."""

    topic_id: bytes = wire("uuid")
    partitions: tuple[int, ...] = array("int32")


@dataclass(frozen=True, slots=True)
class TargetAssignmentMetadata:
    """Types 6, 12, 20: the epoch of the newest target assignment.

    Since 4.3 (KIP-1263) with the time in ms at which its calculation finished (0: none).
    """

    assignment_epoch: int = wire("int32")
    assignment_timestamp: int = wire("int64", tag=0)


@dataclass(frozen=True, slots=True)
class TargetAssignmentMember:
    """Types 7, 13: the partitions that one member shall have."""

    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions)


@dataclass(frozen=True, slots=True)
class RetiredValue:
    """The value of a type that no release reads any more, without its version: bytes, not interpreted."""

    data: bytes = b""
