"""Assignments that are spread worse than the sticky assignors would spread them.

Where all members subscribe to the same topics, a spread of at most one partition between the busiest and the
idlest member is always possible, so a wider one is skewed (6 against 4 for two co-subscribed topics of eight
partitions under Range with three members). Silent in the first phase of a cooperative rebalance, where
partitions are withheld, for unequal subscriptions, and for protocols it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.kinds import Kind

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings import Finding
    from rebalance_monitor.coordinator.scene import Scene
    from rebalance_monitor.coordinator.state import GroupState

_KNOWN = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
_FAIR = 1


def judge(state: GroupState, scene: Scene) -> list[Finding]:
    """Open, or resolve, the group's skew after a completed generation."""
    counts = [len(member.offsets) for member in state.members]
    if not _comparable(state, counts):
        return []
    skewed = max(counts) - min(counts) > _FAIR
    if skewed == bool(state.skew_id):
        return []
    phase = "opened" if skewed else "resolved"
    incident = state.skew_id or scene.identify(Kind.ASSIGNMENT_SKEWED, phase="opened")
    state.skew_id = incident if skewed else ""
    return [
        scene.find(
            Kind.ASSIGNMENT_SKEWED,
            state,
            at=state.ts,
            evidence="derived",
            phase=phase,
            incident=incident,
            resolution=None if skewed else "completed",
            details={"most": max(counts), "least": min(counts), "idle": counts.count(0)},
        )
    ]


def _comparable(state: GroupState, counts: list[int]) -> bool:
    """Whether an even spread was possible and everything was handed out."""
    same = len({member.subscribed for member in state.members}) == 1
    known = state.protocol in _KNOWN and same and bool(state.members[0].subscribed)
    return known and sum(counts) == sum(state.totals)
