"""The table of record types: what each is, its layouts, and which release added what.

Decoding, the JSON form and `docs/records.md` all read this table. A type without a value layout was written
by preview or development builds only: its key is read, its value is kept as bytes.
"""

from dataclasses import dataclass

from rebalance_monitor.decoders.records import classic, consumer, share, streams


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of a record type's history: release, KIP (or "") and what was added or removed."""

    release: str
    kip: str
    text: str


@dataclass(frozen=True, slots=True)
class RecordType:
    """One record type.

    `newest` is the highest value version known, `flexible` the first with compact lengths and tags;
    `value` is None for a retired type. `tombstone` says what a null value means.
    """

    id: int
    name: str
    key: type
    value: type | None
    tombstone: str
    history: tuple[Change, ...]
    newest: int = 0
    flexible: int = 0


_GROUP_GONE, _MEMBER_GONE = "the group is gone", "the member is gone"
_PREVIEW = Change("3.7", "KIP-848", "v0 (preview until 4.0)")
_SHARE = Change("4.0", "KIP-932", "v0 (early access)")
_STREAMS = Change("4.1", "KIP-1071", "v0 (early access)")
_ASSIGNED_AT = Change("4.3", "KIP-1263", "assignmentTimestamp (tag 0)")

_TABLE: tuple[RecordType, ...] = (
    RecordType(
        0,
        "LegacyOffsetCommit",
        classic.OffsetCommitKey,
        classic.OffsetCommitValue,
        "the offset was removed",
        (
            Change("0.8.2", "", "v0; type 1 took its place"),
            Change("4.1", "", "Kafka itself reads only value v0 under this key"),
        ),
        newest=4,
        flexible=4,
    ),
    RecordType(
        1,
        "OffsetCommit",
        classic.OffsetCommitKey,
        classic.OffsetCommitValue,
        "the offset expired, or it, its topic or its group was deleted",
        (
            Change("0.8.2", "", "v0"),
            Change(
                "0.9", "", "v1: expireTimestamp; still written where a client sends its own retention time"
            ),
            Change("2.1", "KIP-211", "v2: without expireTimestamp"),
            Change("2.1", "KIP-320", "v3: leaderEpoch"),
            Change("4.1", "KIP-848", "v4: flexible; topicId (tag 0)"),
        ),
        newest=4,
        flexible=4,
    ),
    RecordType(
        2,
        "GroupMetadata",
        classic.GroupMetadataKey,
        classic.GroupMetadataValue,
        "the group was deleted, expired, or became a KIP-848 group",
        (
            Change("0.9", "", "v0"),
            Change("0.10.1", "KIP-62", "v1: rebalanceTimeout"),
            Change("2.1", "KIP-211", "v2: currentStateTimestamp"),
            Change("2.3", "KIP-345", "v3: groupInstanceId"),
            Change("3.5", "KIP-915", "v4: flexible; defined, but no release up to 4.4 writes it"),
        ),
        newest=4,
        flexible=4,
    ),
    RecordType(
        3,
        "ConsumerGroupMetadata",
        consumer.ConsumerGroupMetadataKey,
        consumer.ConsumerGroupMetadataValue,
        "the group was deleted, expired, or became a classic group",
        (_PREVIEW, Change("4.1", "KIP-1101", "metadataHash (tag 0)")),
    ),
    RecordType(
        4,
        "ConsumerGroupPartitionMetadata",
        consumer.ConsumerGroupPartitionMetadataKey,
        consumer.ConsumerGroupPartitionMetadataValue,
        "the group is gone, or its topics are hashed into type 3",
        (
            _PREVIEW,
            Change("4.0", "", "racks are written empty"),
            Change("4.1", "KIP-1101", "only tombstones are written"),
        ),
    ),
    RecordType(
        5,
        "ConsumerGroupMemberMetadata",
        consumer.ConsumerGroupMemberMetadataKey,
        consumer.ConsumerGroupMemberMetadataValue,
        _MEMBER_GONE,
        (_PREVIEW, Change("3.8", "KIP-848", "classicMemberMetadata (tag 0)")),
    ),
    RecordType(
        6,
        "ConsumerGroupTargetAssignmentMetadata",
        consumer.ConsumerGroupTargetAssignmentMetadataKey,
        consumer.ConsumerGroupTargetAssignmentMetadataValue,
        _GROUP_GONE,
        (_PREVIEW, _ASSIGNED_AT),
    ),
    RecordType(
        7,
        "ConsumerGroupTargetAssignmentMember",
        consumer.ConsumerGroupTargetAssignmentMemberKey,
        consumer.ConsumerGroupTargetAssignmentMemberValue,
        _MEMBER_GONE,
        (_PREVIEW,),
    ),
    RecordType(
        8,
        "ConsumerGroupCurrentMemberAssignment",
        consumer.ConsumerGroupCurrentMemberAssignmentKey,
        consumer.ConsumerGroupCurrentMemberAssignmentValue,
        _MEMBER_GONE,
        (_PREVIEW, Change("4.3", "", "assignmentEpochs (tag 0) of each topic")),
    ),
    RecordType(
        9,
        "ShareGroupPartitionMetadata",
        share.ShareGroupPartitionMetadataKey,
        None,
        _GROUP_GONE,
        (_SHARE, Change("4.1", "", "removed")),
    ),
    RecordType(
        10,
        "ShareGroupMemberMetadata",
        share.ShareGroupMemberMetadataKey,
        share.ShareGroupMemberMetadataValue,
        _MEMBER_GONE,
        (_SHARE,),
    ),
    RecordType(
        11,
        "ShareGroupMetadata",
        share.ShareGroupMetadataKey,
        share.ShareGroupMetadataValue,
        _GROUP_GONE,
        (_SHARE, Change("4.1", "KIP-1101", "metadataHash, not tagged: 4.0's records are unreadable")),
    ),
    RecordType(
        12,
        "ShareGroupTargetAssignmentMetadata",
        share.ShareGroupTargetAssignmentMetadataKey,
        share.ShareGroupTargetAssignmentMetadataValue,
        _GROUP_GONE,
        (_SHARE, _ASSIGNED_AT),
    ),
    RecordType(
        13,
        "ShareGroupTargetAssignmentMember",
        share.ShareGroupTargetAssignmentMemberKey,
        share.ShareGroupTargetAssignmentMemberValue,
        _MEMBER_GONE,
        (_SHARE,),
    ),
    RecordType(
        14,
        "ShareGroupCurrentMemberAssignment",
        share.ShareGroupCurrentMemberAssignmentKey,
        share.ShareGroupCurrentMemberAssignmentValue,
        _MEMBER_GONE,
        (_SHARE,),
    ),
    RecordType(
        15,
        "ShareGroupStatePartitionMetadata",
        share.ShareGroupStatePartitionMetadataKey,
        share.ShareGroupStatePartitionMetadataValue,
        _GROUP_GONE,
        (_SHARE, Change("4.1", "", "initializingTopics, not tagged: 4.0's records are unreadable")),
    ),
    RecordType(
        16,
        "ConsumerGroupRegularExpression",
        consumer.ConsumerGroupRegularExpressionKey,
        consumer.ConsumerGroupRegularExpressionValue,
        "no member uses the expression any more",
        (Change("4.0", "KIP-848", "v0"),),
    ),
    RecordType(
        17,
        "StreamsGroupMetadata",
        streams.StreamsGroupMetadataKey,
        streams.StreamsGroupMetadataValue,
        _GROUP_GONE,
        (
            _STREAMS,
            Change("4.2", "", "validatedTopologyEpoch (tag 0), lastAssignmentConfigs (tag 1)"),
            Change("4.4", "", "storedDescriptionTopologyEpoch, failedDescriptionTopologyEpoch (tags 2, 3)"),
        ),
    ),
    RecordType(
        18,
        "StreamsGroupPartitionMetadata",
        streams.StreamsGroupPartitionMetadataKey,
        None,
        _GROUP_GONE,
        (Change("development", "KIP-1071", "in no release"),),
    ),
    RecordType(
        19,
        "StreamsGroupMemberMetadata",
        streams.StreamsGroupMemberMetadataKey,
        streams.StreamsGroupMemberMetadataValue,
        _MEMBER_GONE,
        (_STREAMS,),
    ),
    RecordType(
        20,
        "StreamsGroupTargetAssignmentMetadata",
        streams.StreamsGroupTargetAssignmentMetadataKey,
        streams.StreamsGroupTargetAssignmentMetadataValue,
        _GROUP_GONE,
        (_STREAMS, _ASSIGNED_AT),
    ),
    RecordType(
        21,
        "StreamsGroupTargetAssignmentMember",
        streams.StreamsGroupTargetAssignmentMemberKey,
        streams.StreamsGroupTargetAssignmentMemberValue,
        _MEMBER_GONE,
        (_STREAMS,),
    ),
    RecordType(
        22,
        "StreamsGroupCurrentMemberAssignment",
        streams.StreamsGroupCurrentMemberAssignmentKey,
        streams.StreamsGroupCurrentMemberAssignmentValue,
        _MEMBER_GONE,
        (_STREAMS, Change("4.2", "", "assignmentEpochs (tag 0) of active tasks")),
    ),
    RecordType(
        23,
        "StreamsGroupTopology",
        streams.StreamsGroupTopologyKey,
        streams.StreamsGroupTopologyValue,
        _GROUP_GONE,
        (_STREAMS,),
    ),
    RecordType(
        24,
        "StreamsGroupTargetAssignmentResolvedTopicIds",
        streams.StreamsGroupTargetAssignmentResolvedTopicIdsKey,
        None,
        _GROUP_GONE,
        (Change("development", "KIP-1071", "in no release"),),
    ),
)

RECORD_TYPES: dict[int, RecordType] = {record.id: record for record in _TABLE}
