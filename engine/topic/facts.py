"""The offsets topic at one moment, as the brokers describe it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.engine.topic.leader_epochs import (
        Kept,
    )


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The topic at one moment; begins and ends are first and next offsets by partition.

    epochs: partition -> epoch of its leader, -1 where it is unknown. kept: partitions that others lead than
    when `Marks` were made -> what the new leader has of what had been read. unled: partitions that no broker
    leads, of which nothing else is known.
    """

    name: str
    id: str
    cluster_id: str
    begins: dict[int, int]
    ends: dict[int, int]
    epochs: dict[int, int] = field(default_factory=dict)
    kept: dict[int, Kept] = field(default_factory=dict)
    unled: tuple[int, ...] = ()

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.ends) + len(self.unled)

    def filled(self) -> dict[int, int]:
        """Return the end offsets of the partitions that may hold records."""
        return {p: end for p, end in self.ends.items() if end > self.begins.get(p, 0)}


@dataclass(frozen=True, slots=True)
class Look:
    """What the brokers said, between what had been read when they were asked and when they had answered."""

    before: Reading
    facts: TopicFacts
    after: Reading


@dataclass(frozen=True, slots=True)
class Reading:
    """How far the query has read (partition -> next offset), and after how many batches."""

    ends: Mapping[int, int]
    batches: int
