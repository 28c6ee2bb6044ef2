"""What a member's commits told before it went: how often it commits, and what its silence is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import FAMILIES, MAX_HEARTBEAT_MS
from rebalance_monitor.coordinator.commits.trace import STEADY_COMMITS, commits_when_idle, is_steady
from rebalance_monitor.coordinator.departure.measured import Rejoined
from rebalance_monitor.coordinator.state import membership

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_LEAST_COMMITS = 3
_WITNESSES = 2
_QUIET_STEADY = 0.05
_QUIET_SIBLINGS = 0.15
_QUIET_UNSEEN = 0.4
_USUAL_CADENCE_MS = 5_000
# How often the last commit of one that commits when idle, or has steady traffic, is that before it rejoined.
_SURE_IDLE, _SURE = 0.97, 0.9
# Auto-commit is what these clients do unless they are told otherwise.
_BY_HAND = 0.3


def cadence(member: Member, kept: list[Member]) -> int:
    """Return the member's own cadence, else the siblings' median, else the usual one (ms)."""
    if member.cadence > 0:
        return member.cadence
    known = sorted(sibling.cadence for sibling in kept if sibling.cadence > 0)
    return known[len(known) // 2] if known else min(_USUAL_CADENCE_MS, member.session_timeout // 2)


def quietness(state: GroupState, member: Member, kept: list[Member], life: int) -> float:
    """How likely it is that the member had nothing to commit after `life` (ms): 0 never, 1 nothing is known.

    Steady traffic of its own, and of siblings who went on after it fell silent, speaks against it; that of
    siblings alone does so less.
    """
    if not member.offsets:
        return 1.0
    if commits_when_idle(state, member):
        return 0.0
    active = [other for other in kept if _is_steady(other)]
    went_on = any(other.last_commit > life + max(member.cadence, other.cadence) for other in active)
    if member.commits >= _LEAST_COMMITS:
        return _QUIET_STEADY if _is_steady(member) and (went_on or not active) else 1.0
    if not went_on:
        return 1.0
    return _QUIET_SIBLINGS if member.commits else _QUIET_UNSEEN


def _is_steady(member: Member) -> bool:
    return bool(member.offsets) and is_steady(member, _LEAST_COMMITS)


def held(state: GroupState, kept: list[Member], cst: int) -> int:
    """Least time the barrier was held: an eager idle committer stops only once it has rejoined."""
    if state.protocol in membership.COOPERATIVE:
        return 0
    waits = [
        cst - max(m.last_commit, m.joined_at, state.cst) - m.cadence
        for m in kept
        if m.cadence > 0 and m.offsets and commits_when_idle(state, m)
    ]
    return max(0, max(waits, default=0))


def halted(state: GroupState, members: list[Member], cst: int) -> int:
    """For how long eager members with steady traffic had all stopped: a barrier, or there was no traffic.

    One alone tells nothing, nor do others where one went on: a topic may pause while others do not.
    """
    steady = [m for m in members if m.offsets and is_steady(m, STEADY_COMMITS)]
    lulled = any(m.last_commit + 2 * m.cadence < state.cst for m in steady)
    if state.protocol in membership.COOPERATIVE or len(steady) < _WITNESSES or lulled:
        return 0
    waits = [cst - max(m.last_commit, state.cst) - m.cadence for m in steady]
    return max(0, *waits) if 2 * min(waits) > max(waits) else 0


def rejoined(state: GroupState, kept: list[Member], cst: int, *, alone: bool = False) -> Rejoined | None:
    """Tell from their last commits when those that stayed rejoined; None where none of them tells.

    A member rejoins once it has heard of the rebalance, so not before it began: no member may have committed
    and rejoined before the one whose going began it went. `alone`: nobody else came or went.
    """
    found = [(when, m) for m in kept if (when := _rejoined_at(state, m, cst)) is not None]
    if not found:
        return None
    if alone:
        known = {told.member_id for _, told in found}
        found += _stopped(state, [m for m in kept if m.member_id not in known])
    times = [min(when, cst) for when, _ in found]
    # librdkafka's cooperative members commit on while they wait.
    waits = state.protocol in membership.COOPERATIVE and any(m.family == "librdkafka" for _, m in found)
    return Rejoined(
        least=cst - min(times),
        apart=0 if waits else max(times) - min(times),
        among=1 if waits else len(times),
        sure=_SURE_IDLE if all(commits_when_idle(state, m) for _, m in found) else _SURE,
    )


def _stopped(state: GroupState, members: list[Member]) -> list[tuple[int, Member]]:
    """Return when those with steady traffic rejoined that stopped together, long before others that tell.

    One alone may have had nothing more to commit.
    """
    if state.protocol in membership.COOPERATIVE:
        return []
    steady = [m for m in members if m.last_commit > state.cst and _is_steady(m)]
    steady = [m for m in steady if FAMILIES[m.family].polls_to_rejoin]
    ends = [m.last_commit for m in steady]
    reach = MAX_HEARTBEAT_MS + max((m.cadence for m in steady), default=0)
    together = len(ends) >= _WITNESSES and max(ends) - min(ends) <= reach
    return list(zip(ends, steady, strict=True)) if together else []


def shut(state: GroupState, kept: list[Member], cst: int) -> int:
    """For how long (ms) the barrier waited for none of those that stayed: all had rejoined.

    0 where one of them does not tell: it may have been the one. Nor does a static member, which stays though
    it is dead, or one alone.
    """
    told = [commits_when_idle(state, m) and _rejoined_at(state, m, cst) for m in kept]
    if len(kept) < _WITNESSES or any(not when for when in told) or any(m.instance_id for m in kept):
        return 0
    return max(0, cst - max(int(when or 0) for when in told))


def _rejoined_at(state: GroupState, member: Member, cst: int) -> int | None:
    """When it rejoined (ms), as its last commit tells: it comes with that, or up to a cadence before."""
    idle, cooperative = commits_when_idle(state, member), state.protocol in membership.COOPERATIVE
    often = member.commits >= _LEAST_COMMITS if idle and member.offsets else _is_steady(member)
    if member.last_commit <= state.cst or not often:
        return None
    if not idle and cst - member.last_commit > 2 * member.cadence + MAX_HEARTBEAT_MS:
        return None
    if FAMILIES[member.family].polls_to_rejoin or (idle and not cooperative):
        return member.last_commit
    return None if cooperative else member.last_commit + member.cadence


def by_hand(state: GroupState, member: Member, family: str) -> float:
    """How likely it is that the application commits, after it has processed what it polled."""
    if commits_when_idle(state, member) or not FAMILIES[family].commits_idle:
        return 0.0
    return _BY_HAND
