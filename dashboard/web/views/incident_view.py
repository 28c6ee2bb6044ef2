"""Incidents as rows and pages: what it is, since when, why, who is behind it, and what was told of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.finding import to_dict
from rebalance_monitor.coordinator.findings.kinds import KINDS, Severity
from rebalance_monitor.dashboard.web.views.budget import within

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.incidents import Incident
    from rebalance_monitor.dashboard.view.snapshot import Known
    from rebalance_monitor.dashboard.web.views.shapes import IncidentDetail, IncidentRow, Offender

AROUND_MS = 60_000
MAX_FINDINGS = 200
MAX_OFFENDERS = 8
LOUDNESS = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_GONE = frozenset({"left", "replaced"})


def incident_row(incident: Incident) -> IncidentRow:
    """Return one incident's row, by its newest finding."""
    latest = incident.latest
    cause = latest.causes[0] if latest.causes else None
    return {
        "id": incident.id,
        "kind": incident.kind.value,
        "severity": latest.severity.value,
        "scope": latest.scope.value,
        "group": incident.group,
        "groups": list(latest.groups),
        "groups_total": latest.groups_total,
        "opened_at": incident.opened_at,
        "closed_at": incident.closed_at,
        "resolution": latest.resolution,
        "evidence": latest.evidence,
        "confidence": latest.confidence,
        "what": KINDS[incident.kind].what,
        "cause": cause.cause.value if cause else "",
        "why": cause.why if cause else "",
        "findings": incident.findings,
        "details": dict(latest.details),
    }


def in_order(known: Known) -> list[Incident]:
    """Return open incidents, the worst and then the newest first, then closed ones, the newest first."""
    opened = sorted(
        known.incidents.open.values(),
        key=lambda one: (LOUDNESS[one.latest.severity], -one.opened_at, one.id),
    )
    closed = sorted(known.incidents.closed.values(), key=lambda one: (-(one.closed_at or 0), one.id))
    return [*opened, *closed]


def incident_detail(incident: Incident, told: Sequence[Finding], now: int, *, live: bool) -> IncidentDetail:
    """Return the page of one incident; `told` is what is known of its group, or of no group, oldest first."""
    own = [finding for finding in told if incident.id in {finding.incident, finding.id}]
    last = max((finding.at for finding in told), default=now)
    end = max(now, last) if incident.closed_at is None else incident.closed_at
    near = range(incident.opened_at - AROUND_MS, end + AROUND_MS + 1)
    around = [finding for finding in told if finding.at in near and finding not in own]
    return {
        "now": now,
        "live": live,
        "incident": incident_row(incident),
        "findings": newest(own, MAX_FINDINGS)[::-1],
        "around": newest(around, MAX_FINDINGS)[::-1],
        "offenders": offenders([*own, *around]),
    }


def offenders(findings: Iterable[Finding]) -> list[Offender]:
    """Return the clients that losses, timeouts and returns point to, the worst first."""
    told = [_suspects(finding) for finding in findings]
    counts = Counter(client for suspects in told for client in suspects)
    total = sum(1 for suspects in told if suspects)
    return [
        {"client_id": client, "host": host, "findings": count, "share": round(count / total, 3)}
        for (client, host), count in counts.most_common(MAX_OFFENDERS)
    ]


def _suspects(finding: Finding) -> set[tuple[str, str]]:
    named = {(cause.client_id, cause.host or "") for cause in finding.causes if cause.client_id}
    gone = {(member.client_id, member.host) for member in finding.members if member.role in _GONE}
    return named | gone


def newest(told: Sequence[Finding], limit: int) -> list[Any]:
    """Return the newest of the findings, oldest first in `told`, as the JSON that docs/findings.md describes.

    The newest comes first; fewer than `limit` where they are large.
    """
    return within(map(to_dict, reversed(told[-limit:])))
