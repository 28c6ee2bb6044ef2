"""GroupMetadata records (type 2) as memberships.

Embedded subscriptions and assignments are read for protocol type `consumer` only. What cannot be read leaves
the member without partitions, which claims less and never stops the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from sys import intern
from typing import TYPE_CHECKING, TypeVar

from rebalance_monitor.coordinator.commits import client_families
from rebalance_monitor.coordinator.rebalance import connect
from rebalance_monitor.coordinator.state.group_state import Member
from rebalance_monitor.coordinator.state.membership import STREAMS_ASSIGNOR
from rebalance_monitor.decoders.embedded.consumer import decode_assignment, decode_subscription
from rebalance_monitor.decoders.layouts.twins import quickly_made
from rebalance_monitor.decoders.record import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.decoders import GroupMember, GroupMetadataValue
    from rebalance_monitor.decoders.embedded.consumer import Assignment, Subscription
    from rebalance_monitor.decoders.records.consumer import ClassicMemberMetadata

_WHOLE = frozenset({"range", "roundrobin", "sticky"})
_PROBING_VERSION = 7
_GENERATION_SINCE = 3
_NO_PROBING = 2**63 - 1
_REMEMBERED, _REMEMBERED_BYTES = 4096, 512


T = TypeVar("T")


@quickly_made
@dataclass(frozen=True, slots=True)
class Membership:
    """Members of one record with the group's interned topics, and Streams' announced rebalance (ms).

    `subscriptions`: member id -> topics, of members whose subscription could be read. `reset`: client ids of
    members that were there before and had lost their generation when they rejoined (KIP-792). `unvarying`:
    all subscriptions are the same in each generation, so a follower that sends its own again changes nothing.
    """

    members: list[Member]
    topics: list[str]
    totals: list[int]
    probing_at: int
    partial: bool
    connect: connect.Evidence
    subscriptions: dict[str, tuple[str, ...]]
    reset: tuple[str, ...] = ()
    unvarying: bool = False

    @property
    def asked(self) -> frozenset[str] | None:
        """Topics that members subscribe to, None where not all of their subscriptions can be read."""
        if len(self.subscriptions) < len(self.members):
            return None
        return frozenset(topic for topics in self.subscriptions.values() for topic in topics)

    @property
    def is_readable(self) -> bool:
        """Whether all subscriptions and assignments of the members can be read."""
        return not self.partial and len(self.subscriptions) >= len(self.members)


def read(state: GroupState, value: GroupMetadataValue) -> Membership:
    """Read the members of `value`; carry over the traces of members that `state` has already."""
    known = {member.member_id: member for member in state.members}
    topics: dict[str, int] = {}
    counts: dict[int, int] = {}
    members: list[Member] = []
    subscriptions: dict[str, tuple[str, ...]] = {}
    probing, partial, embedded = -1, False, value.protocol_type == "consumer"
    reset: list[str] = []
    unvarying = embedded
    for found in value.members:
        subscription, digest = _subscription(found.subscription) if embedded else (None, "")
        assignment = _assignment(found.assignment) if embedded else None
        partial |= assignment is None and embedded
        member = _member(value, found, subscription, digest)
        _assign(member, assignment, topics, counts)
        members.append(member)
        unvarying = unvarying and _is_unvarying(subscription)
        if subscription is not None:
            subscriptions[member.member_id] = subscription.topics
        if assignment is not None and assignment.user_data and value.protocol == STREAMS_ASSIGNOR:
            probing = _probing(assignment.user_data, probing)
        if (before := known.get(member.member_id)) is not None:
            _carry(state, before, member, list(topics))
            if _was_reset(value, member, subscription):
                reset.append(member.client_id)
    # These assign every partition there is: a topic may have been made anew, with fewer.
    is_whole = value.protocol in _WHOLE and not partial
    had = {} if is_whole else dict(zip(state.topics, state.totals, strict=True))
    totals = [max(had.get(topic, 0), counts.get(index, 0)) for topic, index in topics.items()]
    workers = connect.read(value) if value.protocol_type == connect.PROTOCOL_TYPE else connect.NO_EVIDENCE
    return Membership(
        members, list(topics), totals, probing, partial, workers, subscriptions, tuple(reset), unvarying
    )


def spoken(client_id: str, rebalance: int, classic: ClassicMemberMetadata) -> str:
    """Name the family of a member that speaks the classic protocol in a consumer group.

    Its id, made by the broker, has the form that Java clients use for their own.
    """
    name, data = next(((one.name, one.metadata) for one in classic.supported_protocols), ("", b""))
    subscription, _ = _subscription(data)
    return client_families.recognise(
        client_id, classic.session_timeout_ms, rebalance, "consumer", name, subscription
    )


def _asked(data: bytes) -> tuple[Subscription | None, str]:
    """Read a subscription, with a digest of what a member keeps through rebalances: topics and rack."""
    found = decode_subscription(data)
    if isinstance(found, Failure):
        return None, ""
    # Owned partitions and generation change with every rebalance.
    text = "\0".join((*sorted(found.topics), found.rack_id or ""))
    return found, blake2b(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()


def _given(data: bytes) -> Assignment | None:
    found = decode_assignment(data)
    return None if isinstance(found, Failure) else found


def _remembering(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Remember what was read last: members of a group, and its generations, repeat the same bytes."""
    remembered = lru_cache(maxsize=_REMEMBERED)(read)
    return lambda data: remembered(data) if len(data) <= _REMEMBERED_BYTES else read(data)


