"""What looks of the probe add to a finding that records or the clock decided; ids never change.

Bounds of a join phase: it began after the last look that did not see the group rebalancing and before the
first that did. A coordinator that moved gives every member a fresh session, so silence that began before the
move says nothing until a whole session timeout has passed after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import CauseEntry, Finding
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.reasons import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

AFTER_MOVE_MS = 30_000
"""A rebalance among the same members this soon after a move is most likely caused by it."""


def refine(finding: Finding, sightings: Sequence[int], looks: Sequence[int], moved_at: int) -> Finding | None:
    """Return the finding with what the looks add, or None where a coordinator move explains it away."""
    if _excused(finding, moved_at):
        return None
    if finding.kind is not Kind.REBALANCE:
        return finding
    return _moved(_bounded(finding, sightings, looks), moved_at)


def _excused(finding: Finding, moved_at: int) -> bool:
    if finding.kind is not Kind.MEMBER_SILENT or finding.phase != "opened" or moved_at < 0:
        return False
    session = int(finding.details.get("session_timeout_ms", 0))
    return moved_at <= finding.at < moved_at + session


def _bounded(finding: Finding, sightings: Sequence[int], looks: Sequence[int]) -> Finding:
    low, high = finding.started_at_min, finding.started_at_max
    if low is None or high is None or finding.sync_ms is None:
        return finding
    ended = finding.at - finding.sync_ms
    seen = [at for at in sightings if low < at <= ended]
    if not seen:
        return finding
    first = seen[0]
    before = max((at for at in looks if at < first), default=low)
    low, high = max(low, before), min(high, first)
    return replace(
        finding,
        started_at_min=low,
        started_at_max=high,
        join_ms_min=max(0, ended - high),
        join_ms_max=max(0, ended - low),
    )


def _moved(finding: Finding, moved_at: int) -> Finding:
    apart = finding.at - moved_at
    same = bool(finding.causes) and finding.causes[0].cause is Cause.LEADER_REJOINED
    if moved_at < 0 or not same or not 0 <= apart <= AFTER_MOVE_MS:
        return finding
    why = f"same members {seconds(apart)} after their coordinator moved"
    rest = tuple(
        replace(entry, confidence=0.1)
        for entry in finding.causes
        if entry.cause not in {Cause.COORDINATOR_MOVED, Cause.UNKNOWN}
    )
    return replace(finding, causes=(CauseEntry(Cause.COORDINATOR_MOVED, 0.85, why), *rest))
