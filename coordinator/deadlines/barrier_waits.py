"""Members that fell silent together while another goes on: they may wait for it in a join phase.

An eager member commits as it rejoins. Then it waits until the last member has rejoined.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import MAX_HEARTBEAT_MS
from rebalance_monitor.coordinator.commits.trace import goes_on
from rebalance_monitor.coordinator.state import membership

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_TOGETHER = 2


def waiting(state: GroupState, late: Iterable[Member], now: int) -> set[str]:
    """Return the ids of the members of `late` that may wait in a join phase at `now` (ms).

    They stopped within a heartbeat of each other, and another one of the group, which is eager, commits on.
    """
    if state.protocol in membership.COOPERATIVE or not any(goes_on(member, now) for member in state.members):
        return set()
    ends = sorted(m.last_commit for m in state.members if m.last_commit >= 0 and not goes_on(m, now))

    def beside(member: Member) -> int:
        reach = _reach(member)
        return bisect_right(ends, member.last_commit + reach) - bisect_left(ends, member.last_commit - reach)

    return {member.member_id for member in late if beside(member) >= _TOGETHER}


def _reach(member: Member) -> int:
    """Return how far apart (ms) members stop whose heartbeats are answered with REBALANCE_IN_PROGRESS."""
    return max(member.cadence, 0) + min(MAX_HEARTBEAT_MS, member.session_timeout // 3)
