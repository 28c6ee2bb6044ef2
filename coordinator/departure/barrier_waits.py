"""What else commits may mean: a lull of one that waited in a barrier, commits of one that was stalled.

Judged by comparing it with its siblings, for by itself either looks like something else: waiting like an
expired session, a stall of a client that goes on committing like a clean close.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import MAX_HEARTBEAT_MS
from rebalance_monitor.coordinator.commits.trace import commits_when_idle, goes_on
from rebalance_monitor.coordinator.departure.measured import Stall
from rebalance_monitor.coordinator.state import membership

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.membership import Change

_TOGETHER = 2
_TELLING = 3
_NEAR_MS = 300


def watchable(state: GroupState, member: Member) -> bool:
    """Whether the end of its commits tells when a member stopped: one without partitions never commits."""
    if not member.offsets:
        return False
    return commits_when_idle(state, member) or member.cadence <= member.session_timeout // 4


def waited(state: GroupState, change: Change, cst: int) -> set[str]:
    """Return the ids of members that stopped together while one that went as well committed on.

    An eager member commits as it rejoins and then waits, as long as another one holds the barrier. Members
    that die together stop together, too: their silence says neither. Of two the one that stopped a whole
    rebalance timeout before the other was dropped began the barrier.
    """
    began = _began(state, change, cst)
    if began is not None:
        return {began.member_id}
    if state.protocol in membership.COOPERATIVE:
        return set()
    known = [
        member
        for member in state.members
        if member.cadence > 0 and member.last_commit > state.cst and watchable(state, member)
    ]
    gone = {member.member_id for member in change.left}
    last = max((member.last_commit for member in known), default=-1)
    holders = [member for member in known if member.last_commit == last and member.member_id in gone]
    if not holders or len(known) < _TOGETHER + 1:
        return set()
    early = [m for m in known if m.last_commit < last - max(m.session_timeout // 2, 2 * m.cadence)]
    found = set()
    for member in early:
        beside = [other for other in early if abs(other.last_commit - member.last_commit) <= _reach(member)]
        if len(beside) >= _TOGETHER and member.member_id in gone:
            found.add(member.member_id)
    return found


def waiting(state: GroupState, late: Iterable[Member], now: int) -> set[str]:
    """Return the ids of those of `late` that may wait in a barrier at `now` (ms): see `waited`.

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
    """Return how far apart (ms) members stop that a heartbeat tells to rejoin."""
    return max(member.cadence, 0) + min(MAX_HEARTBEAT_MS, member.session_timeout // 3)


def held_to_the_end(state: GroupState, change: Change, cst: int) -> int:
    """Return for how long (ms) at least a barrier was held that dropped the last member, 0 if none was."""
    began = _began(state, change, cst)
    return 0 if began is None else cst - began.last_commit - began.cadence


def _began(state: GroupState, change: Change, cst: int) -> Member | None:
    """Return the one of two last members whose going began a barrier that the other one sat out."""
    if change.kept or change.joined or len(change.left) != _TOGETHER:
        return None
    first, last = sorted(change.left, key=lambda member: member.last_commit)
    limit = max(member.rebalance_timeout for member in change.left)
    late = cst - first.last_commit - limit
    told = all(member.cadence > 0 and watchable(state, member) for member in change.left)
    near = cst - last.last_commit <= last.cadence + _NEAR_MS
    return first if told and near and -_NEAR_MS <= late <= first.cadence + _NEAR_MS else None


def stall(state: GroupState, member: Member) -> Stall:
    """Tell by offsets whether a member that commits while its application is stalled may have been so.

    Commits without progress beyond its siblings' share of such commits are those of a stall.
    """
    moved = member.moved or member.fresh or not member.commits
    if moved or (member.idle + 2) * member.cadence < member.session_timeout:
        return Stall.NO
    rest = [other for other in state.members if other is not member]
    commits = sum(other.commits for other in rest)
    if commits < _TELLING:
        return Stall.MAYBE
    # First commits repeat nothing, though nothing is produced: one that mostly repeats makes no progress.
    usual = sum(other.commits if 2 * other.idle > other.commits else other.idle for other in rest) / commits
    beyond = member.idle - usual * member.commits
    return Stall.LIKELY if (beyond + 2) * member.cadence >= member.session_timeout else Stall.MAYBE
