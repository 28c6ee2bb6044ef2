"""Findings that looks of the probe decide by themselves, from what is remembered of a group (`looks.py`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator import looks
from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import CauseEntry, Finding, finding_id, probe_anchor
from rebalance_monitor.coordinator.kinds import KINDS, Kind, Scope
from rebalance_monitor.coordinator.reasons import seconds

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings import Details
    from rebalance_monitor.coordinator.settings import DetectionSettings


@dataclass(frozen=True, slots=True)
class Probed:
    """Makes them; the incident of each is kept in the group's memory, which it changes."""

    settings: DetectionSettings
    cluster: str

    def progress(self, name: str, memory: dict[str, Any], at: int, phase: str, state: str) -> Finding:
        """Tell that the group was seen rebalancing, or is no more."""
        found = self._find(Kind.REBALANCE_IN_PROGRESS, name, memory, at, phase, "open", state)
        duration = at - memory["opened"]
        return replace(found, details={"sightings": memory["count"], "duration_ms": duration})

    def stuck(self, name: str, memory: dict[str, Any], at: int, phase: str, state: str) -> Finding:
        """Tell that one barrier lasts for too long, or is over."""
        found = self._find(Kind.REBALANCE_STUCK, name, memory, at, phase, "stuck", state)
        duration = looks.stuck_for(memory, at)
        why = f"seen rebalancing without a completed generation for {seconds(duration)}"
        details: Details = {
            "sightings": memory["count"],
            "duration_ms": duration,
            "threshold_ms": self.settings.for_group(name).stuck_after_ms,
        }
        return replace(found, details=details, causes=(CauseEntry(Cause.UNKNOWN, 1.0, why),))

    def storm(self, name: str, memory: dict[str, Any], at: int, phase: str) -> Finding:
        """Tell that the group is seen rebalancing too often, or no longer."""
        found = self._find(Kind.STORM, name, memory, at, phase, "storm", "PreparingRebalance")
        window = self.settings.for_group(name).storm_sightings_window_ms
        details: Details = {
            "count": looks.after(memory["counted"], at - window),
            "window_ms": window,
            "rule": "sightings",
        }
        if phase == "opened":
            memory["storm_at"] = memory["opened"]
        return replace(found, details=details, opened_at=memory["storm_at"])

    def _find(
        self, kind: Kind, name: str, memory: dict[str, Any], at: int, phase: str, slot: str, state: str
    ) -> Finding:
        anchor = f"{probe_anchor(memory['generation'])}/{memory['opened']}"
        incident = memory[slot] or finding_id(self.cluster, kind, name, anchor, phase="opened")
        memory[slot] = incident
        resolved = phase == "resolved"
        default = KINDS[kind].severity
        return Finding(
            id=finding_id(self.cluster, kind, name, anchor, phase=phase),
            kind=kind,
            scope=Scope.GROUP,
            severity=self.settings.severity_of(kind, name, default),
            evidence="read",
            cluster=self.cluster,
            group=name,
            group_type=memory["type"] or None,
            protocol_type=memory["protocol_type"] or None,
            state=state,
            generation=memory["generation"],
            at=at,
            incident=incident,
            phase=phase,
            opened_at=memory["opened"],
            resolution=("quiet" if kind is Kind.STORM else "completed") if resolved else None,
            details={},
        )
