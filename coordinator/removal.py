"""The end of a group: deleted, expired, or moved to the other protocol.

A tombstone alone does not show which. An online migration writes the tombstone of the old group and the
records of the new one as one run with one timestamp. So the next row of the shard that is no tombstone of
this run decides; without one, the clock does. All open incidents end with the state of the group, because
nothing later could resolve them. One exception: `group_empty` goes on, because a migration brings no members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.classic import classic_group
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import ASSUMED, seconds
from rebalance_monitor.coordinator.lifecycle import close_incidents, empty_groups
from rebalance_monitor.coordinator.modern import epoch_group
from rebalance_monitor.coordinator.state.group_state import Emptiness, GroupState, Rebalances
from rebalance_monitor.coordinator.state.state_machine import Status
from rebalance_monitor.decoders import rows

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.state.shard_state import PendingRemoval
    from rebalance_monitor.decoders import Row

CLOSES_AFTER_MS = 2_000
"""A run of records is complete once nothing followed it for this long."""

_SWEEP_MS = 600_000
_LEAST_RETENTION_MS = 60_000
"""Brokers keep offsets for a minute at least (`offsets.retention.minutes`)."""


def becomes(held: PendingRemoval, row: Row) -> str | None:
    """Return the type that the group goes on with, by the row after its tombstone; "" if it is removed.

    None if the row does not decide it: a streams group's own tombstone comes before that of its topology.
    """
    if row.row_kind != rows.RECORD or (row.group, row.record_ts) != (held.group, held.ts):
        return ""
    key, value = rows.record(row)
    if value is None:
        return None
    kind = int.from_bytes(key[:2], "big", signed=True)
    found = (
        classic_group.CLASSIC
        if kind == classic_group.GROUP_METADATA
        else epoch_group.GROUP_TYPES.get(kind, "")
    )
    return "" if found == held.state.group_type else found


def removed(state: GroupState, scene: Scene) -> list[Finding]:
    """Report that the group is removed, and resolve its open incidents."""
    since = state.empty.at if state.empty.at >= 0 else state.cst
    empty_ms = max(0, scene.ts - since) if since >= 0 else 0
    causes = _causes(state, scene, empty_ms)
    found = close_incidents.ended(state, scene, "expired")
    state.status = Status.DEAD
    removal = scene.find(
        Kind.GROUP_REMOVED, state, at=scene.ts, causes=causes, details={"empty_ms": empty_ms}
    )
    return [removal, *found]


def handed_on(state: GroupState) -> GroupState:
    """Take out of `state` what the group keeps under its other protocol; return its new state."""
    # The tombstones of an epoch-based group's members come before the group's.
    came = GroupState(
        rebalances=Rebalances(migrated=len(state.members) + len(state.changes.departed)),
        empty=Emptiness(state.empty.incident, state.empty.at, state.empty.is_reported),
        positions=state.positions,
    )
    state.empty.incident = ""
    return came


def migrated(state: GroupState, scene: Scene, to: str) -> list[Finding]:
    """Report that the group lives on as group type `to`."""
    found = close_incidents.ended(state, scene, "withdrawn")
    why = f"the tombstone of the {state.group_type} group and the {to} group's records are one write"
    cause = CauseEntry(Cause.GROUP_MIGRATED, 1.0, why)
    details: Details = {"from": state.group_type, "to": to}
    return [scene.find(Kind.GROUP_MIGRATED, state, at=scene.ts, causes=(cause,), details=details), *found]


def _causes(state: GroupState, scene: Scene, empty_ms: int) -> tuple[CauseEntry, ...]:
    """Return why the group was removed: Kafka expires it with its offsets, an administrator may be sooner."""
    if state.group_type == "share":
        why = f"empty for {seconds(empty_ms)}; share groups do not expire"
        return (CauseEntry(Cause.GROUP_DELETED_BY_ADMIN, 0.95, why),)
    retention = scene.settings.offsets_retention_ms
    assumed = "offsets_retention_ms" not in scene.settings.known
    why = f"empty for {seconds(empty_ms)}; offsets are kept for {seconds(retention)}{ASSUMED * assumed}"
    if state.group_type != "classic" and state.last_commit >= 0:
        why += f" from the last commit on, {seconds(scene.ts - state.last_commit)} before"
    if scene.ts >= empty_groups.kept_until(state, scene.settings) - _SWEEP_MS:
        return (CauseEntry(Cause.GROUP_EXPIRED, 0.9, why),)
    bare_ms = scene.ts - state.empty.dropped_at
    if state.empty.dropped_at > state.last_commit and 0 < bare_ms <= _SWEEP_MS + CLOSES_AFTER_MS:
        # An administrator's deletion takes both in one write.
        why += f"; its offsets were removed {seconds(bare_ms)} before, as those of a deleted topic are; "
        why += "a group without offsets is removed at the next cleanup"
        return (CauseEntry(Cause.GROUP_EXPIRED, 0.7, why), CauseEntry(Cause.GROUP_DELETED_BY_ADMIN, 0.2, why))
    kept = empty_groups.kept_until(state, scene.settings) - retention
    if state.last_commit >= 0 and assumed and scene.ts >= kept + _LEAST_RETENTION_MS:
        # The brokers may keep offsets for less than is assumed.
        return (CauseEntry(Cause.GROUP_DELETED_BY_ADMIN, 0.6, why), CauseEntry(Cause.GROUP_EXPIRED, 0.3, why))
    if state.last_commit >= 0:
        return (CauseEntry(Cause.GROUP_DELETED_BY_ADMIN, 0.8, why),)
    no_offsets = f"{why}; no commit of it was read: a group without offsets is cleaned up soon"
    return (
        CauseEntry(Cause.GROUP_EXPIRED, 0.5, no_offsets),
        CauseEntry(Cause.GROUP_DELETED_BY_ADMIN, 0.4, no_offsets),
    )
