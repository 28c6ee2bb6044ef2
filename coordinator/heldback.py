"""Silences that a coordinator's move explains, held back until a whole session has passed after it.

A move gives every member a fresh session, so a silence that began before it says nothing for so long. If it
lasts it is told then. What its group's records say of it meanwhile, or another move, decides it first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings import Finding, from_json, to_json
from rebalance_monitor.coordinator.refinement import LOOKED_MS, session_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.moves import Moves

MAX_HELD = 1_000


class HeldBack:
    """Remembers them; `state` is what `snapshot` returned."""

    def __init__(self, state: Iterable[str] = ()) -> None:
        held = [from_json(text) for text in state]
        self._held = {finding.incident or "": finding for finding in held}

    def snapshot(self) -> list[str]:
        """JSON-able memory for the ledger."""
        return [to_json(finding) for finding in self._held.values()]

    def keep(self, finding: Finding) -> None:
        """Hold a silence back as it was told first."""
        self._held.setdefault(finding.incident or "", finding)
        while len(self._held) > MAX_HELD:
            del self._held[next(iter(self._held))]

    def drop(self, finding: Finding) -> None:
        """Forget a silence that goes on, or ends, with this finding."""
        self._held.pop(finding.incident or "", None)

    def due(self, at: int, moves: Moves) -> list[Finding]:
        """Return those that have lasted for a session after the last move, as a look at `at` (ms) finds."""
        told = []
        for incident, finding in list(self._held.items()):
            deadline = moves.at(finding.shard) + session_of(finding)
            # What was read may lag behind the look.
            if at >= deadline + LOOKED_MS:
                del self._held[incident]
                details = finding.details | {"deadline_at": deadline}
                told.append(replace(finding, at=deadline, opened_at=deadline, details=details))
        return told
