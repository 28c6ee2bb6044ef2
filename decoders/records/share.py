"""Types 9 to 15: share groups (KIP-932; early access in 4.0, general since 4.2).

The layouts of 4.1 and later are read; early-access records of 4.0 that differ (type 11 without the hash,
type 15 without the initializing topics) are failures. Type 9 went in 4.1.
"""

from dataclasses import dataclass

from rebalance_monitor.decoders.layouts.schema import array, wire
from rebalance_monitor.decoders.records.common import (
    GroupKey,
    GroupMemberKey,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    TopicPartitions,
)


@dataclass(frozen=True, slots=True)
class ShareGroupPartitionMetadataKey(GroupKey):
    """Key of type 9, retired."""


@dataclass(frozen=True, slots=True)
class ShareGroupMemberMetadataKey(GroupMemberKey):
    """Key of type 10."""


@dataclass(frozen=True, slots=True)
class ShareGroupMemberMetadataValue:
    """Type 10: a member and what it subscribes to."""

    rack_id: str | None = wire("string", null_since=0, default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    subscribed_topic_names: tuple[str, ...] = array("string")


@dataclass(frozen=True, slots=True)
class ShareGroupMetadataKey(GroupKey):
    """Key of type 11."""


@dataclass(frozen=True, slots=True)
class ShareGroupMetadataValue:
    """Type 11: the group epoch and a hash over the subscribed topics."""

    epoch: int = wire("int32")
    metadata_hash: int = wire("int64")


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMetadataKey(GroupKey):
    """Key of type 12."""


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMetadataValue(TargetAssignmentMetadata):
    """Type 12."""


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMemberKey(GroupMemberKey):
    """Key of type 13."""


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMemberValue(TargetAssignmentMember):
    """Type 13."""


@dataclass(frozen=True, slots=True)
class ShareGroupCurrentMemberAssignmentKey(GroupMemberKey):
    """Key of type 14."""


@dataclass(frozen=True, slots=True)
class ShareGroupCurrentMemberAssignmentValue:
    """Type 14: how far a member is. Share groups never revoke, so there is nothing pending."""

    member_epoch: int = wire("int32")
    previous_member_epoch: int = wire("int32")
    state: int = wire("int8")
    assigned_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions)


@dataclass(frozen=True, slots=True)
class ShareGroupStatePartitionMetadataKey(GroupKey):
    """Key of type 15."""


@dataclass(frozen=True, slots=True)
class ShareTopicPartitions:
    """Partitions of a topic whose share state is being or has been initialized."""

    topic_id: bytes = wire("uuid")
    topic_name: str = wire("string")
    partitions: tuple[int, ...] = array("int32")


@dataclass(frozen=True, slots=True)
class ShareTopic:
    """A topic whose share state is being deleted."""

    topic_id: bytes = wire("uuid")
    topic_name: str = wire("string")


@dataclass(frozen=True, slots=True)
class ShareGroupStatePartitionMetadataValue:
    """Type 15: where the group's share state stands, by topic."""

    initializing_topics: tuple[ShareTopicPartitions, ...] = array(ShareTopicPartitions)
    initialized_topics: tuple[ShareTopicPartitions, ...] = array(ShareTopicPartitions)
    deleting_topics: tuple[ShareTopic, ...] = array(ShareTopic)
