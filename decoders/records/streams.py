"""Types 17 to 24: streams groups (KIP-1071; early access in 4.1).

Types 18 and 24 were written by development builds only: their keys are read, their values are not.
"""

from dataclasses import dataclass

from rebalance_monitor.decoders.layouts.schema import array, wire
from rebalance_monitor.decoders.records.common import GroupKey, GroupMemberKey, TargetAssignmentMetadata


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A configuration entry or client tag."""

    key: str = wire("string")
    value: str = wire("string")


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadataKey(GroupKey):
    """Key of type 17."""


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadataValue:
    """Type 17: the group epoch and a hash over its topics.

    4.2 adds the validated topology epoch (-1: none) and the last assignment configuration; 4.4 the epochs of
    the stored and of the permanently failed topology description (-1: none, -2: uncertain).
    """

    epoch: int = wire("int32")
    metadata_hash: int = wire("int64")
    validated_topology_epoch: int = wire("int32", tag=0, default=-1)
    last_assignment_configs: tuple[KeyValue, ...] | None = array(KeyValue, null_since=0, tag=1)
    stored_description_topology_epoch: int = wire("int32", tag=2, default=-1)
    failed_description_topology_epoch: int = wire("int32", tag=3, default=-1)


@dataclass(frozen=True, slots=True)
class StreamsGroupPartitionMetadataKey(GroupKey):
    """Key of type 18, retired."""


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberMetadataKey(GroupMemberKey):
    """Key of type 19."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an instance answers interactive queries."""

    host: str = wire("string")
    port: int = wire("uint16")


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberMetadataValue:
    """Type 19: a member; `process_id` names the instance that several members can share."""

    instance_id: str | None = wire("string", null_since=0, default=None)
    rack_id: str | None = wire("string", null_since=0, default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    rebalance_timeout_ms: int = wire("int32", default=-1)
    topology_epoch: int = wire("int32")
    process_id: str = wire("string")
    user_endpoint: Endpoint | None = wire(  # noqa: RUF009 - a field declaration
        Endpoint, null_since=0, default=None
    )
    client_tags: tuple[KeyValue, ...] = array(KeyValue)


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMetadataKey(GroupKey):
    """Key of type 20."""


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMetadataValue(TargetAssignmentMetadata):
    """Type 20."""


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberKey(GroupMemberKey):
    """Key of type 21."""


@dataclass(frozen=True, slots=True)
class TargetTasks:
    """Tasks of one subtopology that a member shall have."""

    subtopology_id: str = wire("string")
    partitions: tuple[int, ...] = array("int32")


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberValue:
    """Type 21: the tasks that one member shall have."""

    active_tasks: tuple[TargetTasks, ...] = array(TargetTasks)
    standby_tasks: tuple[TargetTasks, ...] = array(TargetTasks)
    warmup_tasks: tuple[TargetTasks, ...] = array(TargetTasks)


@dataclass(frozen=True, slots=True)
class StreamsGroupCurrentMemberAssignmentKey(GroupMemberKey):
    """Key of type 22."""


@dataclass(frozen=True, slots=True)
class OwnedTasks:
    """Tasks of one subtopology that a member holds; since 4.2 active ones with the epoch it got each."""

    subtopology_id: str = wire("string")
    partitions: tuple[int, ...] = array("int32")
    assignment_epochs: tuple[int, ...] | None = array("int32", null_since=0, tag=0)


@dataclass(frozen=True, slots=True)
class StreamsGroupCurrentMemberAssignmentValue:
    """Type 22: how far a member is. State 1 stable, 2 unrevoked tasks, 3 unreleased tasks."""

    member_epoch: int = wire("int32")
    previous_member_epoch: int = wire("int32")
    state: int = wire("int8")
    active_tasks: tuple[OwnedTasks, ...] = array(OwnedTasks)
    standby_tasks: tuple[OwnedTasks, ...] = array(OwnedTasks)
    warmup_tasks: tuple[OwnedTasks, ...] = array(OwnedTasks)
    active_tasks_pending_revocation: tuple[OwnedTasks, ...] = array(OwnedTasks)
    standby_tasks_pending_revocation: tuple[OwnedTasks, ...] = array(OwnedTasks)
    warmup_tasks_pending_revocation: tuple[OwnedTasks, ...] = array(OwnedTasks)


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyKey(GroupKey):
    """Key of type 23."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """An internal topic; 0 partitions or replicas: not enforced, or the default."""

    name: str = wire("string")
    partitions: int = wire("int32")
    replication_factor: int = wire("int16")
    topic_configs: tuple[KeyValue, ...] = array(KeyValue)


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics that must be partitioned alike, as indexes into the subtopology's lists."""

    source_topics: tuple[int, ...] = array("int16")
    source_topic_regex: tuple[int, ...] = array("int16")
    repartition_source_topics: tuple[int, ...] = array("int16")


@dataclass(frozen=True, slots=True)
class Subtopology:
    """One part of a streams application's topology."""

    subtopology_id: str = wire("string")
    source_topics: tuple[str, ...] = array("string")
    source_topic_regex: tuple[str, ...] = array("string")
    state_changelog_topics: tuple[TopicInfo, ...] = array(TopicInfo)
    repartition_sink_topics: tuple[str, ...] = array("string")
    repartition_source_topics: tuple[TopicInfo, ...] = array(TopicInfo)
    copartition_groups: tuple[CopartitionGroup, ...] = array(CopartitionGroup)


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyValue:
    """Type 23: the topology and its epoch."""

    epoch: int = wire("int32")
    subtopologies: tuple[Subtopology, ...] = array(Subtopology)


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentResolvedTopicIdsKey(GroupKey):
    """Key of type 24, retired."""
