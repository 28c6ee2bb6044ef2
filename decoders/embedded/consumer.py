"""The consumer protocol inside a classic group's members: subscription and assignment, v0 to v3.

Rule of the protocol: a newer version only appends, so the known prefix is read and the rest is noted.
Real clients also write less than their version says (kafka-go: v1 with topics and user data only; kafkajs:
its assigner's own version number), so the structure may end after any field but the first; what is missing
takes Kafka's default and is noted. A negative version is refused.
"""

from dataclasses import dataclass

from rebalance_monitor.decoders.embedded.lenient import read_prefix
from rebalance_monitor.decoders.errors import DecodeError
from rebalance_monitor.decoders.layouts.schema import array, wire
from rebalance_monitor.decoders.layouts.twins import quickly_made
from rebalance_monitor.decoders.record import Failure

TopicPartitions = tuple[tuple[str, tuple[int, ...]], ...]
NEWEST = 3


@dataclass(frozen=True, slots=True)
class _Owned:
    topic: str = wire("string")
    partitions: tuple[int, ...] = array("int32")


@dataclass(frozen=True, slots=True)
class _Subscription:
    topics: tuple[str, ...] = array("string")
    user_data: bytes | None = wire("bytes", null_since=0, default=None)
    owned_partitions: tuple[_Owned, ...] = array(_Owned, since=1)
    generation_id: int = wire("int32", since=2, default=-1)
    rack_id: str | None = wire("string", since=3, null_since=3, default=None)


@dataclass(frozen=True, slots=True)
class _Assignment:
    assigned_partitions: tuple[_Owned, ...] = array(_Owned)
    user_data: bytes | None = wire("bytes", null_since=0, default=None)


@quickly_made
@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member asked for: `owned_partitions` since v1, `generation_id` (else -1) v2, `rack_id` v3."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    owned_partitions: TopicPartitions
    generation_id: int
    rack_id: str | None
    notes: tuple[str, ...] = ()


@quickly_made
@dataclass(frozen=True, slots=True)
class Assignment:
    """What a member was given; version -1 and no partitions where the leader gave it zero bytes."""

    version: int
    partitions: TopicPartitions
    user_data: bytes | None
    notes: tuple[str, ...] = ()


def decode_subscription(data: bytes) -> Subscription | Failure:
    """Read a member's subscription; never raises.

    >>> decode_subscription(bytes.fromhex("0001 00000001 0006 6f7264657273 00000000")).topics
    ('orders',)
    """
    try:
        version, found, notes = read_prefix(_Subscription, data, NEWEST)
    except DecodeError as error:
        return Failure(error.reason, "value", error.at, error.field)
    owned = tuple((o.topic, o.partitions) for o in found.owned_partitions)
    return Subscription(
        version, found.topics, found.user_data, owned, found.generation_id, found.rack_id, notes
    )


def decode_assignment(data: bytes) -> Assignment | Failure:
    """Read a member's assignment; never raises. Zero bytes are an assignment of nothing.

    >>> decode_assignment(bytes.fromhex("0000 00000001 0006 6f7264657273 00000001 00000007 ffffffff"))
    Assignment(version=0, partitions=(('orders', (7,)),), user_data=None, notes=())
    """
    if not data:
        return Assignment(-1, (), None)
    try:
        version, found, notes = read_prefix(_Assignment, data, NEWEST)
    except DecodeError as error:
        return Failure(error.reason, "value", error.at, error.field)
    given = tuple((a.topic, a.partitions) for a in found.assigned_partitions)
    return Assignment(version, given, found.user_data, notes)
