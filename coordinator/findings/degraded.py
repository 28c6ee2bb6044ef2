"""Findings about the monitor itself (`monitor_degraded`), made in one place for whoever notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, finding_id
from rebalance_monitor.coordinator.findings.kinds import KINDS, Kind, Scope, Severity

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Details


def degraded(
    cluster: str,
    cause: Cause,
    why: str,
    *,
    opened_at: int,
    at: int,
    phase: str,
    details: Details,
    sequence: int = 0,
) -> Finding:
    """Make a finding about the monitor itself; `cause`: a cause of monitor_degraded; times in ms.

    `sequence` counts the updates of an incident.
    """
    kind = Kind.MONITOR_DEGRADED
    anchor = f"degraded/{cause}/{opened_at}"
    return Finding(
        id=finding_id(cluster, kind, "monitor", anchor, phase=phase, sequence=sequence),
        kind=kind,
        scope=Scope.MONITOR,
        severity=Severity.CRITICAL if cause is Cause.BLIND else KINDS[kind].severity,
        evidence="read",
        cluster=cluster,
        at=at,
        causes=(CauseEntry(cause, 1.0, why),),
        incident=finding_id(cluster, kind, "monitor", anchor, phase="opened"),
        phase=phase,
        opened_at=opened_at,
        resolution="quiet" if phase == "resolved" else None,
        details={"cause": cause.value, **details},
    )
