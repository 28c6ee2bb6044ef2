"""The end of what a group has open, where its state ends: nothing that comes later could close it.

A group's state ends when the group is removed, moves to the other protocol or is retired, and when a record
shows that what was known is another group's: of another type without a tombstone between, or by a transition
that no group makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator import barriers, silence, skew, storms, unsubscribed, vacancy
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.state import forget

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings import Details, Finding
    from rebalance_monitor.coordinator.scene import Scene
    from rebalance_monitor.coordinator.state import GroupState


def begin_anew(state: GroupState, scene: Scene, group_type: str) -> list[Finding]:
    """End what is open and forget what was known: the group turns out to be another one."""
    found = ended(state, scene, "withdrawn") if state.group_type else []
    forget(state, group_type)
    return found


def ended(state: GroupState, scene: Scene, resolution: str) -> list[Finding]:
    """Close all that the group has open, before its state is forgotten."""
    found = vacancy.resolve_expiring(state, scene, resolution) + barriers.settle(state, scene, "withdrawn")
    found += unsubscribed.close(state, scene, resolution)
    found += silence.resolve_departed(state, state, scene, [])
    rule, _, skewed = state.skew_id.partition("/")
    storm = state.storm.incident if storms.is_open(state.storm) else ""
    held: list[tuple[Kind, str, int | None, Details]] = [
        (Kind.GROUP_EMPTY, state.empty_id, state.empty_at, {"empty_ms": max(0, scene.ts - state.empty_at)}),
        (Kind.STORM, storm, state.storm.opened_at, {"total": state.storm.total}),
        (Kind.ASSIGNMENT_SKEWED, skewed, None, {"rule": rule}),
        (Kind.GROUP_TOO_LARGE, state.large_id, None, {}),
    ]
    return found + [_closed(state, scene, *one, resolution) for one in held if one[1]]


def _closed(
    state: GroupState,
    scene: Scene,
    kind: Kind,
    incident: str,
    opened_at: int | None,
    details: Details,
    resolution: str,
) -> Finding:
    return scene.find(
        kind,
        state,
        at=scene.ts,
        phase="resolved",
        severity=skew.severity(str(details["rule"])) if kind is Kind.ASSIGNMENT_SKEWED else None,
        incident=incident,
        opened_at=opened_at,
        resolution=resolution,
        details=details,
    )
