"""Makes findings, and names incidents: what one finding opens, others update and one resolves.

An incident has the id of the finding that opens it. So whoever knows what it was opened by can name it, and
the same evidence names the same incident under any batching, replay and restart. What resolves an incident
is anchored to what shows its end: a record, or the incident itself where only the clock or a sample does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.finding import Finding, finding_id
from rebalance_monitor.coordinator.findings.kind_table import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity

    Overrides = Callable[[Kind, str, Severity], Severity]
    """Kind, group and severity -> the severity that is configured for them (`severity_of`)."""

OPENED, UPDATED, RESOLVED = "opened", "updated", "resolved"


class Incident(msgspec.Struct, array_like=True):
    """What is kept of an open incident: its id, and since when (ms) it is open."""

    incident: str
    opened_at: int


def incident_id(cluster: str, kind: Kind, subject: str, anchor: str, member: str = "") -> str:
    """Return the id of the incident that a finding with these values opens."""
    return finding_id(cluster, kind, subject, anchor, member=member, phase=OPENED)


def end_of(incident: str) -> str:
    """Return the anchor of a finding that resolves an incident of which no record shows the end."""
    return f"{incident}/{RESOLVED}"


def make(
    kind: Kind,
    *,
    cluster: str,
    anchor: str,
    group: str | None = None,
    scope: Scope | None = None,
    overrides: Overrides | None = None,
    severity: Severity | None = None,
    member: str = "",
    phase: str | None = None,
    sequence: int = 0,
    incident: str | None = None,
    **fields: Any,  # noqa: ANN401 - the remaining fields of Finding, checked by its constructor
) -> Finding:
    """Make a finding of a `group`, or of the `scope` (by default the kind's) where there is none.

    `anchor`: what decided it, as `finding.py` names records, deadlines and samples; `member` and `sequence`
    tell findings of one anchor apart. `overrides` may change the severity, by default that of the kind.
    `incident`: the open one; without it a finding with a phase belongs to the one that its anchor opens.
    """
    spec = KINDS[kind]
    scope = scope or spec.scope
    subject = scope.value if group is None else group
    loud = severity or spec.severity
    if phase is not None and not incident:
        incident = incident_id(cluster, kind, subject, anchor, member)
    return Finding(
        id=finding_id(cluster, kind, subject, anchor, member=member, phase=phase or "", sequence=sequence),
        kind=kind,
        scope=scope,
        severity=loud if overrides is None or group is None else overrides(kind, group, loud),
        cluster=cluster,
        group=group,
        incident=incident,
        phase=phase,
        **fields,
    )
