"""Which groups are in trouble, and how badly: one table of what counts, the worst first.

Trouble is an open incident, or a breach (a member lost to a timeout, a failed rebalance) in the last ten
minutes. What happens to every healthy group now and then (a rebalance under way) ranks last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.kinds import Kind, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.incidents import Incident

RANKS = (
    Kind.STORM,
    Kind.REBALANCE_STUCK,
    Kind.CONSUMPTION_STOPPED,
    Kind.CONSUMPTION_STALLED,
    Kind.RECORDS_EXPIRING,
    Kind.REBALANCE_FAILED,
    Kind.MEMBER_SILENT,
    Kind.SESSION_TIMEOUT,
    Kind.POLL_INTERVAL_EXCEEDED,
    Kind.PARTITIONS_UNASSIGNED,
    Kind.GROUP_TOO_LARGE,
    Kind.OFFSETS_EXPIRING,
    Kind.FALLING_BEHIND,
    Kind.ASSIGNMENT_SKEWED,
    Kind.REBALANCE_IN_PROGRESS,
    Kind.GROUP_EMPTY,
)
"""Kinds that are trouble of a group, the worst first; severity comes before this order."""

BREACHES = frozenset({Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED, Kind.REBALANCE_FAILED})
BREACH_LASTS_MS = 600_000

LOUDNESS = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_RANK = {kind: rank for rank, kind in enumerate(RANKS)}
NO_TROUBLE = (len(LOUDNESS), len(RANKS))


@dataclass(frozen=True, slots=True)
class Trouble:
    """The worst of a group. since: ms. until: it counts up to then (ms), -1 for as long as it is open."""

    kind: Kind
    severity: Severity
    since: int
    incident: str | None
    until: int = -1

    @property
    def order(self) -> tuple[int, int]:
        """Sort key."""
        return (LOUDNESS[self.severity], _RANK[self.kind])


def worst(found: Iterable[Trouble], now: int) -> Trouble | None:
    """Return the worst trouble that still counts at `now` (ms); of equals the newest."""
    counting = (one for one in found if one.until < 0 or one.until >= now)
    return min(counting, key=lambda one: (*one.order, -one.since), default=None)


def of_incident(incident: Incident) -> Trouble | None:
    """Return what an open incident means for its group; None for one that is no trouble of a group."""
    if incident.kind not in _RANK:
        return None
    return Trouble(incident.kind, incident.latest.severity, incident.opened_at, incident.id)


def breaches(findings: Iterable[Finding]) -> tuple[Trouble, ...]:
    """Return what members lost and rebalances failed mean for the group while they are recent."""
    return tuple(
        Trouble(finding.kind, finding.severity, finding.at, None, finding.at + BREACH_LASTS_MS)
        for finding in findings
        if finding.kind in BREACHES and finding.severity is not Severity.INFO and not finding.history
    )