_subscription = _remembering(_asked)


_assignment = _remembering(_given)


def _member(value: GroupMetadataValue, found: GroupMember, sub: Subscription | None, digest: str) -> Member:
    family = client_families.recognise(
        found.client_id,
        found.session_timeout,
        found.rebalance_timeout,
        value.protocol_type,
        value.protocol or "",
        sub,
    )
    # No broker accepts a session without a length, but a record may have one, and silence is judged by it.
    session = max(1, found.session_timeout)
    return Member(
        member_id=found.member_id,
        instance_id=found.group_instance_id,
        # The groups of an application, and those on a machine, have the same.
        client_id=intern(found.client_id),
        host=intern(found.client_host),
        host_stale=False,
        session_timeout=session,
        rebalance_timeout=found.rebalance_timeout if found.rebalance_timeout > 0 else session,
        family=family,
        version=-1 if sub is None else sub.version,
        subscribed=digest,
        joined_at=value.current_state_timestamp,
    )


def _was_reset(value: GroupMetadataValue, member: Member, sub: Subscription | None) -> bool:
    """Whether a client that always says its generation had none: Java's, by the shape of its subscription.

    A static member may not have rejoined at all.
    """
    if sub is None or sub.version < _GENERATION_SINCE or member.instance_id is not None:
        return False
    return sub.generation_id < 0 and (sub.user_data is None or value.protocol == "stream")


def _is_unvarying(sub: Subscription | None) -> bool:
    """Whether a subscription holds nothing of the generation before (KIP-429, KIP-792, user data)."""
    return (
        sub is not None
        and sub.version < _GENERATION_SINCE - 1
        and not (sub.user_data or sub.owned_partitions)
    )


def _assign(
    member: Member, assignment: Assignment | None, topics: dict[str, int], counts: dict[int, int]
) -> None:
    for topic, given in () if assignment is None else assignment.partitions:
        index = topics.setdefault(topic, len(topics))
        counts[index] = counts.get(index, 0) + len(given)
        member.assigned.append([index, *given])
        member.offsets.extend([-1] * len(given))


def _carry(state: GroupState, before: Member, member: Member, topics: list[str]) -> None:
    """Copy the trace of life of the same member id; offsets only of partitions it had already."""
    for name in _TRACE:
        setattr(member, name, getattr(before, name))
    if before.assigned == member.assigned and state.topics[: len(topics)] == topics:
        member.offsets = list(before.offsets)
        return
    flat = dict(zip(_flat(before, state.topics), before.offsets, strict=True))
    if flat:
        member.offsets = [flat.get(key, -1) for key in _flat(member, topics)]


_TRACE = (
    "joined_at",
    "host_stale",
    "last_commit",
    "commits",
    "idle",
    "cadence",
    "moved",
    "fresh",
    "silent_count",
    "gap",
    "gaps",
    "orders",
)


def _flat(member: Member, topics: list[str]) -> list[tuple[str, int]]:
    return [(topics[topic], partition) for topic, *given in member.assigned for partition in given]


def _probing(data: bytes, earliest: int) -> int:
    """Kafka Streams' assignments (from version 7) end with the time of the next probing rebalance."""
    used = int.from_bytes(data[:4], "big", signed=True)
    at = int.from_bytes(data[-8:], "big", signed=True)
    if used < _PROBING_VERSION or not 0 < at < _NO_PROBING:
        return earliest
    return at if earliest < 0 else min(at, earliest)
