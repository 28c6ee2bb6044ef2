"""What the metadata of a cluster names: brokers, topics, and the leaders of their partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker as the cluster's metadata names it."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class PartitionLeader:
    """Leader of one partition, with its leader epoch; broker -1 while there is no leader."""

    partition: int
    broker: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its id (a UUID as text, "" before Kafka 2.8) and its partitions by number."""

    name: str
    id: str
    leaders: tuple[PartitionLeader, ...]

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.leaders)

    @property
    def unled(self) -> list[int]:
        """The partitions that no broker leads."""
        return [leader.partition for leader in self.leaders if leader.broker < 0]
