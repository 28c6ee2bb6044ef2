"""The table of record types: what each is, its layouts, and which release added what.

Decoding, the JSON form and `docs/records.md` all read this table. Types 9, 18 and 24 were written by
preview or development builds only: their keys are read, their values are kept as bytes.
"""

from dataclasses import dataclass

from rebalance_monitor.decoders.records import classic
from rebalance_monitor.decoders.schema import NEVER


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of a record type's history: release, KIP (or "") and what came."""

    release: str
    kip: str
    text: str


@dataclass(frozen=True, slots=True)
class RecordType:
    """One record type.

    `newest` is the highest value version known, `flexible` the first with compact lengths and tags;
    `value` is None for a retired type whose value is not decoded. `tombstone` says what a null value means.
    """

    id: int
    name: str
    key: type
    value: type | None
    newest: int
    flexible: int
    tombstone: str
    history: tuple[Change, ...]


_COMMIT_HISTORY = (
    Change("0.8.2", "", "v0"),
    Change("0.9", "", "v1: expireTimestamp; still written when a client sends its own retention time"),
    Change("2.1-IV0", "KIP-211", "v2: no expireTimestamp"),
    Change("2.1-IV1", "KIP-320", "v3: leaderEpoch"),
    Change("4.1", "KIP-848", "v4: flexible; topicId (tag 0)"),
)

RECORD_TYPES: dict[int, RecordType] = {
    record.id: record
    for record in (
        RecordType(
            0,
            "LegacyOffsetCommit",
            classic.OffsetCommitKey,
            classic.OffsetCommitValue,
            4,
            4,
            "the offset was removed",
            (Change("0.8.2", "", "before type 1; since 4.1 Kafka itself reads only value v0"),),
        ),
        RecordType(
            1,
            "OffsetCommit",
            classic.OffsetCommitKey,
            classic.OffsetCommitValue,
            4,
            4,
            "the offset expired, or it, its topic or its group was deleted",
            _COMMIT_HISTORY,
        ),
        RecordType(
            2,
            "GroupMetadata",
            classic.GroupMetadataKey,
            classic.GroupMetadataValue,
            4,
            4,
            "the group was deleted, expired, or became a KIP-848 group",
            (
                Change("0.9", "", "v0"),
                Change("0.10.1", "KIP-62", "v1: rebalanceTimeout"),
                Change("2.1", "KIP-211", "v2: currentStateTimestamp"),
                Change("2.3", "KIP-345", "v3: groupInstanceId"),
                Change("3.5", "KIP-915", "v4: flexible; defined, never written"),
            ),
        ),
    )
}
NOT_FLEXIBLE = NEVER
