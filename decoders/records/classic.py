"""Types 0, 1 and 2: committed offsets and classic groups.

Which release writes which version stands in the table (`registry`). Types 3 and up are elsewhere.
"""

from dataclasses import dataclass

from rebalance_monitor.decoders.layouts.schema import ZERO_UUID, array, wire


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    """Keys of types 0 and 1: group and partition of an offset."""

    group: str = wire("string")
    topic: str = wire("string")
    partition: int = wire("int32")


@dataclass(frozen=True, slots=True)
class OffsetCommitValue:
    """Values of types 0 and 1. Timestamps in ms since 1970; -1 and a zero uuid where a version has none.

    v0: 0.8.2. v1: with the client's own retention (`expire_timestamp`), to this day. v2: 2.1-IV0.
    v3: 2.1-IV1, adds the leader epoch (KIP-320). v4: 4.1, flexible, adds the topic id (KIP-848).
    """

    offset: int = wire("int64")
    leader_epoch: int = wire("int32", since=3, default=-1)
    metadata: str = wire("string")
    commit_timestamp: int = wire("int64")
    expire_timestamp: int = wire("int64", since=1, until=1, default=-1)
    topic_id: bytes = wire("uuid", since=4, tag=0, default=ZERO_UUID)


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """Key of type 2: a classic group."""

    group: str = wire("string")


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member of a classic group; timeouts in ms, `client_host` as Java prints an address (`/10.1.2.3`).

    v1 (0.10.1, KIP-62) adds the rebalance timeout, v3 (2.3, KIP-345) the group instance id.
    """

    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", since=3, null_since=3, default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    rebalance_timeout: int = wire("int32", since=1, default=-1)
    session_timeout: int = wire("int32")
    subscription: bytes = wire("bytes")
    assignment: bytes = wire("bytes")


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """Value of type 2: one completed generation, or an empty group (no members, no protocol, no leader).

    v2 (2.1, KIP-211) adds the time of the last state change (ms; -1 before).
    v4 is flexible and defined, but no release up to 4.4 writes it.
    """

    protocol_type: str = wire("string")
    generation: int = wire("int32")
    protocol: str | None = wire("string", null_since=0, default=None)
    leader: str | None = wire("string", null_since=0, default=None)
    current_state_timestamp: int = wire("int64", since=2, default=-1)
    members: tuple[GroupMember, ...] = array(GroupMember)
