"""Incidents as rows and pages: what it is, since when, why, which member is behind it, what was published."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import HELD_BY, to_dict
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.storms.offenders import main_offender
from rebalance_monitor.dashboard.web.views.budget import within
from rebalance_monitor.dashboard.web.views.events import SETTLED_MS, event_row, events_of
from rebalance_monitor.dashboard.web.views.trouble import LOUDNESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.incidents import Incident
    from rebalance_monitor.dashboard.view.snapshot import Known
    from rebalance_monitor.dashboard.web.views.shapes import (
        IncidentDetail,
        IncidentRow,
        Offender,
        WorstOffender,
    )

AROUND_MS = 60_000
MAX_FINDINGS = 200
MAX_OFFENDERS = 8


class Part(StrEnum):
    """What a client has to do with an incident."""

    WAITED_FOR = "waited_for"
    WORST = "worst"
    SILENT = "silent"
    LEFT = "left"
    NAMED = "named"
    REPLACED = "replaced"
    JOINED = "joined"


_RANK = tuple(Part)
_PART_OF_ROLE = {"left": Part.LEFT, "replaced": Part.REPLACED, "joined": Part.JOINED}
_WAITING = frozenset({Kind.REBALANCE_STUCK, Kind.REBALANCE_IN_PROGRESS})
_PART_OF_KIND = {**dict.fromkeys(_WAITING, Part.WAITED_FOR), Kind.MEMBER_SILENT: Part.SILENT}
_GENERATIONS = frozenset({Kind.REBALANCE, Kind.GROUP_EMPTY})
_ENDED_BY_GENERATION = _WAITING | {Kind.MEMBER_SILENT, Kind.GROUP_EMPTY}


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
        "worst": _worst(latest),
        "details": dict(latest.details),
    }


def _worst(latest: Finding) -> WorstOffender | None:
    worst = main_offender(latest.details)
    if worst is None:
        return None
    return {"client_id": worst.client_id, "host": worst.host, "share": worst.share}


def in_order(known: Known) -> list[Incident]:
    """Return open incidents, the worst and then the newest first, then closed ones, the newest first."""
    opened = sorted(
        known.incidents.open.values(),
        key=lambda one: (LOUDNESS[one.latest.severity], -one.opened_at, one.id),
    )
    closed = sorted(known.incidents.closed.values(), key=lambda one: (-(one.closed_at or 0), one.id))
    return [*opened, *closed]


def incident_detail(
    incident: Incident, findings: Sequence[Finding], now: int, *, live: bool
) -> IncidentDetail:
    """Return the page of one incident; `findings`: those of its group, or of no group, oldest first."""
    own = [finding for finding in findings if incident.id in {finding.incident, finding.id}]
    last = max((finding.at for finding in findings), default=now)
    end = max(now, last) if incident.closed_at is None else incident.closed_at
    near = range(incident.opened_at - AROUND_MS, end + AROUND_MS + 1)
    around = [finding for finding in findings if finding.at in near and finding not in own]
    ended_by = ending(incident, findings)
    return {
        "now": now,
        "live": live,
        "incident": incident_row(incident),
        "findings": newest(own, MAX_FINDINGS)[::-1],
        "around": newest(around, MAX_FINDINGS)[::-1],
        "events": [event_row(event) for event in events_of(around)][:MAX_FINDINGS],
        "ended_by": None if ended_by is None else newest([ended_by], 1)[0],
        "offenders": offenders([*own, *around]),
    }


def offenders(findings: Iterable[Finding]) -> list[Offender]:
    """Return the clients that the findings name, each as what it is: those waited for or gone first."""
    blamed = [parts for finding in findings if (parts := _parts(finding))]
    counts = Counter(client for parts in blamed for client in parts)
    roles: dict[tuple[str, str], Part] = {}
    for client, part in (one for parts in blamed for one in parts.items()):
        roles[client] = min(part, roles.get(client, part), key=_RANK.index)
    ranked = sorted(counts, key=lambda client: (_RANK.index(roles[client]), -counts[client], client))
    return [
        {
            "client_id": client[0],
            "host": client[1],
            "role": roles[client].value,
            "findings": counts[client],
            "of": len(blamed),
        }
        for client in ranked[:MAX_OFFENDERS]
    ]


def _parts(finding: Finding) -> dict[tuple[str, str], Part]:
    """Return what each client that a finding names has to do with it; one that only stayed has nothing."""
    found: dict[tuple[str, str], Part] = {}

    def take(client: tuple[str, str], part: Part) -> None:
        found[client] = min(part, found.get(client, part), key=_RANK.index)

    held_by = finding.details.get(HELD_BY)
    for member in finding.members:
        role = _PART_OF_KIND.get(finding.kind) or _PART_OF_ROLE.get(member.role)
        role = Part.WAITED_FOR if member.member_id == held_by else role
        if role is not None:
            take((member.client_id, member.host), role)
    for cause in finding.causes:
        if cause.client_id and cause.cause is not Cause.FIRST_START:
            came = cause.cause is Cause.MEMBER_JOINED
            take((cause.client_id, cause.host or ""), Part.JOINED if came else Part.NAMED)
    worst = finding.details.get("worst_client")
    if worst:
        part = Part.WORST if main_offender(finding.details) else Part.NAMED
        take((str(worst), str(finding.details.get("worst_host", ""))), part)
    return found


def ending(incident: Incident, findings: Iterable[Finding]) -> Finding | None:
    """Return the generation that ended an incident of a group: the last one until it was found to be over.

    A probe sample sees the end after the record; a group that is empty has members again with the generation.
    """
    if incident.closed_at is None or incident.group is None or incident.kind not in _ENDED_BY_GENERATION:
        return None
    near = [
        one
        for one in findings
        if one.kind in _GENERATIONS
        and one.phase in {None, "opened"}
        and incident.opened_at < one.at <= incident.closed_at + SETTLED_MS
    ]
    return max(near, key=lambda one: one.at, default=None)


def newest(findings: Sequence[Finding], limit: int) -> list[Any]:
    """Return the newest `findings`, given oldest first, as the JSON that docs/findings.md describes.

    The newest comes first; fewer than `limit` where they are large.
    """
    return within(map(to_dict, reversed(findings[-limit:])))
