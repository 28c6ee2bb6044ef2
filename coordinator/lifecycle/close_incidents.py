"""Resolves all open incidents of a group when its state ends: nothing later could resolve them.

The state of a group ends when the group is removed, moves to the other protocol or is retired. It also ends
when a record shows that the known state is another group's: the record is of another type without a tombstone
between, or no group makes that transition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.checks import assignment, unsubscribed_topics
from rebalance_monitor.coordinator.deadlines import silent_members, stuck_rebalances
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lifecycle import empty_groups
from rebalance_monitor.coordinator.state.group_state import GroupState
from rebalance_monitor.coordinator.storms import storm as storm_module

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Details, Finding


def begin_anew(state: GroupState, scene: Scene, group_type: str) -> list[Finding]:
    """Resolve all open incidents and forget the state: the group turns out to be another one."""
    found = ended(state, scene, "withdrawn") if state.group_type else []
    _forget(state, group_type)
    return found


def _forget(state: GroupState, group_type: str) -> None:
    """Forget what was known of a group that turns out to be another one, or of another type."""
    if not state.group_type:
        # No record of the group was read before: its commits and positions stay.
        state.group_type, state.dirty = group_type, True
        return
    fresh = GroupState(
        group_type=group_type, last_summary=state.last_summary, dirty=True, positions=state.positions
    )
    for name in GroupState.__struct_fields__:
        setattr(state, name, getattr(fresh, name))


def ended(state: GroupState, scene: Scene, resolution: str) -> list[Finding]:
    """Close all that the group has open, before its state is forgotten."""
    found = empty_groups.resolve_expiring(state, scene, resolution) + stuck_rebalances.settle(
        state, scene, "withdrawn"
    )
    found += unsubscribed_topics.close(state, scene, resolution)
    found += silent_members.resolve_departed(state, state, scene, [])
    empty, checks = state.empty, state.checks
    rule, _, skewed = checks.skewed.partition("/")
    storm = state.storm.incident if storm_module.is_open(state.storm) else ""
    held: list[tuple[Kind, str, int, Details]] = [
        (Kind.GROUP_EMPTY, empty.incident, empty.at, {"empty_ms": max(0, scene.ts - empty.at)}),
        (Kind.STORM, storm, state.storm.opened_at, {"total": state.storm.total}),
        (Kind.ASSIGNMENT_SKEWED, skewed, checks.skewed_at, {"rule": rule}),
        (Kind.GROUP_TOO_LARGE, checks.too_large, checks.too_large_at, {}),
        (Kind.PARTITIONS_UNASSIGNED, checks.unassigned, checks.unassigned_at, {}),
    ]
    return found + [_closed(state, scene, *one, resolution) for one in held if one[1]]


def _closed(
    state: GroupState,
    scene: Scene,
    kind: Kind,
    incident: str,
    opened_at: int,
    details: Details,
    resolution: str,
) -> Finding:
    skewed = kind is Kind.ASSIGNMENT_SKEWED
    return scene.resolve(
        kind,
        state,
        incident,
        resolution,
        at=scene.ts,
        severity=assignment.severity_of_skew(str(details["rule"])) if skewed else None,
        opened_at=opened_at,
        details=details,
    )
