"""What happened while an incident was open: how many rebalances, and who was in most of them. Pure.

The dispatcher adds each live finding to the tallies of the open threads that concern its group, the ones
that an incident swallows too, so that the message that closes a thread can sum it up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

MAX_OFFENDERS = 20

_COUNTED = {Kind.REBALANCE: "rebalances", Kind.REBALANCE_FAILED: "failed"}


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts since the thread opened; `stopped_ms` sums the upper bounds of how long consumption stood still.

    `offenders`: client id (else host) and in how many of the rebalances' causes it was named, most first.
    """

    rebalances: int = 0
    failed: int = 0
    stopped_ms: int = 0
    offenders: tuple[tuple[str, int], ...] = ()

    def add(self, finding: Finding) -> Tally:
        """Return the tally with this finding in it; only rebalances that completed or failed count."""
        counted = _COUNTED.get(finding.kind)
        if counted is None:
            return self
        stopped = self.stopped_ms + (finding.stopped_ms_max or 0)
        grown = {counted: getattr(self, counted) + 1}
        return replace(self, stopped_ms=stopped, offenders=self._blame(finding), **grown)

    def _blame(self, finding: Finding) -> tuple[tuple[str, int], ...]:
        named = {entry.client_id or entry.host for entry in finding.causes} - {None, ""}
        counts = dict(self.offenders)
        for name in named:
            counts[str(name)] = counts.get(str(name), 0) + 1
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(ordered[:MAX_OFFENDERS])
