"""Silences that a coordinator's move explains: delayed until a whole session has passed after the move.

A move gives every member a fresh session, so a silence that began before it is no evidence for so long. The
same holds for a coordinator that does not answer. A silence that lasts is published then, once the records of
that session are read. A record of the group, or another move, decides it sooner.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.finding import Finding, from_json, to_json
from rebalance_monitor.coordinator.refine.refinement import LOOKED_MS, session_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.probe.answers import Unanswered
    from rebalance_monitor.coordinator.probe.coordinator_moves import Moves

MAX_HELD = 1_000

# One sample may fail for reasons of the monitor's own.
_LOOKS = 2


class HeldBack:
    """Remembers them; `state` is what `snapshot` returned."""

    def __init__(self, state: Iterable[str] = ()) -> None:
        held = [from_json(text) for text in state]
        self._held = {finding.incident or "": finding for finding in held}

    def snapshot(self) -> list[str]:
        """JSON-able memory for the ledger."""
        return [to_json(finding) for finding in self._held.values()]

    def keep(self, finding: Finding) -> None:
        """Hold the opening of a silence back; what goes on with one says nothing new until then."""
        if finding.phase == "opened":
            self._held.setdefault(finding.incident or "", finding)
        while len(self._held) > MAX_HELD:
            del self._held[next(iter(self._held))]

    def drop(self, finding: Finding) -> None:
        """Forget a silence that goes on, or ends, with this finding."""
        self._held.pop(finding.incident or "", None)

    def forget(self, shard: int) -> None:
        """Forget the silences of a shard."""
        self._held = {name: finding for name, finding in self._held.items() if finding.shard != shard}

    def due(
        self, samples: Sequence[int], moves: Moves, unanswered: Unanswered, read: Mapping[int, int]
    ) -> list[Finding]:
        """Return the silences that have lasted one session timeout since the move, by the last of `samples`.

        `read`: shard -> time (ms) up to which its records are read.
        """
        kept = []
        for incident, finding in list(self._held.items()):
            lost = _lost(samples, unanswered, moves.leader(finding.shard))
            marks = [at for at in lost if at > moves.at(finding.shard)]
            since = marks[-1] if len(marks) >= _LOOKS else moves.at(finding.shard)
            deadline = since + session_of(finding)
            # The records that were read may lag behind the sample.
            known = min(samples[-1], read.get(finding.shard if finding.shard is not None else -1, -1))
            if samples[-1] not in lost and known >= deadline + LOOKED_MS:
                del self._held[incident]
                kept.append(_late(finding, deadline))
        return kept


def _lost(samples: Sequence[int], unanswered: Unanswered, leader: int | None) -> list[int]:
    """Return the samples that the coordinator `leader` did not answer."""
    answered = set(unanswered.by(leader, samples))
    return [at for at in samples if at not in answered]


def _late(finding: Finding, at: int) -> Finding:
    """Return a silence as it is published at `at` (ms), one session timeout after the move."""
    later = at - finding.at
    silence = int(finding.details.get("silence_ms", 0)) + later
    members = tuple(
        replace(one, silence_ms=one.silence_ms + later) if one.silence_ms is not None else one
        for one in finding.members
    )
    details = finding.details | {"deadline_at": at, "silence_ms": silence}
    return replace(finding, at=at, opened_at=at, members=members, details=details)
