"""What happened while an incident was open: how many rebalances, which members, how many remain. Pure.

The dispatcher adds each live finding to the tallies of the open threads that concern its group, suppressed
ones too, so that the message that closes a thread can sum it up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.storms.offenders import is_main

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

MAX_OFFENDERS = 20
_COUNTED = {Kind.REBALANCE: "rebalances", Kind.REBALANCE_FAILED: "failed"}


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts since the thread opened; `stopped_ms` sums the upper bounds of how long consumption stood still.

    `offenders`: client id (else host) and in how many of the rebalances' causes it was named, most first; not
    as one that joined, because a newcomer is no offender.
    `members`: size of `group`, the first group that rebalanced, after the newest rebalance; `members_before`:
    before the first one.
    """

    rebalances: int = 0
    failed: int = 0
    stopped_ms: int = 0
    offenders: tuple[tuple[str, int], ...] = ()
    group: str | None = None
    members: int | None = None
    members_before: int | None = None

    @property
    def worst(self) -> tuple[str, int] | None:
        """The member that was named in most rebalances, None where that is less than a third of them."""
        total = self.rebalances + self.failed
        return next((one for one in self.offenders[:1] if is_main(one[1] / max(total, 1))), None)

    def add(self, finding: Finding) -> Tally:
        """Return the tally with this finding in it; only rebalances that completed or failed count."""
        counted = _COUNTED.get(finding.kind)
        if counted is None:
            return self
        stopped = self.stopped_ms + (finding.stopped_ms_max or 0)
        grown = {counted: getattr(self, counted) + 1}
        return replace(self._sized(finding), stopped_ms=stopped, offenders=self._blame(finding), **grown)

    def _sized(self, finding: Finding) -> Tally:
        """Take the size of the group that a completed rebalance left."""
        now, group = finding.members_total, finding.group
        if finding.kind is not Kind.REBALANCE or now is None or self.group not in {None, group}:
            return self
        joined, left = (finding.details.get(name, 0) for name in ("joined", "left"))
        changed = joined - left if isinstance(joined, int) and isinstance(left, int) else 0
        before = max(0, now - changed) if self.members_before is None else self.members_before
        return replace(self, group=group, members=now, members_before=before)

    def _blame(self, finding: Finding) -> tuple[tuple[str, int], ...]:
        causes = (entry for entry in finding.causes if entry.cause is not Cause.MEMBER_JOINED)
        named = {entry.client_id or entry.host for entry in causes} - {None, ""}
        counts = dict(self.offenders)
        for name in named:
            counts[str(name)] = counts.get(str(name), 0) + 1
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(ordered[:MAX_OFFENDERS])
