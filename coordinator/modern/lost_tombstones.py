"""Members of epoch-based groups whose end was cleaned away before it was read.

Compaction removes tombstones a day after they were written (`delete.retention.ms`). A monitor that was down
for longer never reads the tombstones of members that departed meanwhile, and would wait for their
acknowledgement without end. Only the bump of the epoch remains. So a member without a record since records
may be missing is dropped once it has been behind for its session and rebalance timeout: no coordinator keeps
a member for longer. No finding is published: the topic no longer shows when and why it departed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.deadlines import silent_members, stuck_rebalances
from rebalance_monitor.coordinator.lifecycle import empty_groups
from rebalance_monitor.coordinator.modern import convergence
from rebalance_monitor.coordinator.rebalance import baselines, subscriptions
from rebalance_monitor.coordinator.state.state_machine import SETTLED

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_USUAL_REBALANCE_MS = 300_000
"""`max.poll.interval.ms` of Java clients by default."""


def drop(state: GroupState, scene: Scene) -> list[Finding]:
    """Drop the members that must be removed by the clock; return the findings that follow."""
    unread = [one for one in state.members if _may_have_gone(state, one)]
    if not unread:
        return []
    usual = _usual_rebalance_timeout(state)
    left = [member for member in unread if _has_expired(state, member, usual, scene.ts)]
    if not left:
        return []
    found = [one for member in left for one in silent_members.on_sign(state, scene, member, gone=True)]
    gone = {member.member_id for member in left}
    state.members = [member for member in state.members if member.member_id not in gone]
    state.changes.newcomers -= gone
    state.changes.resubscribed -= gone
    subscriptions.settle(state)
    state.status, state.dirty = convergence.api_status(state, scene.ts), True
    if state.status in SETTLED:
        convergence.rest(state, state.ts)
        found += stuck_rebalances.settle(state, scene, "completed")
    return found + empty_groups.stands_empty(state, scene)


def _may_have_gone(state: GroupState, member: Member) -> bool:
    """Whether the member is behind, and has no record since records may be missing."""
    return _seen(member) <= state.epochs.unread_at and member.epoch < state.generation


def _has_expired(state: GroupState, member: Member, usual: int, now: int) -> bool:
    """Whether no coordinator would keep it until `now` (ms).

    For as long as its rebalance timeout the coordinator waits for a member to give up what it has. The record
    that describes it may be unread: then `usual` stands for it.
    """
    described = baselines.is_described(state, member)
    kept = member.session_timeout + (max(member.rebalance_timeout, 0) if described else usual)
    return max(_seen(member), state.epochs.bumped_at, member.behind_at) + kept <= now


def _seen(member: Member) -> int:
    return max(member.acked_at, member.joined_at)


def _usual_rebalance_timeout(state: GroupState) -> int:
    """Return the longest rebalance timeout (ms) of a member that is described, else Java's default.

    Members of share groups have no such timeout.
    """
    known = [one.rebalance_timeout for one in state.members if baselines.is_described(state, one)]
    return max(known, default=_USUAL_REBALANCE_MS)
