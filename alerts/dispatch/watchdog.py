"""The watchdog: an alert that always fires while the monitor works, so that its absence can page. Pure.

It goes straight to its receivers: no route, silence, interval or inhibition holds it back. It stays away when
no batch has been finished for `silent_after_ms`: a dispatcher that lives beside a dead query is no comfort.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.dispatch.threads import Thread, thread_id
from rebalance_monitor.alerts.incidents.alert import NEVER, Alert
from rebalance_monitor.alerts.messages.blocks import Message, Paragraph, Tone, plain
from rebalance_monitor.alerts.messages.text import moment, name
from rebalance_monitor.coordinator.findings.finding import Finding, finding_id
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity

if TYPE_CHECKING:
    from rebalance_monitor.alerts.engine.engine import Key, Way

ALERTNAME = "Watchdog"
KEY: Key = ("watchdog", (("alertname", ALERTNAME),))


@dataclass(frozen=True, slots=True)
class WatchdogRule:
    """Which ways out get it, how often, and after what silence of the job it stays away (ms)."""

    ways: tuple[str, ...] = ()
    interval_ms: int = 60_000
    silent_after_ms: int = 120_000


@dataclass(slots=True)
class Watchdog:
    """When the job last finished a batch; not kept over a restart, as the new process has to prove itself."""

    rule: WatchdogRule
    batch_at: int = -1
    tried_at: dict[str, int] = field(default_factory=dict)

    def is_due(self, way: str, now: int) -> bool:
        """Whether this way out has to hear of it at `now`."""
        return way in self.rule.ways and self.lives(now) and not self._waits(way, now)

    def lives(self, now: int) -> bool:
        """Whether the job has finished a batch lately."""
        # A clock that was set back must not let a dead job seem alive.
        return self.batch_at >= 0 and abs(now - self.batch_at) <= self.rule.silent_after_ms

    def _waits(self, way: str, now: int) -> bool:
        # A clock that was set back must not make it stay away.
        return self.tried_at.get(way, -1) <= now < self.next_at(way)

    def next_at(self, way: str) -> int:
        """Return when it is due next, should the job live then."""
        tried = self.tried_at.get(way, -1)
        return 0 if tried < 0 else tried + self.rule.interval_ms


def beat(way: Way, thread: Thread | None, cluster: str, now: int) -> tuple[Thread, Alert, Message]:
    """Return the thread, the alert and the message of the watchdog."""
    opened = now if thread is None else thread.opened_at
    thread = Thread(thread_id(way, opened), opened) if thread is None else thread
    labels = {"alertname": ALERTNAME, "cluster": cluster, "severity": Severity.INFO.value, "scope": "monitor"}
    words = "It is sent for as long as the monitor works; page when it stays away."
    message = Message(Tone.INFO, f"[{name(cluster, 40)}] the monitor works", (Paragraph((plain(words),)),))
    return thread, Alert("watchdog", labels, opened, NEVER, _finding(cluster, opened)), message


def _finding(cluster: str, at: int) -> Finding:
    kind = Kind.MONITOR_DEGRADED
    return Finding(
        id=finding_id(cluster, kind, "watchdog", moment(at)),
        kind=kind,
        scope=Scope.MONITOR,
        severity=Severity.INFO,
        evidence="read",
        cluster=cluster,
        at=at,
        details={},
    )
