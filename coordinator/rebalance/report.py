"""Findings of a classic group's record: the rebalance, the members behind it, what failed before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.trace import STEADY_COMMITS, commits_when_idle, is_steady
from rebalance_monitor.coordinator.departure.verdicts import (
    details_of,
    kinds_by,
    numbers_of,
    severity_of,
)
from rebalance_monitor.coordinator.findings import massed
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import (
    CLAIMED,
    MAX_KEPT,
    MAX_MOVED,
    CauseEntry,
    MemberEntry,
)
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.rebalance import habits
from rebalance_monitor.coordinator.state.membership import COOPERATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.departure.verdicts import Departure, Judged
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.membership import Change


_ENDED_BY = {
    Cause.MEMBER_LEFT: "leave",
    Cause.POLL_INTERVAL_EXCEEDED: "leave",
    Cause.SESSION_TIMEOUT: "session",
    Cause.STATIC_MEMBER_EXPIRED: "session",
}


def _has_left(before: GroupState, state: GroupState) -> bool:
    """Whether the leader of `before` is no longer in the group, nor back under its instance id."""
    led = [member for member in before.members if member.member_id == before.leader]
    there = {name for one in state.members for name in (one.member_id, one.instance_id) if name}
    return bool(led) and not there & {led[0].member_id, led[0].instance_id}


def ended_by(causes: tuple[CauseEntry, ...]) -> str:
    """Why the last member departed: leave, session timeout or, where another cause is as likely, unknown."""
    top = causes[0] if causes else None
    return _ENDED_BY.get(top.cause, "unknown") if top and top.confidence >= CLAIMED else "unknown"


def refilled(state: GroupState, scene: Scene, at: int) -> list[Finding]:
    """Close the open group_empty: the group has had members again since `at` (ms)."""
    found = scene.resolve(
        Kind.GROUP_EMPTY,
        state,
        state.empty.incident,
        "completed",
        at=state.ts,
        opened_at=state.empty.at,
        severity=Severity.INFO,
        details={"empty_ms": max(0, at - state.empty.at)},
    )
    habits.note(state.empty, at)
    state.empty.incident, state.empty.at, state.empty.is_reported = "", -1, False
    return [found]


def member_entry(member: Member, role: str, silence: int | None = None) -> MemberEntry:
    """Describe one member; `silence` in ms where it was measured."""
    return MemberEntry(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        host_is_stale=member.host_stale,
        role=role,
        session_timeout_ms=None if member.session_timeout < 0 else member.session_timeout,
        rebalance_timeout_ms=None if member.rebalance_timeout < 0 else member.rebalance_timeout,
        last_seen=None if member.last_commit < 0 else member.last_commit,
        silence_ms=silence,
        partitions=len(member.offsets),
    )


def member_entries(change: Change, gone: Sequence[Departure]) -> tuple[MemberEntry, ...]:
    """Return the first that left, joined, were replaced and stayed; `unlisted` counts the others."""
    left = gone[:MAX_MOVED]
    found = [member_entry(departure.member, "left", departure.seen.silence) for departure in left]
    found += [member_entry(member, "joined") for member in change.joined[:MAX_MOVED]]
    found += [member_entry(now, "replaced") for _, now in change.replaced[:MAX_MOVED]]
    found += [member_entry(now, "kept") for _, now in change.kept[:MAX_KEPT]]
    return tuple(found)


def unlisted(change: Change, gone: Sequence[Departure]) -> Details:
    """Return how many that left, joined or were replaced are not listed, with a digest; nothing for none."""
    rest = [departure.member.member_id for departure in gone[MAX_MOVED:]]
    rest += [member.member_id for member in change.joined[MAX_MOVED:]]
    rest += [now.member_id for _, now in change.replaced[MAX_MOVED:]]
    return massed.digest(rest) if rest else {}


def rebalance(
    before: GroupState,
    state: GroupState,
    scene: Scene,
    change: Change,
    judged: Judged,
    causes: tuple[CauseEntry, ...],
) -> Finding:
    """Report the completed generation that `state` describes; `before` is the group's record before it."""
    gone = judged.gone
    join_min, join_max = _join_bounds(before, state, gone)
    known = before.offset >= 0
    return scene.find(
        Kind.REBALANCE,
        state,
        at=state.ts,
        evidence="read",
        previous_generation=before.generation if known else None,
        previous_leader=before.leader or None,
        started_at_min=state.cst - join_max if join_max is not None else None,
        started_at_max=state.cst - join_min if known else None,
        join_ms_min=join_min if known else None,
        join_ms_max=join_max,
        sync_ms=max(0, state.ts - state.cst),
        stopped_ms_min=None if state.protocol in COOPERATIVE else join_min + max(0, state.ts - state.cst),
        stopped_ms_max=_stopped(before, state, change, (join_min, join_max)),
        members_affected=len(change.joined) + len(change.left) + len(change.replaced),
        partitions_affected=sum(len(member.offsets) for member in change.left),
        causes=causes,
        members=member_entries(change, gone),
        details=_counts(state, change) | unlisted(change, gone) | (details_of(judged) if gone else {}),
    )


