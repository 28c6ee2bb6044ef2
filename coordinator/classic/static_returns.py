"""Static members that are in a new generation under another member id: back in time, or after they expired.

A coordinator that still has the member puts the new id in its place and keeps the client id and the host of
the old process. One that has expired it takes it in as a new member, with its own: where they differ it had
been removed. Where they do not, a silence that only the end of a session explains says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.rebalance import rebalance_causes

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.membership import Change

_SURE = 0.6
_EXPIRED = frozenset({Cause.STATIC_MEMBER_EXPIRED, Cause.POLL_INTERVAL_EXCEEDED})


def separate_returns(state: GroupState, change: Change, cst: int, aborted: int) -> Change:
    """Return the change with removed static members that came back counted as left and joined.

    `cst`: the end of the join phase (ms) that followed `state`'s record and `aborted` generations. Of those
    that were replaced in place the host is marked as that of the old process.
    """
    if not change.replaced:
        return change
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
        # It may have come back before any of these.
        return False
    alone = replace(change, left=(before,), joined=(*change.joined, now))
    (gone,) = rebalance_causes.departures(state, alone, cst, 0).gone
    expired = gone.causes[0].cause in _EXPIRED and gone.causes[0].confidence >= _SURE
    # In a barrier that began before its session can have ended it may have waited.
    return expired and gone.seen.silence - gone.seen.held >= before.session_timeout
