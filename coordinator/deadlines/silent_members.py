"""Silent members: their next sign of life is overdue (`member_silent`).

A deadline of `member_deadlines.py` has passed when the clock reaches it plus the grace. No member is named

- while every member of the group is silent: the group is in a join phase, or unreachable
- while the only member of a group is silent and nothing else of its shard is read: its coordinator may be
  unreachable
- for members of an eager group that fell silent together while another goes on: they may wait for it.

Later evidence confirms the silence (the member departed) or withdraws it (the member commits, rejoins or
acknowledges an epoch). The finding is updated if the poll deadline passes after the session deadline: then
the member's heartbeats go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import FAMILIES
from rebalance_monitor.coordinator.commits.trace import goes_on
from rebalance_monitor.coordinator.deadlines import barrier_waits
from rebalance_monitor.coordinator.deadlines.member_deadlines import (
    AWAY,
    Deadline,
    is_assumed,
    last_sign,
    moving,
    owes,
    upcoming,
)
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, deadline_anchor, end_of
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.rebalance.report import member_entry
from rebalance_monitor.coordinator.state.group_state import NEVER

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.departure.verdicts import Departure
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.membership import Change

_CONFIDENCE = 0.6
_UNDER_TRAFFIC = 0.4

Watched = list[tuple["Member", Deadline]]
"""Members with the next deadline of each, as `watched` gives them."""


def watch_list(state: GroupState, live_since: int) -> Watched:
    """Return the members whose silence is evidence, each with its next deadline that is not reported yet."""
    found = [(member, upcoming(state, member, live_since)) for member in state.members]
    return [(member, deadline) for member, deadline in found if deadline is not None]


def due(state: GroupState, settings: DetectionSettings, now: int, ahead: Watched) -> int:
    """Earliest clock (ms) at which a deadline passes or a countdown begins; 2**63 - 1 if none.

    A deadline under traffic that passed while no offsets moved is void: the next commit starts another.
    """
    earliest = NEVER
    for member, deadline in ahead:
        if deadline.basis == "traffic" and deadline.at + settings.grace_ms <= now:
            continue
        # A summary that is due, or counts down already, comes again by itself.
        published = state.dirty or not _counts_down(deadline)
        after = settings.grace_ms if published else -(member.session_timeout // 2)
        earliest = min(earliest, deadline.at + after)
    return earliest


def countdown(state: GroupState, now: int, ahead: Watched) -> dict[str, int]:
    """Member id -> deadline (ms) of the members that have used up half of their session timeout by `now`."""
    if not any(member.last_commit + member.session_timeout // 2 <= now for member in state.members):
        return {}
    return {
        member.member_id: deadline.at
        for member, deadline in ahead
        if _counts_down(deadline) and now >= deadline.at - member.session_timeout // 2
    }


def _counts_down(deadline: Deadline) -> bool:
    """Whether summaries show it: a lull in traffic is no countdown."""
    return deadline.name == "session" and deadline.basis == "idle"


def on_clock(state: GroupState, scene: Scene, now: int, ahead: Watched, shard_ts: int) -> list[Finding]:
    """Report which deadlines of members have passed at `now`; `shard_ts`: newest record of the shard (ms)."""
    grace = scene.settings.grace_ms
    late = [(member, end) for member, end in ahead if end.at + grace <= now]
    return [_silent(state, scene, member, end) for member, end in _meaningful(state, late, now, shard_ts)]


def on_commit(state: GroupState, scene: Scene, members: list[Member], at: int) -> list[Finding]:
    """Withdraw the silence of members that have just committed, unless they have partitions to give up."""
    return [_resolve(state, scene, m, "withdrawn", at) for m in members if m.silent_id and not owes(m)]


def on_sign(state: GroupState, scene: Scene, member: Member, *, gone: bool) -> list[Finding]:
    """Decide the open silence of one member of an epoch-based group by a record of its own."""
    if not member.silent_id:
        return []
    return [_resolve(state, scene, member, "confirmed" if gone else "withdrawn", scene.ts)]


def resolve_departed(
    before: GroupState, state: GroupState, scene: Scene, gone: list[Departure]
) -> list[Finding]:
    """Decide each open silence by a new record: confirmed where the member departed, else withdrawn."""
    left = {departure.member.member_id for departure in gone}
    return [
        _resolve(state, scene, m, "confirmed" if m.member_id in left else "withdrawn", scene.ts)
        for m in before.members
        if m.silent_id
    ]


def resolve_removed(change: Change, state: GroupState, scene: Scene) -> list[Finding]:
    """Decide the open silences of members that a record of the same generation no longer lists."""
    back = [before for before, _ in change.replaced]
    gone = [(m, "confirmed") for m in change.left] + [(m, "withdrawn") for m in back]
    return [_resolve(state, scene, m, resolution, scene.ts) for m, resolution in gone if m.silent_id]


def _meaningful(state: GroupState, late: Watched, now: int, shard_ts: int) -> Watched:
    """Return the deadlines passed at `now` (ms) that are evidence: other members of the group are alive.

    For a group of one member, other groups of the shard must go on: then its coordinator is there.
    """
    if not late:
        return []
    alive = any(goes_on(member, now) for member in state.members)
    if len(state.members) == 1:
        alive = any(shard_ts >= end.at - member.session_timeout // 2 for member, end in late)
    moved, waiting = moving(state, now), barrier_waits.waiting(state, [member for member, _ in late], now)
    return [
        (member, end)
        for member, end in late
        if end.basis == "unrevoked"
        or (
            member.member_id not in waiting
            and (
                (end.basis == "idle" and alive)
                or (end.basis == "traffic" and any(topic in moved for topic, *_ in member.assigned))
            )
        )
    ]


def _silent(state: GroupState, scene: Scene, member: Member, end: Deadline) -> Finding:
    deadline, phase = end.at, "updated" if member.silent_id else "opened"
    anchor = deadline_anchor(state.generation, member.member_id, deadline)
    silence = deadline - last_sign(state, member)
    found = scene.find(
        Kind.MEMBER_SILENT,
        state,
        at=deadline,
        evidence="suspected",
        confidence=_UNDER_TRAFFIC if end.basis == "traffic" else _CONFIDENCE,
        anchor=anchor,
        member=member.member_id,
        phase=phase,
        incident=member.silent_id,
        opened_at=deadline if phase == "opened" else member.silent_at,
        members_affected=1,
        partitions_affected=len(member.offsets),
        members=(member_entry(member, "kept", silence),),
        causes=_suspicion(member, silence, end),
        details={
            "deadline": end.name,
            "basis": end.basis,
            "deadline_at": deadline,
            "silence_ms": silence,
            "session_timeout_ms": member.session_timeout,
            "rebalance_timeout_ms": member.rebalance_timeout,
            "assumed": int(end.name == "session" and is_assumed(state, member, scene)),
        },
    )
    if phase == "opened":
        member.silent_id, member.silent_at = found.id, deadline
    member.silent_count = 2 if end.name == "poll" else 1
    return found


def _suspicion(member: Member, silence: int, end: Deadline) -> tuple[CauseEntry, ...]:
    """Return the possible causes: a dead member and an application that no longer polls are both silent."""
    if end.name == "rebalance":
        why = (
            f"it has not given up partitions for its rebalance timeout of {seconds(member.rebalance_timeout)}"
        )
        return (CauseEntry.of(member, Cause.JOIN_DEADLINE_MISSED, 0.92, why),)
    if member.epoch == AWAY:
        why = f"it announced that it leaves, and is not back {seconds(silence)} after its last sign of life"
        return (CauseEntry.of(member, Cause.STATIC_MEMBER_EXPIRED, 0.7, why),)
    timeout = member.rebalance_timeout if end.name == "poll" else member.session_timeout
    why = f"no commit for {seconds(silence)} at its {end.name} deadline; timeout {seconds(timeout)}" + (
        f"; commits every {seconds(member.cadence)} until then" if member.cadence >= 0 else ""
    )
    traffic = end.basis == "traffic"
    if traffic:
        why += "; offsets of other members move on the same topics"
    if end.name == "poll":
        sure = 0.5 if traffic else 0.7
        return (CauseEntry.of(member, Cause.POLL_INTERVAL_EXCEEDED, sure, why + "; its session still holds"),)
    shares = [(Cause.SESSION_TIMEOUT, 0.3 if traffic else 0.5)]
    if FAMILIES[member.family].enforces_poll is not False:
        shares.append((Cause.POLL_INTERVAL_EXCEEDED, 0.3 if traffic else 0.4))
    return tuple(CauseEntry.of(member, cause, share, why) for cause, share in shares)


def _resolve(state: GroupState, scene: Scene, member: Member, resolution: str, at: int) -> Finding:
    incident, opened = member.silent_id, member.silent_at
    member.silent_id, member.silent_at = "", -1
    return scene.resolve(
        Kind.MEMBER_SILENT,
        state,
        incident,
        resolution,
        at=at,
        anchor=end_of(incident),
        member=member.member_id,
        opened_at=opened,
        members_affected=1,
        members=(member_entry(member, "kept"),),
        details={"deadline_at": opened},
    )
