"""Static members with another member id in a new generation: replaced in time, or expired before.

A coordinator that still has the static member puts the new member id in its place. It keeps the client id and
host of the old process. A coordinator that has expired the member adds a new one, with the client id and host
of the new process. So the member had expired if these differ. If they are the same, it had expired if only
the end of its session explains its silence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.departure.observe import observed
from rebalance_monitor.coordinator.departure.verdicts import judge
from rebalance_monitor.coordinator.findings.causes import Cause

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.membership import Change

_SURE = 0.6
_EXPIRED = frozenset({Cause.STATIC_MEMBER_EXPIRED, Cause.POLL_INTERVAL_EXCEEDED})


def separate_returns(state: GroupState, change: Change, cst: int, aborted: int) -> Change:
    """Return the change with removed static members that came back counted as left and joined.

    `cst`: the end of the join phase (ms) that followed `state`'s record and `aborted` generations. A member
    that was replaced in place has its host marked as that of the old process.
    """
    removed = [pair for pair in change.replaced if _was_removed(state, change, pair, cst, aborted)]
    in_place = tuple(pair for pair in change.replaced if pair not in removed)
    for _, now in in_place:
        now.host_stale = True
    left = change.left + tuple(before for before, _ in removed)
    joined = change.joined + tuple(now for _, now in removed)
    return replace(change, left=left, joined=joined, replaced=in_place)


def _was_removed(
    state: GroupState, change: Change, pair: tuple[Member, Member], cst: int, aborted: int
) -> bool:
    before, now = pair
    if (before.client_id, before.host) != (now.client_id, now.host):
        return True
    if aborted:
        # It may have come back before any of these generations.
        return False
    alone = replace(change, left=(before,), joined=(*change.joined, now))
    (gone,) = judge(alone.left, observed(state, alone, cst, 0), history=False).gone
    expired = gone.causes[0].cause in _EXPIRED and gone.causes[0].confidence >= _SURE
    # If the join phase began before its session can have ended, the new process may have waited in it.
    return expired and gone.seen.silence - gone.seen.held >= before.session_timeout
