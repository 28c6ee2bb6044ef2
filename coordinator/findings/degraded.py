"""Findings about the monitor itself (`monitor_degraded`), made in one place for all parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, make
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Details, Finding


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
    return make(
        Kind.MONITOR_DEGRADED,
        cluster=cluster,
        anchor=f"degraded/{cause}/{opened_at}",
        severity=Severity.CRITICAL if cause is Cause.BLIND else None,
        phase=phase,
        sequence=sequence,
        evidence="read",
        at=at,
        causes=(CauseEntry(cause, 1.0, why),),
        opened_at=opened_at,
        resolution="quiet" if phase == "resolved" else None,
        details={"cause": cause.value, **details},
    )
