"""Suppressed incidents: their opening was not published, because probe samples contradict it.

Their end is suppressed too. An update of such an incident is published, and then its end is as well. If the
opening was published, because the probe had no samples yet, its end is published whatever samples show then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding

MAX_SUPPRESSED = 10_000


class Suppressed:
    """Remembers them; `state` is what `snapshot` returned, None for a new start."""

    def __init__(self, state: Mapping[str, int | None] | None = None) -> None:
        self._incidents: dict[str, int | None] = dict(state or {})

    def snapshot(self) -> dict[str, int | None]:
        """JSON-able memory for the ledger: incident -> its shard."""
        return dict(self._incidents)

    def forget(self, shard: int) -> None:
        """Forget the incidents of a shard."""
        self._incidents = {name: one for name, one in self._incidents.items() if one != shard}

    def keep(self, finding: Finding) -> None:
        """Note a suppressed finding."""
        if finding.phase == "opened" and finding.incident:
            self._incidents[finding.incident] = finding.shard
            while len(self._incidents) > MAX_SUPPRESSED:
                del self._incidents[next(iter(self._incidents))]

    def publish(self, finding: Finding) -> None:
        """Note that the incident is published after all."""
        self._incidents.pop(finding.incident or "", None)

    def ends(self, finding: Finding) -> bool:
        """Whether the finding only ends a suppressed incident."""
        known = finding.incident in self._incidents
        if known and finding.phase in {"updated", "resolved"}:
            del self._incidents[finding.incident or ""]
        return known and finding.phase == "resolved"