def departed(
    state: GroupState, scene: Scene, gone: list[Departure], went_in: str, previous: GroupState
) -> list[Finding]:
    """Return one finding for each member whose timeout is certain enough.

    `went_in`: id of the `rebalance` or `group_empty` that removed the members.
    """
    claimed_of = kinds_by([one.causes for one in gone], len(gone), scene.settings)
    return [
        _departed(state, scene, departure, claimed, went_in, previous)
        for departure, claimed in zip(gone, claimed_of, strict=True)
        if claimed is not None
    ]


def failed(
    state: GroupState, before: GroupState, scene: Scene, count: int, *, at_start: bool, repeated: bool
) -> Finding:
    """Report the generations between two live records that were used up without an assignment."""
    return scene.find(
        Kind.REBALANCE_FAILED,
        state,
        at=state.ts,
        evidence="derived",
        severity=Severity.WARNING if repeated else Severity.INFO,
        previous_generation=before.generation,
        previous_leader=before.leader or None,
        causes=_why_failed(before, state, count),
        details={"failed": count, "at_start": int(at_start)},
    )


def _why_failed(before: GroupState, state: GroupState, count: int) -> tuple[CauseEntry, ...]:
    """Only one reason leaves a trace on the topic: an assignment that is too large to be stored."""
    if before.checks.too_large:
        why = "the group's record nears the topic's max.message.bytes: beyond, no assignment can be stored"
        return (CauseEntry(Cause.ASSIGNMENT_NOT_STORED, 0.7, why),)
    first = max(before.generation, 0) + 1
    which = f"generation {first} has" if count == 1 else f"{count} generations from {first} on have"
    why = f"{which} no record on the topic, which does not say why a rebalance failed"
    if _has_left(before, state):
        why += "; the previous leader left meanwhile, perhaps before it sent the assignment"
    return (CauseEntry(Cause.UNKNOWN, 1.0, why),)


def _departed(
    state: GroupState,
    scene: Scene,
    departure: Departure,
    claimed: tuple[Kind, float],
    went_in: str,
    previous: GroupState,
) -> Finding:
    member, seen, (kind, sure) = departure.member, departure.seen, claimed
    return scene.find(
        kind,
        state,
        at=state.ts,
        evidence="suspected",
        confidence=sure,
        severity=severity_of(kind, seen),
        member=member.member_id,
        previous_generation=previous.generation,
        protocol=previous.protocol or None,
        members_affected=1,
        partitions_affected=len(member.offsets),
        causes=departure.causes,
        members=(member_entry(member, "left", seen.silence),),
        details=numbers_of(seen, went_in),
    )


def _join_bounds(before: GroupState, state: GroupState, gone: list[Departure]) -> tuple[int, int | None]:
    """Least and most time the join phase can have taken, ms.

    Each generation that failed on the way had a join phase and a sync phase. Each member that takes part in
    one may prolong it by its own rebalance timeout.
    """
    if before.offset < 0 or before.ts < 0:
        return 0, None
    apart = max(0, state.cst - before.ts)
    phases = 1 + 2 * max(0, state.generation - before.generation - 1)
    longest = max((member.rebalance_timeout for member in (*before.members, *state.members)), default=0)
    limit = phases * longest if before.members else apart
    held = max((departure.seen.held for departure in gone), default=0)
    return min(held, apart), max(0, min(apart, max(limit, held)))


def _stopped(
    before: GroupState, state: GroupState, change: Change, join: tuple[int, int | None]
) -> int | None:
    """Return for how long consumption stopped at most, ms; None if no member's commits show it.

    It stopped after the earliest last commit of the members that stayed, and after the join phase can have
    begun. Only members that commit when idle, or steadily, are evidence.
    """
    last = [
        old.last_commit
        for old, _ in change.kept
        if old.last_commit > before.cst and (commits_when_idle(before, old) or is_steady(old, STEADY_COMMITS))
    ]
    if not last:
        return None
    (least, most), sync = join, max(0, state.ts - state.cst)
    # A commit may bring a later time than its record.
    silent = max(state.ts - min(last), least + sync)
    return silent if most is None else min(silent, most + sync)


def _counts(state: GroupState, change: Change) -> Details:
    details: Details = {
        "joined": len(change.joined),
        "left": len(change.left),
        "replaced": len(change.replaced),
    }
    if state.members:
        names = [member.family for member in state.members]
        details["family"] = max(sorted(set(names)), key=names.count)
    return details
