"""Findings of lag, and its open incidents: one partition stands for all that an incident is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.finding import Incident, end_of, make

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
    from rebalance_monitor.coordinator.settings import DetectionSettings


class Open(Incident, array_like=True):
    """An open incident, the partition that it was opened for, and the members that own it."""

    topic: str
    partition: int
    offset: int
    members: tuple[str, ...] = ()


def lag_finding(
    settings: DetectionSettings,
    cluster: str,
    kind: Kind,
    group: str,
    anchor: str,
    at: int,
    severity: Severity | None = None,
    **fields: Any,  # noqa: ANN401 - the remaining fields of Finding, checked by its constructor
) -> Finding:
    """Make a finding of lag."""
    return make(
        kind,
        cluster=cluster,
        anchor=anchor,
        group=group,
        overrides=settings.severity_of,
        severity=severity,
        evidence="derived",
        at=at,
        **fields,
    )


def lag_resolved(
    settings: DetectionSettings,
    cluster: str,
    kind: Kind,
    group: str,
    known: Incident,
    at: int,
    resolution: str,
    **fields: Any,  # noqa: ANN401 - as above
) -> Finding:
    """Make the finding that ends the incident `known`, at `at` (ms)."""
    return lag_finding(
        settings,
        cluster,
        kind,
        group,
        end_of(known.incident),
        at,
        phase="resolved",
        incident=known.incident,
        opened_at=known.opened_at,
        resolution=resolution,
        **fields,
    )


def place_of(known: Open) -> dict[str, Any]:
    """Return the fields that name the partition which an incident was opened for."""
    return {
        "topics": (known.topic,),
        "topics_total": 1,
        "details": {"topic": known.topic, "partition": known.partition},
    }
