"""What the brokers say about the offsets topic: before the query starts, and again and again while it runs.

The topic is created by the first consumer group: a cluster without one has none yet, and the job waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.streaming.asking import Asking

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from rebalance_monitor.cluster.admin import ClusterAdmin

log = structlog.get_logger()
WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The topic at one moment; begins and ends are first and next offsets by partition."""

    name: str
    id: str
    cluster_id: str
    begins: dict[int, int]
    ends: dict[int, int]

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.ends)

    def filled(self) -> dict[int, int]:
        """Return the end offsets of the partitions that may hold records."""
        return {p: end for p, end in self.ends.items() if end > self.begins.get(p, 0)}


def ask(admin: ClusterAdmin, name: str) -> TopicFacts | None:
    """Return what the brokers say; None where the topic does not exist. Raises DependencyError."""
    topic = admin.topic(name)
    if topic is None or not topic.partitions:
        return None
    begins, ends = admin.begin_offsets(name), admin.end_offsets(name)
    return TopicFacts(name, topic.id, admin.cluster_id(), begins, ends)


def await_topic(admin: ClusterAdmin, name: str, stop: threading.Event) -> TopicFacts | None:
    """Return the facts once the topic exists; None when `stop` is set first. Says once that it waits."""
    told = False
    while not stop.is_set():
        if facts := ask(admin, name):
            return facts
        if not told:
            log.info("waiting: the topic does not exist until the first consumer group appears", topic=name)
            told = True
        stop.wait(WAIT_S)
    return None


@dataclass(frozen=True, slots=True)
class Reading:
    """How far the query has read (partition -> next offset), and after how many batches."""

    ends: Mapping[int, int]
    batches: int


@dataclass(frozen=True, slots=True)
class Look:
    """What the brokers said, between what had been read when they were asked and when they had answered."""

    before: Reading
    facts: TopicFacts
    after: Reading


class TopicWatch(Asking):
    """Asks the brokers every `every_s` seconds in a thread of its own; use as a context manager.

    `take` gives the newest answer once. Brokers that cannot be asked are asked again.
    """

    def __init__(self, properties: Mapping[str, str], name: str, every_s: float) -> None:
        super().__init__(properties, "topic", every_s)
        self._name = name
        self._reading = Reading({}, 0)
        self._look: Look | None = None

    def begin(self) -> None:
        """Say that a query begins: what was seen of the one before it means nothing any more."""
        self._reading = Reading({}, 0)
        self._look = None

    def has_read(self, ends: Mapping[int, int]) -> None:
        """Say how far the batch just done has read."""
        self._reading = Reading(dict(ends), self._reading.batches + 1)

    def take(self) -> Look | None:
        """Return the newest look, None when there is none since the last call."""
        look, self._look = self._look, None
        return look

    def _ask(self, admin: ClusterAdmin) -> None:
        before = self._reading
        facts = ask(admin, self._name)
        if facts is not None and before.batches:
            self._look = Look(before, facts, self._reading)
