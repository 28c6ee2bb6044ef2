"""Which groups the probe may see: ListGroups leaves out what may not be seen, without any error.

At the start and every few minutes one look lists all groups. Groups that the topic says are alive and that
are missing there open `monitor_degraded` (probe_partial); for them what commits suggest is not overruled by
the probe. A listing that some broker did not answer says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.rollup import degraded

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rebalance_monitor.coordinator.findings import Details, Finding
    from rebalance_monitor.coordinator.sightings import Sighting

MAX_UNSEEN = 1_000
SETTLED_MS = 30_000
"""A group whose record is younger than this may be newer than the listing."""


class Visibility:
    """What the last listing left out; `state` is what `snapshot` returned, None for a new start."""

    def __init__(self, cluster: str, state: Mapping[str, Any] | None = None) -> None:
        memory = state or {}
        self._cluster = cluster
        self._opened: int = int(memory.get("opened", -1))
        self._unseen: list[str] = list(memory.get("unseen", ()))

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {"opened": self._opened, "unseen": self._unseen}

    def sees(self, group: str) -> bool:
        """Whether the brokers list the group to us, as far as is known."""
        return group not in self._unseen

    def on_look(self, look: Sighting, alive: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
        """Compare a listing with the groups alive by the topic: group -> its summary."""
        if look.listed is None or not all(answered for _, answered in look.brokers):
            return []
        expected = [name for name, summary in alive.items() if _is_alive(summary, look.at)]
        # Of no group is anything known yet: what an earlier listing left out is still left out.
        if not expected:
            return []
        return self._turn(look.at, sorted(set(expected) - look.listed), expected)

    def _turn(self, at: int, unseen: list[str], expected: Collection[str]) -> list[Finding]:
        self._unseen = unseen[:MAX_UNSEEN]
        if bool(unseen) == (self._opened >= 0):
            return []
        seen = len(expected) - len(unseen)
        why = f"the brokers list {seen} of {len(expected)} groups that the topic says are alive"
        opened, phase = (at, "opened") if unseen else (self._opened, "resolved")
        self._opened = at if unseen else -1
        details: Details = {"seen": seen, "expected": len(expected)}
        if unseen:
            details["missing"] = unseen[0]
        return [
            degraded(
                self._cluster,
                Cause.PROBE_PARTIAL,
                why,
                opened_at=opened,
                at=at,
                phase=phase,
                details=details,
            )
        ]


def _is_alive(summary: Mapping[str, Any], now: int) -> bool:
    return (
        summary.get("state") not in {"Empty", "Dead", None} and int(summary.get("at", 0)) < now - SETTLED_MS
    )
