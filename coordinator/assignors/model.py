"""What an assignor is given and what it gives: members with subscriptions, topics with partition counts.

Names are ordered as Java orders strings (UTF-16 code units), for the assignors' ties are broken by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rebalance_monitor.decoders.layouts.twins import quickly_made

Partition = tuple[str, int]
"""(topic, partition)"""

Assignment = dict[str, list[Partition]]
"""member id -> partitions, an entry for every member"""

Counts = Mapping[str, int]
"""topic -> number of partitions; topics that do not exist are absent"""

Racks = Mapping[str, Sequence[frozenset[str]]]
"""topic -> for each partition the racks of its replicas"""


@quickly_made
@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member: what it subscribes to and, for the sticky assignors, what it owns now."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[Partition, ...] = ()


def java_order(text: str) -> bytes:
    """Sort key under which strings stand as Java's `compareTo` puts them."""
    return text.encode("utf-16-be", "surrogatepass")


def by_id(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Members by member id."""
    return sorted(members, key=lambda member: java_order(member.member_id))


def static_first(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Members in the order of Range and RoundRobin: static ones by instance id, then the others by id."""
    return sorted(members, key=_place)


def consumers_of(members: Sequence[Subscriber], counts: Counts) -> dict[str, list[Subscriber]]:
    """Existing topic -> its subscribers, in the order of `members`; topics by name."""
    named = sorted(
        {topic for member in members for topic in member.topics if topic in counts}, key=java_order
    )
    found: dict[str, list[Subscriber]] = {topic: [] for topic in named}
    for member in members:
        for topic in dict.fromkeys(member.topics):
            if topic in found:
                found[topic].append(member)
    return found


def same_subscriptions(members: Sequence[Subscriber]) -> bool:
    """Whether all members subscribe to the same topics."""
    return len({frozenset(member.topics) for member in members}) <= 1


def _place(member: Subscriber) -> tuple[bool, bytes]:
    name = member.instance_id
    return name is None, java_order(member.member_id if name is None else name)
