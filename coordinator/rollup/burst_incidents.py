"""Incidents of bursts: what happens to many groups at once is one incident of the cluster until it is quiet.

The first burst opens it. A burst that grows updates it, and so does the next burst of its kind, as when
brokers restart one after the other. An update has the highest severity so far. It lists the groups of all
bursts, because that list suppresses the groups' own alerts. The incident resolves after the quiet time
without a burst, counted between the times of findings; the clock resolves it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.finding import MAX_GROUPS, finding_id, incident_id, make
from rebalance_monitor.coordinator.findings.kinds import Scope, Severity, louder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.kinds import Kind


class Open(msgspec.Struct):
    """One open incident: when it opened, what it last reported (ms), and what its end repeats.

    `anchor`: of its newest burst; `before`, `total_before`: the groups of the bursts before.
    """

    incident: str
    opened: int
    last: int
    groups: list[str]
    total: int
    severity: Severity
    sequence: int = 0
    anchor: str = ""
    before: list[str] = []
    total_before: int = 0

    def add(self, finding: Finding, anchor: str, last: int) -> None:
        """Take what a burst reports now; `last`: its newest group, ms."""
        if anchor != self.anchor:
            self.anchor, self.before, self.total_before = anchor, self.groups, self.total
        both = {*self.before, *finding.groups}
        again = len(self.before) + len(finding.groups) - len(both)
        self.groups = sorted(both)[:MAX_GROUPS]
        self.total = self.total_before + finding.groups_total - again
        self.last = max(self.last, last)
        self.severity = louder(self.severity, finding.severity)

    def set_back(self, now: int) -> None:
        """Go on from `now` where the clock that saw the rest was ahead of it."""
        self.opened, self.last = min(self.opened, now), min(self.last, now)


class BurstIncidents:
    """One a kind at most; `state` is what `snapshot` returned, None for a new start."""

    def __init__(self, cluster: str, state: Mapping[str, Any] | None = None) -> None:
        self._cluster = cluster
        self._open = msgspec.convert(dict(state or {}), dict[str, Open])

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        found: dict[str, Any] = msgspec.to_builtins(self._open)
        return found

    def set_back(self, now: int) -> None:
        """Go on from `now` where the clock was ahead of it."""
        for one in self._open.values():
            one.set_back(now)

    def of_kinds(self) -> list[str]:
        """Return the kinds of the open ones."""
        return list(self._open)

    def as_incident(self, finding: Finding, anchor: str, last: int) -> Finding:
        """Return a burst's finding as one of its incident; `last`: its newest group, ms."""
        kind, phase = finding.kind, "updated"
        one = self._open.get(kind)
        if one is None:
            phase, opened = "opened", finding.at if finding.opened_at is None else finding.opened_at
            incident = incident_id(self._cluster, kind, Scope.CLUSTER.value, anchor)
            one = self._open[kind] = Open(incident, opened, last, [], 0, finding.severity)
        identity = one.incident
        if phase == "updated":
            one.sequence += 1
            identity = finding_id(
                self._cluster, kind, Scope.CLUSTER.value, one.incident, phase=phase, sequence=one.sequence
            )
        one.add(finding, anchor, last)
        causes = finding.causes
        if one.total > finding.groups_total:
            # The sentence counts the groups of this burst alone.
            since = f"; {one.total:,} groups in all since the first of them"
            causes = tuple(replace(entry, why=f"{entry.why}{since}") for entry in causes)
        return replace(
            finding,
            causes=causes,
            id=identity,
            incident=one.incident,
            phase=phase,
            opened_at=one.opened,
            severity=one.severity,
            groups=tuple(one.groups),
            groups_total=one.total,
        )

    def over(self, kind: Kind, now: int, quiet_ms: int) -> list[Finding]:
        """Resolve the incident of this kind, if it has been quiet for that long at `now` (ms)."""
        one = self._open.get(kind)
        if one is None or now < one.last + quiet_ms:
            return []
        del self._open[kind]
        return [
            make(
                kind,
                cluster=self._cluster,
                anchor=one.incident,
                scope=Scope.CLUSTER,
                severity=one.severity,
                phase="resolved",
                sequence=one.sequence,
                incident=one.incident,
                evidence="suspected",
                confidence=0.8,
                groups=tuple(one.groups),
                groups_total=one.total,
                at=one.last + quiet_ms,
                opened_at=one.opened,
                resolution="quiet",
                details={},
            )
        ]
