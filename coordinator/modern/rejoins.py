"""Members of the classic protocol in a KIP-848 group: they rejoin for each new epoch.

The answer to their next heartbeat asks them to, and from it on they have their rebalance timeout. Heartbeats
go on meanwhile. So a member whose application never polls is fenced by its rebalance timeout, and not by its
session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.deadlines.member_deadlines import owes
from rebalance_monitor.coordinator.departure.verdicts import Departure
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.state.group_state import OF_MEMBER

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.departure.verdicts import Measured
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_BEATS = 3
_SLACK_MS = 1_500
_CONFIDENCE = 0.9


def missed(state: GroupState, member: Member, scene: Scene, seen: Measured) -> Departure | None:
    """Whether a member that has rejoined for no epoch since was fenced for not rejoining in time.

    Clients send at least three heartbeats in a session, so it learns of an epoch up to a third of that later.
    """
    behind = member.version == OF_MEMBER and 0 <= member.epoch < state.generation and not owes(member)
    took = scene.ts - state.epochs.bumped_at
    beat = member.session_timeout // _BEATS + _SLACK_MS
    if not behind or not state.changes.bumps or member.acked_at > state.epochs.bumped_at:
        return None
    if not 0 <= took - member.rebalance_timeout <= beat:
        return None
    why = f"it had {seconds(took)} to rejoin for a new epoch; rebalance timeout "
    why += seconds(member.rebalance_timeout)
    return Departure(member, seen, (CauseEntry.of(member, Cause.JOIN_DEADLINE_MISSED, _CONFIDENCE, why),))
