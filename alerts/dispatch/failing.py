"""Ways out that fail, as findings about the monitor itself, and notifications that a service refuses. Pure.

A permanent refusal may concern one notification (too large, a name that the service does not accept) or all
of them (a token). Only the others show which: the refused one waits, and they are tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.dispatch.retry import Pace
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.degraded import degraded
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from rebalance_monitor.alerts.engine.types import Rules, Way
    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.routing.routes import Route
    from rebalance_monitor.coordinator.findings.finding import Finding

PERMANENT_PAUSE_MS = 600_000
"""A permanent refusal is retried this rarely: only a change of configuration or service can mend it."""


@dataclass(slots=True)
class Refusals:
    """What was refused for good: when (ms) and why. Not kept: people restart what they have mended."""

    known: dict[Way, tuple[int, str]] = field(default_factory=dict)

    def waits(self, way: Way, now: int) -> bool:
        """Whether it is too early to try this again."""
        since = self.known.get(way)
        return since is not None and 0 <= now - since[0] < PERMANENT_PAUSE_MS

    def why(self, name: str) -> str:
        """Return why this way out refuses something, "" where it refuses nothing."""
        return next((why for way, (_, why) in self.known.items() if way[0] == name), "")

    def keep(self, *there: Container[Way]) -> None:
        """Forget failures that no notification is owed for."""
        self.known = {way: failed for way, failed in self.known.items() if any(way in one for one in there)}


def is_blind(finding: Finding) -> bool:
    """Whether this says that the monitor sees nothing."""
    return finding.kind is Kind.MONITOR_DEGRADED and finding.details.get("cause") == Cause.BLIND


def rescue(alert: Alert, rules: Rules, paces: Mapping[str, Pace]) -> list[Route]:
    """Return every other receiver's route for a failing way whose alert would go nowhere else."""
    if "sink" not in alert.finding.details:
        return []
    failing = {name for name, pace in paces.items() if pace.failing_since >= 0}
    matched = rules.root.match(alert.labels)
    reached = {name for route in matched for name in rules.ways_of(route.receiver)}
    if reached - failing:
        return []
    return [route for route in rules.fallback if set(rules.ways_of(route.receiver)) - failing]


def sink_failing(cluster: str, name: str, pace: Pace, now: int, refused: str = "") -> Finding:
    """Return the finding that this sink fails, or its end once the sink works again.

    The incident began at `pace.alarmed`. `refused`: why it takes something not at all, though it works.
    """
    if pace.permanent:
        lasting = "has failed for good"
    elif pace.failures:
        lasting = f"has failed {pace.failures} times in a row"
    else:
        lasting = "refuses a notification" if refused else "hangs"
    fails = bool(refused) or pace.failing_since >= 0
    return degraded(
        cluster,
        Cause.SINK_FAILING,
        f"the receiver {name} {lasting}: {pace.why or refused}" if fails else "",
        opened_at=pace.alarmed,
        at=now,
        phase="opened" if fails else "resolved",
        details={"sink": name},
    )


def resolve_removed_receivers(
    alerts: Iterable[Alert], ways: Container[str], cluster: str, now: int
) -> list[Finding]:
    """Return the ends of alarms of ways out that the configuration no longer has: nothing else ends them."""
    ends = []
    for alert in alerts:
        sink = str(alert.finding.details.get("sink", ""))
        if sink and sink not in ways and not alert.resolved(now):
            opened = alert.finding.opened_at
            gone = Pace(alarmed=alert.starts_at if opened is None else opened)
            ends.append(sink_failing(cluster, sink, gone, now))
    return ends
