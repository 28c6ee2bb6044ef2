"""One storm is one incident, whoever sees it first.

The probe may open a storm before enough generations have completed for the records to tell. When they do,
what they tell goes on with the probe's incident: their `opened` becomes an update of it, and their end is its
end. Ids stay what the records made them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings import Finding
    from rebalance_monitor.coordinator.watched import Watched


class OneStorm:
    """Knows which storms of the records go on with the probe's; `state` is what `snapshot` returned."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        # The records' incident -> the probe's and when that opened (ms).
        self._joined = msgspec.convert(dict(state or {}), dict[str, tuple[str, int]])

    def snapshot(self) -> dict[str, list[Any]]:
        """JSON-able memory for the ledger."""
        return {incident: list(probed) for incident, probed in self._joined.items()}

    def take(self, finding: Finding, group: Watched | None) -> Finding:
        """Return a finding as it is told; `group`: what the probe knows of its group, changed here."""
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
        if probed == incident:
            return finding
        return replace(finding, incident=probed, opened_at=opened_at)
