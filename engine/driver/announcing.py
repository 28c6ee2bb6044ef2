"""What a job logs before its first batch, and its progress while it reads the topic's history.

The first line names the cluster, what is read, where state and tables lie, where the page is, and which
receivers are notified. Progress is logged at most every `EVERY_S` until the history is read. A batch that
reads all of it at once, as Spark's first one does, is announced with its size.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.engine.topic.guard import has_read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.topic.facts import TopicFacts

log = structlog.get_logger(__name__)
EVERY_S = 5.0


def announce(settings: Settings, facts: TopicFacts) -> None:
    """Say what is watched, and where its page will be."""
    web, alerts = settings.web, settings.alerts
    page = (web.address or web.origin) if web.enabled else "off (`web.enabled`)"
    receivers = ", ".join(one.name for one in alerts.receivers)
    log.info(
        "watching",
        cluster=settings.cluster_name or facts.cluster_id,
        brokers=settings.kafka.bootstrap_servers,
        topic=facts.name,
        partitions=facts.partitions,
        engine=settings.engine,
        storage=settings.storage.path,
        page=page,
        notifies=receivers or "nobody (`alerts.receivers`)",
    )


@dataclass(slots=True)
class HistoryProgress:
    """Says how much of the history has been read, until all of it has been.

    begins, until: partition -> where reading begins, and where history ends. clock: monotonic seconds.
    """

    begins: Mapping[int, int]
    until: Mapping[int, int]
    clock: Callable[[], float] = time.monotonic
    _begun: float = field(init=False)
    _said: float = field(init=False)
    is_read: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._begun = self._said = self.clock()
        if self.total:
            log.info("reading history", records=self.total)
        else:
            self.is_read = True

    def __call__(self, ends: Mapping[int, int]) -> bool:
        """Take how far a batch has read; True for the one with which history has been read."""
        if self.is_read:
            return False
        now = self.clock()
        if has_read(ends, self.until):
            self.is_read = True
            log.info("history has been read", records=self.total, seconds=round(now - self._begun, 1))
            return True
        if now - self._said >= EVERY_S:
            self._said = now
            done = sum(max(0, min(end, ends.get(p, 0)) - self._from(p)) for p, end in self.until.items())
            log.info("reading history", read=done, of=self.total, share=f"{done / self.total:.0%}")
        return False

    @property
    def total(self) -> int:
        """Records (offsets) of history that were to be read."""
        return sum(max(0, end - self._from(partition)) for partition, end in self.until.items())

    def _from(self, partition: int) -> int:
        return self.begins.get(partition, 0)
