"""Which alerts explain others: a storm its single rebalances, a roll-up the alerts of its groups. Pure.

A group whose consumption stopped before it lost its last member has one alert: `group_empty` waits until the
other ends.

A suppressed alert is not notified. An alert that was notified before stays open at its receivers until it
ends. An inhibit rule differs: it suppresses the end as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, louder
from rebalance_monitor.coordinator.lag.judging.continuing import STANDING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.kinds import Severity

SINGLES = frozenset(
    {
        Kind.REBALANCE,
        Kind.REBALANCE_COST,
        Kind.REBALANCE_FAILED,
        Kind.REBALANCE_IN_PROGRESS,
        Kind.SESSION_TIMEOUT,
        Kind.POLL_INTERVAL_EXCEEDED,
        Kind.MEMBER_SILENT,
        Kind.STATIC_MEMBER_REPLACED,
        Kind.SLOW_SYNC,
    }
)
"""What a storm of the same group swallows."""

_DISTURBED = frozenset(
    {
        Kind.REBALANCE,
        Kind.REBALANCE_COST,
        Kind.REBALANCE_FAILED,
        Kind.REBALANCE_IN_PROGRESS,
        Kind.MEMBER_SILENT,
        Kind.SLOW_SYNC,
    }
)
EXPLAINED: dict[Kind, frozenset[Kind]] = {
    Kind.COORDINATOR_MOVED: _DISTURBED,
    Kind.BROKER_AWAY: _DISTURBED | {Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED, Kind.GROUP_EMPTY},
    Kind.ROLLING_RESTART: _DISTURBED
    | {Kind.ROLLING_RESTART, Kind.SESSION_TIMEOUT, Kind.STATIC_MEMBER_REPLACED},
    Kind.SESSION_TIMEOUT: _DISTURBED | {Kind.SESSION_TIMEOUT, Kind.GROUP_EMPTY},
    Kind.POLL_INTERVAL_EXCEEDED: _DISTURBED | {Kind.POLL_INTERVAL_EXCEEDED, Kind.GROUP_EMPTY},
}
"""Kind of a roll-up over many groups -> the kinds of their own alerts that it explains."""


AROUND_MS = 60_000
"""A roll-up that does not name all of its groups explains findings of others from so long before it to as
long after it, ms."""


class Swallowing:
    """What fires at `now`, as far as it explains others."""

    def __init__(self, alerts: Iterable[Alert], now: int) -> None:
        self._storms: set[tuple[str, str | None]] = set()
        self._standing: dict[tuple[str, str | None], Severity] = {}
        self._rolled: list[Alert] = []
        for alert in alerts:
            if alert.resolved(now):
                continue
            if alert.finding.kind is Kind.STORM:
                self._storms.add((alert.finding.cluster, alert.finding.group))
            elif alert.labels.get("kind") in STANDING and not alert.quiet:
                whose, severity = (alert.finding.cluster, alert.finding.group), alert.finding.severity
                self._standing[whose] = louder(severity, self._standing.get(whose, severity))
            elif alert.finding.scope is Scope.CLUSTER and alert.finding.groups_total:
                self._rolled.append(alert)

    def swallows(self, alert: Alert) -> bool:
        """Whether something that fires explains this alert."""
        finding = alert.finding
        if finding.group is None:
            return False
        whose = finding.cluster, finding.group
        in_storm = finding.kind in SINGLES and whose in self._storms
        return in_storm or self._goes_on(alert) or any(_rolls_up(source, alert) for source in self._rolled)

    def _goes_on(self, alert: Alert) -> bool:
        """Whether a group has lost its members while an alert that is as severe says that none consumes."""
        finding = alert.finding
        if finding.kind is not Kind.GROUP_EMPTY:
            return False
        known = self._standing.get((finding.cluster, finding.group))
        return known is not None and louder(known, finding.severity) is known


def _rolls_up(source: Alert, alert: Alert) -> bool:
    above, below = source.finding, alert.finding
    if below.kind not in EXPLAINED.get(above.kind, frozenset()) or above.cluster != below.cluster:
        return False
    if below.severity.value == "critical":
        # A group that must never be empty pages, even if a roll-up explains it.
        return False
    return below.group in above.groups or (
        above.groups_total > len(above.groups) and _may_be_in(above, below)
    )


def _may_be_in(above: Finding, below: Finding) -> bool:
    """Whether a group that a roll-up cannot name beside so many others is taken to be in it.

    The notification has that time, and the host that they share, if any.
    """
    first = above.at if above.opened_at is None else above.opened_at
    shared = {cause.host for cause in above.causes if cause.host is not None}
    hosts = {member.host for member in below.members}
    is_there = not shared or not hosts or bool(shared & hosts)
    return is_there and first - AROUND_MS <= below.at <= above.at + AROUND_MS
