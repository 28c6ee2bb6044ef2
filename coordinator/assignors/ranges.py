"""Range (KIP-881 since 3.5): each topic by itself, in contiguous ranges, the first members one more.

Topics that two members share thus pile up on the first ones: five topics of three partitions give two members
ten against five. With racks of members and replicas, partitions go first where a replica is in the member's
rack, co-partitioned topics together.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.assignors.model import Racks, Subscriber, consumers_of, static_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.assignors.model import Assignment, Counts


@dataclass(slots=True)
class _Topic:
    """One topic while it is handed out."""

    name: str
    consumers: dict[str, str | None]
    racks: Sequence[frozenset[str]]
    left: list[int]
    base: int
    extra: int
    given: dict[str, int]

    def room(self, consumer: str) -> int:
        return max(0, self.base + (self.extra > 0) - self.given[consumer])

    def matches(self, consumer: str, partition: int) -> bool:
        rack = self.consumers[consumer]
        return rack is None or (partition < len(self.racks) and rack in self.racks[partition])

    def give(self, out: Assignment, consumer: str, partitions: list[int]) -> None:
        out[consumer] += [(self.name, partition) for partition in partitions]
        self.given[consumer] += len(partitions)
        if self.given[consumer] > self.base:
            self.extra -= 1
        self.left = [partition for partition in self.left if partition not in partitions]


def assign(members: Sequence[Subscriber], counts: Counts, racks: Racks | None = None) -> Assignment:
    """Hand out every partition; `racks` of the replicas where they are known."""
    out: Assignment = {member.member_id: [] for member in members}
    topics = [
        _topic(name, counts[name], consumers, (racks or {}).get(name, ()))
        for name, consumers in consumers_of(static_first(members), counts).items()
        if counts[name]
    ]
    if any(_rack_aware(topic) for topic in topics):
        _by_rack(topics, out)
    for topic in topics:
        _ranges(topic, out)
    return out


def _topic(name: str, count: int, consumers: list[Subscriber], racks: Sequence[frozenset[str]]) -> _Topic:
    base, extra = divmod(count, len(consumers))
    ids = {member.member_id: member.rack for member in consumers}
    return _Topic(name, ids, racks, list(range(count)), base, extra, dict.fromkeys(ids, 0))


def _rack_aware(topic: _Topic) -> bool:
    """Racks only matter where some replica is in a member's rack, and not every partition in all of them."""
    every = frozenset[str]().union(*topic.racks) if topic.racks else frozenset[str]()
    wanted = {rack for rack in topic.consumers.values() if rack is not None}
    return bool(wanted & every) and any(racks != every for racks in topic.racks)


def _ranges(topic: _Topic, out: Assignment, *, rack: bool = False) -> None:
    for consumer in topic.consumers:
        fitting = [p for p in topic.left if not rack or topic.matches(consumer, p)][: topic.room(consumer)]
        if fitting:
            topic.give(out, consumer, fitting)


def _by_rack(topics: list[_Topic], out: Assignment) -> None:
    """Hand out what fits by rack, topics of the same consumers and size partition by partition together."""
    alike: dict[object, list[_Topic]] = defaultdict(list)
    for topic in topics:
        alike[tuple(topic.consumers.items()), len(topic.left)].append(topic)
    for together in alike.values():
        if len(together) > 1:
            _together(together, out)
        elif _rack_aware(together[0]):
            _ranges(together[0], out, rack=True)


def _together(topics: list[_Topic], out: Assignment) -> None:
    remaining = list(topics[0].consumers)
    for partition in range(len(topics[0].left)):
        fitting = (
            consumer
            for consumer in remaining
            if all(topic.matches(consumer, partition) and topic.room(consumer) > 0 for topic in topics)
        )
        consumer = next(fitting, None)
        if consumer is None:
            continue
        for topic in topics:
            topic.give(out, consumer, [partition])
        if not any(topic.room(consumer) for topic in topics):
            remaining.remove(consumer)
