"""Survivors that were busy: no poll of theirs tells when a barrier began.

A member rejoins in the poll after it has heard of the rebalance. So whoever committed, and then went on for
longer than its commits usually are apart, was busy: the barrier may have begun at any time since. Where
another one of those that stayed went on as usual the barrier began no earlier than that one shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import heartbeat_of
from rebalance_monitor.coordinator.commits.trace import commits_when_idle, is_steady
from rebalance_monitor.coordinator.departure.censored import CAP_FITTING
from rebalance_monitor.coordinator.departure.measured import Busy, first_end
from rebalance_monitor.coordinator.departure.windows import CLOSE_MS, ended_by_another, heartbeat
from rebalance_monitor.coordinator.findings.causes import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.departure.measured import Rejoined, Silence
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_LEAST_COMMITS = 3
_USUAL_MS = 5_000
_JITTER_MS = 500
# From this on it counts that several causes fit, and this much of the best of them fits, too.
_LIKELY, _FITS = 0.5, 0.02
_LEFT = frozenset({Cause.MEMBER_LEFT})
_WENT_BY = _LEFT | {Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED}


def busy(state: GroupState, kept: list[Member], cst: int, held: int, told: Rejoined | None) -> Busy | None:
    """Return for how long all of `kept` had been busy as the first of them rejoined; None if they were not.

    `held`: the least time (ms) that the barrier, which ended at `cst`, was held; `told`: when they rejoined.
    """
    seen = [(_awake(state, member), member) for member in kept if _tells(state, member)]
    if not seen:
        return None
    awake, last = max(seen, key=lambda it: it[0])
    beat = heartbeat_of(last.session_timeout)
    usual = _apart(state, last)
    if told is None and is_steady(last, _LEAST_COMMITS):
        # Its last commit may be one before that of its rejoining.
        usual += usual + beat
    most = cst - (held if told is None else told.least) - awake
    sure = min(1.0, (most - usual) / beat)
    return Busy(most, round(sure, 2)) if sure > 0 else None


def _tells(state: GroupState, member: Member) -> bool:
    often = bool(member.offsets) and member.commits >= _LEAST_COMMITS
    return often and (member.last_commit > state.cst or commits_when_idle(state, member))


def _awake(state: GroupState, member: Member) -> int:
    """When it was last known to poll without a barrier: its last commit may be that of its rejoining."""
    return max(member.last_commit - max(member.gap, 0), state.cst)


def _apart(state: GroupState, member: Member) -> int:
    """How far apart (ms) its commits are at most where it polls all the time."""
    if not commits_when_idle(state, member) and is_steady(member, _LEAST_COMMITS):
        return 2 * member.cadence + _JITTER_MS
    known = [m.cadence for m in state.members if m.cadence > 0 and m.commits >= _LEAST_COMMITS]
    return min([_USUAL_MS, *known]) * 5 // 4 + _JITTER_MS


def cap(seen: Silence, scores: Mapping[Cause, float]) -> tuple[float, frozenset[Cause]]:
    """Return the most that some causes may claim where busy survivors leave others possible, and which."""
    best = max(scores.values())
    fitting = sum(scores.get(cause, 0.0) > _FITS * best for cause in _WENT_BY)
    if seen.wait < 0 and seen.busy is not None and seen.busy.sure >= _LIKELY and fitting > 1:
        return CAP_FITTING, _WENT_BY
    return CAP_FITTING if seen.wait < 0 and _may_have_died(seen) else 1.0, _LEFT


def _may_have_died(seen: Silence) -> bool:
    """Whether its session ended in a barrier that another one began, and that a busy one held beyond that.

    Then it may have died before: its last commit was too early to be that of its leaving.
    """
    told = seen.rejoined
    if told is None or not (seen.crowded and ended_by_another(seen)) or seen.silence < first_end(seen):
        return False
    return heartbeat(seen) + CLOSE_MS < seen.silence - told.least < first_end(seen)
