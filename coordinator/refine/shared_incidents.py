"""One storm is one incident: probe and records share it, and it lasts as long as either shows the storm.

The probe may open a storm before enough generations have completed for the records to show it. When they do,
their `opened` becomes an update of the probe's incident, and their end resolves it. If no more generations
complete but samples show that the storm goes on, that end is not published: the incident belongs to the probe
then. Findings keep the ids that the records gave them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.probe.observed_group import Watched


class OneStorm:
    """Knows which storms of the records are open, and which of them go on with the probe's.

    `state` is what `snapshot` returned.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        memory = state or {}
        # The records' incident -> the probe's and when that opened (ms).
        self._joined = msgspec.convert(dict(memory.get("joined") or {}), dict[str, tuple[str, int]])
        # Group -> shard of the records that show its storm, None if unknown.
        self._recorded: dict[str, int | None] = dict(memory.get("recorded", ()))

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        joined = {incident: list(probed) for incident, probed in self._joined.items()}
        return {"joined": joined, "recorded": [[name, shard] for name, shard in self._recorded.items()]}

    def forget(self, shard: int | None = None) -> None:
        """Forget the storms of records, of one `shard` or of all: their state is built anew."""
        if shard is None:
            self._joined = {}
        self._recorded = {
            name: one for name, one in self._recorded.items() if shard is not None and one != shard
        }

    def is_recorded(self, group: str) -> bool:
        """Whether a storm that records opened is open."""
        return group in self._recorded

    def learn(self, finding: Finding) -> None:
        """Note the storms that records opened, so that none is opened twice."""
        if finding.kind is Kind.STORM and finding.phase == "resolved":
            self._recorded.pop(finding.group or "", None)
        elif finding.kind is Kind.STORM:
            self._recorded[finding.group or ""] = finding.shard

    def take(self, finding: Finding, group: Watched | None, *, goes_on: bool) -> Finding | None:
        """Return a finding as it is published, None for an end while samples show the storm.

        `group`: what the probe knows of its group, changed here; `goes_on`: samples still show a storm.
        """
        incident = finding.incident or ""
        if finding.kind is not Kind.STORM:
            return finding
        if finding.phase != "resolved" and group is not None and group.storm:
            self._joined[incident] = group.storm, group.storm_at
            group.storm = ""
            finding = replace(finding, phase="updated")
        probed, opened_at = self._joined.get(incident, (incident, finding.opened_at))
        if finding.phase == "resolved":
            self._joined.pop(incident, None)
            if group is not None and goes_on:
                group.storm, group.storm_at = probed, finding.at if opened_at is None else opened_at
                return None
            if group is not None:
                group.explain(-1, finding.at)
        if probed == incident:
            return finding
        return replace(finding, incident=probed, opened_at=opened_at)
