"""Open and lately closed incidents, folded from findings that have phases (opened, updated, resolved)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.kinds import Kind

CLOSED_KEPT = 500


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident. id: of its opening finding. latest: the newest. closed_at: ms, None while open."""

    id: str
    kind: Kind
    group: str | None
    opened_at: int
    latest: Finding
    findings: int = 1
    closed_at: int | None = None


@dataclass(frozen=True, slots=True)
class Incidents:
    """By id; open ones in the order of opening, closed ones in the order of closing, the newest kept."""

    open: Mapping[str, Incident] = field(default_factory=dict)
    closed: Mapping[str, Incident] = field(default_factory=dict)

    def get(self, identity: str) -> Incident | None:
        """Return the incident, open or closed; None for one never heard of, or too long ago."""
        return self.open.get(identity) or self.closed.get(identity)

    def of(self, group: str) -> tuple[Incident, ...]:
        """Return the open incidents of one group."""
        return tuple(incident for incident in self.open.values() if incident.group == group)

    def after(self, findings: Iterable[Finding]) -> Incidents:
        """Return the incidents after the phases of `findings`."""
        phased = [finding for finding in findings if finding.phase]
        if not phased:
            return self
        still, closed = dict(self.open), dict(self.closed)
        for finding in phased:
            identity = finding.incident or finding.id
            before = still.pop(identity, None)
            if finding.phase == "resolved":
                closed[identity] = replace(_joined(before, finding, identity), closed_at=finding.at)
            else:
                still[identity] = _joined(before, finding, identity)
        return Incidents(still, dict(list(closed.items())[-CLOSED_KEPT:]))

    def without(self, groups: Iterable[str]) -> Incidents:
        """Return these without the open ones of groups that are gone."""
        gone = frozenset(groups)
        if not gone or not any(incident.group in gone for incident in self.open.values()):
            return self
        return replace(self, open={name: one for name, one in self.open.items() if one.group not in gone})


def _joined(before: Incident | None, finding: Finding, identity: str) -> Incident:
    if before is None:
        opened = finding.at if finding.opened_at is None else finding.opened_at
        return Incident(identity, finding.kind, finding.group, opened, finding)
    return replace(before, latest=finding, findings=before.findings + 1)


def by_group(incidents: Iterable[Incident]) -> Mapping[str, list[Incident]]:
    """Return the incidents of each group; incidents that are about no single group are left out."""
    found: defaultdict[str, list[Incident]] = defaultdict(list)
    for incident in incidents:
        if incident.group is not None:
            found[incident.group].append(incident)
    return found
