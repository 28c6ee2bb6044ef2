"""The dispatcher of alerts as a sink of the batch writer: thin, since all of it lies in `alerts/`.

A batch's findings are written before the ledger commits it and handed over after. Nothing is sent here.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Self

import structlog

from rebalance_monitor.alerts.incidents.alert import NEVER
from rebalance_monitor.alerts.setup.setup import checked
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import LATE_AFTER_MS
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import read_until
from rebalance_monitor.engine.batch.batches import MONITOR

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from rebalance_monitor.alerts.runtime.dispatcher import Dispatcher
    from rebalance_monitor.checkpoints.ledger import Snapshot
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.engine.batch.batches import Batch, BatchKey
    from rebalance_monitor.engine.outputs.sinks import Publication
    from rebalance_monitor.engine.storage import Storage

log = structlog.get_logger()


class Alerting:
    """A sink and a context manager; inside it alerts are sent. Without receivers it does nothing.

    `on_attempt(receiver, result)` is called after every attempt. `failing(why)` is called with one sentence
    about receivers that fail, "" once none does. Raises ConfigError, OSError.
    """

    def __init__(
        self,
        settings: Settings,
        storage: Storage,
        cluster: str,
        on_attempt: Callable[[str, str], None],
        failing: Callable[[str], None],
    ) -> None:
        problems = checked(settings.alerts).problems
        if problems:
            raise ConfigError.of(problems)
        self.dispatcher: Dispatcher | None = None
        self._running: AbstractContextManager[object] = nullcontext()
        self._failing = failing
        self._behind: bool | None = None
        self._held_up = ""
        if settings.alerts.is_on:
            # Slow to import: a process without receivers, such as `watch`, does not wait for it.
            from rebalance_monitor.alerts.runtime.dispatcher import Dispatcher  # noqa: PLC0415
            from rebalance_monitor.alerts.setup.receivers import plan_of, sinks_of  # noqa: PLC0415

            plan = partial(plan_of, settings, settings.cluster_name or cluster)
            self.dispatcher = self._running = Dispatcher(
                storage.alerts,
                plan,
                sinks_of(settings),
                on_attempt=lambda receiver, arrived: on_attempt(receiver, "ok" if arrived else "failed"),
            )
        else:
            failing("")

    def __enter__(self) -> Self:
        self._running.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__(None, None, None)

    def stalled_reason(self) -> str:
        """Return in one sentence why no alert is sent, "" where alerts are sent; any thread may ask."""
        return self.dispatcher.stalled_reason() if self.dispatcher else ""

    def opened(self) -> list[Finding]:
        """Return the newest finding of every incident that still fires."""
        alerts = list(self.dispatcher.alerts.values()) if self.dispatcher else []
        return [alert.finding for alert in alerts if alert.ends_at == NEVER and alert.finding.incident]

    def start(self, committed: Snapshot) -> None:
        """Forget batches that were never committed; take the batches that no dispatcher has taken."""
        if self.dispatcher is not None:
            self.dispatcher.open(committed.batches)

    def write(self, key: BatchKey, publication: Publication) -> None:
        """Keep the batch's findings for the dispatcher."""
        if self.dispatcher is not None:
            self._behind = is_behind(publication.batch)
            self.dispatcher.put(key, [finding for finding in publication.findings if not _is_own(finding)])

    def committed(self, key: BatchKey) -> None:
        """Hand the batch over, and say which receivers fail."""
        if self.dispatcher is not None:
            self.dispatcher.committed(key, lives=key.query_id != MONITOR, behind=self._behind)
            self._failing(self.dispatcher.failing())
            self._log_stalled()

    def _log_stalled(self) -> None:
        """Log that no alerts are sent, once as it begins and once as it ends."""
        before, self._held_up = self._held_up, self.stalled_reason()
        if self._held_up and not before:
            log.error("notifications are delayed", why=self._held_up)
        elif before and not self._held_up:
            log.info("notifications are sent again")


def is_behind(batch: Batch) -> bool | None:
    """Whether the batch's shards have judged less than was written long before it; None without shards."""
    read = read_until(stat for _, stat in batch.stats)
    return batch.now - min(read.values()) > LATE_AFTER_MS if read else None


def _is_own(finding: Finding) -> bool:
    """Whether the dispatcher makes this finding itself, at once and for each receiver."""
    return finding.kind is Kind.MONITOR_DEGRADED and finding.details.get("cause") == Cause.SINK_FAILING
