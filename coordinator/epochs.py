"""Epoch-based groups (KIP-848 consumer, share and streams groups): who is in them, and when they are gone.

Member metadata and current assignment records and their tombstones keep the membership, the group's
metadata record its epoch. A group whose metadata record is a tombstone is removed; the tombstone of a
classic group that is followed by one of these records is a migration. Rebalances of these groups are
convergences, which this part does not claim: it says nothing rather than count every epoch bump as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.state import Member, begin_anew
from rebalance_monitor.coordinator.transitions import Status

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.scene import Scene
    from rebalance_monitor.coordinator.state import GroupState
    from rebalance_monitor.decoders import Decoded

GROUP_TYPES = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), "consumer"),
    **dict.fromkeys((9, 10, 11, 12, 13, 14, 15), "share"),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), "streams"),
}
"""Record type -> group type."""

GROUP_RECORDS = frozenset({3, 11, 17})
MEMBER_RECORDS = frozenset({5, 10, 19})
CURRENT_RECORDS = frozenset({8, 14, 22})
TARGET_RECORDS = frozenset({6, 12, 20})


def on_record(state: GroupState, found: Decoded, scene: Scene) -> bool:
    """Take one record into `state`; True where it says that the group is gone."""
    kind = GROUP_TYPES[found.type]
    if state.group_type != kind:
        begin_anew(state, kind)
        state.protocol_type = kind
    state.ts, state.offset, state.live = scene.ts, scene.offset, not scene.history
    if found.type in GROUP_RECORDS:
        if found.value is None:
            return True
        _bumped(state, found.value, scene)
    elif found.type in MEMBER_RECORDS:
        _member(state, found.key, found.value, scene)
    elif found.type in CURRENT_RECORDS and found.value is not None:
        _acknowledged(state, found.key, found.value, scene)
    elif found.type in TARGET_RECORDS and found.value is not None:
        state.target_epoch = _number(found.value, "assignment_epoch")
    _settle(state)
    return False


def _bumped(state: GroupState, value: object, scene: Scene) -> None:
    state.generation = _number(value, "epoch")
    state.bumped_at = scene.ts
    state.dirty = True


def _member(state: GroupState, key: object, value: object | None, scene: Scene) -> None:
    member_id = _text(key, "member_id")
    known = {member.member_id: member for member in state.members}
    if value is None:
        known.pop(member_id, None)
    else:
        fresh = Member(
            member_id=member_id,
            instance_id=_optional(value, "instance_id"),
            client_id=_text(value, "client_id"),
            host=_text(value, "client_host"),
            host_stale=False,
            session_timeout=-1,
            rebalance_timeout=_number(value, "rebalance_timeout_ms"),
            family="unknown",
            version=-1,
            subscribed="",
            joined_at=scene.ts,
        )
        before = known.get(member_id)
        if before is not None:
            fresh.joined_at, fresh.epoch, fresh.acked_at = before.joined_at, before.epoch, before.acked_at
        known[member_id] = fresh
    state.members = list(known.values())
    state.dirty = True


def _acknowledged(state: GroupState, key: object, value: object, scene: Scene) -> None:
    member_id = _text(key, "member_id")
    for member in state.members:
        if member.member_id == member_id:
            member.epoch, member.acked_at = _number(value, "member_epoch"), scene.ts
            state.dirty = True


def _settle(state: GroupState) -> None:
    """Recompute the group's state as the coordinator's API would give it."""
    if not state.members:
        state.status = Status.EMPTY
    elif state.generation > state.target_epoch:
        state.status = Status.ASSIGNING
    elif any(member.epoch not in {state.target_epoch, -2} for member in state.members):
        state.status = Status.RECONCILING
    else:
        state.status = Status.STABLE


def _number(value: object, name: str) -> int:
    found: Any = getattr(value, name, -1)
    return -1 if found is None else int(found)


def _text(value: object, name: str) -> str:
    return str(getattr(value, name, "") or "")


def _optional(value: object, name: str) -> str | None:
    found: Any = getattr(value, name, None)
    return None if found is None else str(found)
