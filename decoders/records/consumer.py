"""Types 3 to 8 and 16: consumer groups of KIP-848 (preview in 3.7, general since 4.0).

The previews' records are not promised to be readable: what does not fit these layouts is a failure.
"""

from dataclasses import dataclass

from rebalance_monitor.decoders.layouts.schema import array, wire
from rebalance_monitor.decoders.records.common import (
    GroupKey,
    GroupMemberKey,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataKey(GroupKey):
    """Key of type 3."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue:
    """Type 3: the group epoch; since 4.1 (KIP-1101) with a hash over the subscribed topics (0: none)."""

    epoch: int = wire("int32")
    metadata_hash: int = wire("int64", tag=0)


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataKey(GroupKey):
    """Key of type 4."""


@dataclass(frozen=True, slots=True)
class PartitionRacks:
    """The racks of one partition; written empty since 4.0."""

    partition: int = wire("int32")
    racks: tuple[str, ...] = array("string")


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A subscribed topic as the coordinator last saw it."""

    topic_id: bytes = wire("uuid")
    topic_name: str = wire("string")
    num_partitions: int = wire("int32")
    partition_metadata: tuple[PartitionRacks, ...] = array(PartitionRacks)


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataValue:
    """Type 4: the subscribed topics. Since 4.1 only tombstones are written (KIP-1101)."""

    topics: tuple[TopicMetadata, ...] = array(TopicMetadata)


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataKey(GroupMemberKey):
    """Key of type 5."""


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """One assignor a classic member offers; `metadata` is its embedded subscription."""

    name: str = wire("string")
    metadata: bytes = wire("bytes")


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """What only a member that speaks the classic protocol has; session timeout in ms."""

    session_timeout_ms: int = wire("int32")
    supported_protocols: tuple[ClassicProtocol, ...] = array(ClassicProtocol)


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataValue:
    """Type 5: a member, what it subscribes to, and its rebalance timeout in ms (-1: none).

    `classic_member_metadata` is None for a member that speaks the consumer protocol. Records without the
    tag (before 3.8) take the default of Kafka's own readers, an empty structure.
    """

    instance_id: str | None = wire("string", null_since=0, default=None)
    rack_id: str | None = wire("string", null_since=0, default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    subscribed_topic_names: tuple[str, ...] = array("string")
    subscribed_topic_regex: str | None = wire("string", null_since=0, default=None)
    rebalance_timeout_ms: int = wire("int32", default=-1)
    server_assignor: str | None = wire("string", null_since=0, default=None)
    classic_member_metadata: ClassicMemberMetadata | None = wire(  # noqa: RUF009 - a field declaration
        ClassicMemberMetadata, null_since=0, tag=0, default=ClassicMemberMetadata()
    )


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataKey(GroupKey):
    """Key of type 6."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataValue(TargetAssignmentMetadata):
    """Type 6."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberKey(GroupMemberKey):
    """Key of type 7."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberValue(TargetAssignmentMember):
    """Type 7."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentKey(GroupMemberKey):
    """Key of type 8."""


@dataclass(frozen=True, slots=True)
class OwnedPartitions:
    """Partitions a member holds; since 4.3 with the epoch at which it got each (None or empty: not said)."""

    topic_id: bytes = wire("uuid")
    partitions: tuple[int, ...] = array("int32")
    assignment_epochs: tuple[int, ...] | None = array("int32", null_since=0, tag=0)


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """Type 8: how far a member is. State 0 stable, 1 unrevoked partitions, 2 unreleased, 127 unknown.

    Epoch -2: a static member that left for the time being.
    """

    member_epoch: int = wire("int32")
    previous_member_epoch: int = wire("int32")
    state: int = wire("int8")
    assigned_partitions: tuple[OwnedPartitions, ...] = array(OwnedPartitions)
    partitions_pending_revocation: tuple[OwnedPartitions, ...] = array(OwnedPartitions)


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionKey:
    """Key of type 16."""

    group: str = wire("string", name="groupId")
    regular_expression: str = wire("string")


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionValue:
    """Type 16: the topics a regular expression matched, at a metadata version and a time in ms."""

    topics: tuple[str, ...] = array("string")
    version: int = wire("int64")
    timestamp: int = wire("int64")
