"""Deadlines of single members: by when each should have shown life, and by which of its timeouts.

Judged only where silence means something: for members that commit when idle. The session deadline is the last
sign of life plus one cadence plus the session timeout. Who passes it may be dead, or have a client whose
heartbeats go on while the application no longer polls; so where the client enforces max.poll.interval a poll
deadline follows. A member of an epoch-based group that has to give up partitions or tasks has its rebalance
timeout from the moment it was told (its unrevoked state); nothing needs to be silent for that. All start anew
when the monitor does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.commits import commits_when_idle
from rebalance_monitor.coordinator.families import FAMILIES
from rebalance_monitor.coordinator.transitions import Status

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state import GroupState, Member

_SILENT_TYPES = frozenset({"classic", "consumer"})
_UNREVOKED = 1


class Deadline(NamedTuple):
    """When a member's next deadline passes (ms), and which: session, poll or rebalance."""

    at: int
    name: str


def upcoming(state: GroupState, member: Member, live_since: int) -> Deadline | None:
    """Return the member's next deadline that was not told yet, None where silence means nothing."""
    if member.epoch_state == _UNREVOKED:
        since = max(member.acked_at, live_since)
        return None if member.silent_id else Deadline(since + member.rebalance_timeout, "rebalance")
    if state.status != Status.STABLE or state.group_type not in _SILENT_TYPES:
        return None
    if not member.commits or not member.offsets or not commits_when_idle(state, member):
        return None
    usual = life(state, member, live_since) + max(member.cadence, 0)
    session = Deadline(usual + member.session_timeout, "session")
    return session if not member.silent_id else _poll(member, usual, session.at)


def life(state: GroupState, member: Member, live_since: int) -> int:
    """When the member last showed life, or the generation or the monitor began (ms)."""
    return max(member.last_commit, state.cst, live_since)


def _poll(member: Member, usual: int, session: int) -> Deadline | None:
    family = FAMILIES[member.family]
    at = usual + member.rebalance_timeout + family.poll_late_ms
    told = member.silent_count > 1 or member.silent_at > session
    return None if told or family.enforces_poll is False or at <= session else Deadline(at, "poll")
