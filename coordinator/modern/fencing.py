"""Why a member of an epoch-based group went: judged at its tombstone, kept until the group has converged.

Leaving, a session fence and a rebalance-timeout fence write the same tombstones. A member that still had to
revoke (state UNREVOKED) for its whole rebalance timeout was fenced for that, near-certainly; a static member
that announced its departure (epoch -2) is known, and one that goes before its session can have expired was
removed; the rest is told by silence, which is sharp here because no join barrier stands between the removal
and its record. Commits do not extend these sessions, heartbeats do, which a stalled application's client goes
on sending: each new epoch is acknowledged by one of these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import FAMILIES
from rebalance_monitor.coordinator.deadlines.member_deadlines import AWAY, owes
from rebalance_monitor.coordinator.departure.habits import by_hand, cadence, quietness
from rebalance_monitor.coordinator.departure.measured import Silence
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import seconds, who
from rebalance_monitor.coordinator.modern import rejoins
from rebalance_monitor.coordinator.rebalance import baselines
from rebalance_monitor.coordinator.rebalance.rebalance_causes import Departure, judged

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_FENCE_SLACK_MS = 1_500
_WAIT_MS = 500
# A client that noticed its breach commits and gives up its partitions before it says goodbye. Who commits by
# hand may have polled long before its last commit, which takes as much of the window.
_LEAVES_MS = 750
# Heartbeats of a session: as many as usual, and no fewer than with the longest interval that brokers allow.
_HEARTBEATS, _LEAST_HEARTBEATS = 6, 3
_MAX_DEPARTED = 50
_STALL_MS = 5_000
# Some clients' heartbeats end with a stall as well.
_DEAF, _DEAF_OR_STALLED = 0.8, 0.5
# It may have gone by itself before the timer that was set again ran out.
_FENCED_LATE = 0.5


def note_departure(state: GroupState, member: Member, scene: Scene) -> tuple[CauseEntry, ...]:
    """Judge a member at its tombstone and keep the verdict until the group has converged; return it."""
    gone = _undescribed(state, member, scene) or _fenced(member, scene)
    if gone is None:
        usual = _judge(state, member, scene)
        late = rejoins.missed(state, member, scene, usual.seen)
        gone = late or _deaf(state, member, scene, usual.seen) or _overdue(member, scene, usual)
    seen = gone.seen
    for names in (state.newcomers, state.resubscribed):
        if member.member_id in names:
            names.remove(member.member_id)
    _forget_predecessor(state, member)
    state.departed.append(member)
    state.silences.append([seen.silence, seen.session, seen.rebalance, seen.cadence, scene.ts])
    state.verdicts.append([[entry.cause.value, entry.confidence, entry.why] for entry in gone.causes])
    # A group that never converges must not grow: the newest departures are the ones that matter.
    state.uncounted += max(0, len(state.departed) - _MAX_DEPARTED)
    for kept in (state.departed, state.silences, state.verdicts):
        del kept[:-_MAX_DEPARTED]
    return gone.causes


def _undescribed(state: GroupState, member: Member, scene: Scene) -> Departure | None:
    """Whether what describes the member was not read: neither its timeouts nor its instance id are known."""
    if baselines.is_described(state, member):
        return None
    why = "the record that describes it was not read: neither its timeouts nor its instance id are known"
    return Departure(
        member, _judge(state, member, scene).seen, (CauseEntry(Cause.UNKNOWN, 1.0, why, *who(member)),)
    )


def _forget_predecessor(state: GroupState, member: Member) -> None:
    """Forget the departure of the process whose place a static member took in the same write: nobody left."""
    for place, (before, (*_, at)) in enumerate(zip(state.departed, state.silences, strict=True)):
        if (before.instance_id, at) == (member.instance_id or "", member.joined_at):
            for kept in (state.departed, state.silences, state.verdicts):
                del kept[place]
            return


def _judge(state: GroupState, member: Member, scene: Scene) -> Departure:
    family = FAMILIES[_family(member, state.members)]
    rest = [other for other in state.members if other is not member]
    static = member.instance_id is not None
    heard = max(member.last_commit, member.joined_at, member.acked_at)
    worked = heard if static or family.polls_to_rejoin else _worked_at(member, heard)
    quiet = quietness(state, member, rest, worked)
    life, hand = worked if quiet < 1 else heard, by_hand(state, member, family.name)
    seen = Silence(
        session=member.session_timeout,
        rebalance=max(member.rebalance_timeout, 1),
        silence=max(0, scene.ts - life),
        elapsed=max(0, scene.ts - max(member.joined_at, member.acked_at)),
        cadence=cadence(member, rest),
        held=0,
        wait=_WAIT_MS,
        static=static and member.epoch == AWAY,
        means=quiet < 1,
        committed=member.last_commit > member.joined_at,
        poll=family.enforces_poll,
        goodbye=not static,
        poll_early=family.poll_early,
        poll_late=max(family.poll_late(member.session_timeout), 0 if hand else _LEAVES_MS),
        poll_held=family.poll_held,
        session_early=member.session_timeout // _HEARTBEATS,
        quiet=quiet,
        closes=bool(family.commits_idle) and bool(member.offsets),
        by_hand=hand,
        stalled=family.poll_held and 0 <= scene.ts - member.stalled_at <= _STALL_MS <= scene.ts,
        heard=scene.ts - heard if life < heard else -1,
    )
    if static:
        return _static(member, seen)
    return judged(member, seen)


def _worked_at(member: Member, heard: int) -> int:
    """When its application last showed life (ms): its heartbeats, `heard` last, go on without that.

    One that has not committed any of its partitions yet had none before, so nothing to commit.
    """
    had = max(member.offsets, default=-1) >= 0
    return member.last_commit if had and member.last_commit > member.joined_at else heard


def _deaf(state: GroupState, member: Member, scene: Scene, seen: Silence) -> Departure | None:
    """Whether its heartbeats had ended before it went: it never acknowledged an epoch that others had.

    A live member hears of a new epoch in the answer to its next heartbeat, and a record says so at once, but
    for one that still has to revoke: it stays in its epoch meanwhile. That is not asked where its commits
    tell more.
    """
    rest = [other for other in state.members if other is not member and other.acked_at > member.acked_at]
    told = [other.acked_at for other in rest if other.epoch >= state.target_epoch > member.epoch >= 0]
    late = scene.ts - min(told, default=scene.ts)
    beat = member.session_timeout // _LEAST_HEARTBEATS + _WAIT_MS
    asked = member.instance_id is None and not owes(member) and not seen.means
    if late < beat or not asked:
        return None
    why = (
        f"for {seconds(late)} it did not acknowledge epoch {state.target_epoch}, as others did and one does "
        f"with the next heartbeat; session timeout {seconds(member.session_timeout)}"
    )
    stalls = seen.poll_held and state.group_type == "consumer"
    entry = CauseEntry(Cause.SESSION_TIMEOUT, _DEAF_OR_STALLED if stalls else _DEAF, why, *who(member))
    return Departure(member, seen, (entry,))


def _family(member: Member, members: list[Member]) -> str:
    """Return the member's own family, else the one that others of the group show."""
    known = [m.family for m in (member, *members) if m.family != "unknown"]
    return known[0] if known else "unknown-848"


def _static(member: Member, seen: Silence) -> Departure:
    """Tell an expired session from a removal by hand: a static member that is closed only says that it goes.

    Its last sign of life may be a heartbeat later than the one that its session runs from.
    """
    said = "after it announced its departure" if member.epoch == AWAY else "without announcing it"
    why = f"silent {seconds(seen.silence)}, {said}; session timeout {seconds(seen.session)}"
    early = seen.session // _LEAST_HEARTBEATS + _FENCE_SLACK_MS
    shares: tuple[tuple[Cause, float], ...]
    if seen.silence < seen.session - early:
        # The session timeout is in no record: what is assumed may be too long.
        shares = ((Cause.MEMBER_REMOVED_BY_ADMIN, 0.5), (Cause.STATIC_MEMBER_EXPIRED, 0.4))
    elif member.epoch == AWAY or _fits(member, seen, early):
        shares = ((Cause.STATIC_MEMBER_EXPIRED, 0.9),)
    else:
        shares = ((Cause.STATIC_MEMBER_EXPIRED, 0.55), (Cause.UNKNOWN, 0.45))
    return Departure(
        member, seen, tuple(CauseEntry(cause, share, why, *who(member)) for cause, share in shares)
    )


def _fits(member: Member, seen: Silence, early: int) -> bool:
    """Whether its session ended just as one does that began with its last sign of life, or with a stall.

    A live member that has nothing to commit is as silent. That it acknowledged an epoch is a heartbeat.
    """
    if not seen.means and member.last_commit > member.acked_at:
        return False
    spread = seen.cadence * seen.means + _FENCE_SLACK_MS
    begun = (0, seen.rebalance) if seen.poll_held else (0,)
    return any(-early <= seen.silence - stall - seen.session <= spread for stall in begun)


def _overdue(member: Member, scene: Scene, usual: Departure) -> Departure:
    """Judge a member that had partitions to give up for longer than its rebalance timeout.

    Its coordinator moved meanwhile, and the new one gave it the whole timeout once more.
    """
    took, limit = scene.ts - member.acked_at, member.rebalance_timeout
    if not owes(member) or limit < 0 or took <= limit + _FENCE_SLACK_MS:
        return usual
    why = (
        f"it had {seconds(took)} to give up partitions; rebalance timeout {seconds(limit)}, "
        "which a coordinator that was loaded meanwhile counts anew"
    )
    entry = CauseEntry(Cause.JOIN_DEADLINE_MISSED, _FENCED_LATE, why, *who(member))
    rest = [replace(one, confidence=round(one.confidence * (1 - _FENCED_LATE), 2)) for one in usual.causes]
    return Departure(member, usual.seen, (entry, *rest))


def _fenced(member: Member, scene: Scene) -> Departure | None:
    """Whether it was removed for not revoking in time, which nothing else looks like."""
    late = scene.ts - member.acked_at - member.rebalance_timeout
    if not owes(member) or member.rebalance_timeout < 0 or not 0 <= late <= _FENCE_SLACK_MS:
        return None
    seen = Silence(
        session=member.session_timeout,
        rebalance=member.rebalance_timeout,
        silence=scene.ts - max(member.last_commit, member.acked_at),
        elapsed=scene.ts - member.joined_at,
        cadence=max(member.cadence, 0),
        held=0,
        wait=0,
        static=member.instance_id is not None,
        means=True,
        committed=True,
        poll=None,
        goodbye=True,
    )
    took = seconds(scene.ts - member.acked_at)
    why = f"it had {took} to give up partitions; rebalance timeout {seconds(member.rebalance_timeout)}"
    return Departure(member, seen, (CauseEntry(Cause.JOIN_DEADLINE_MISSED, 0.95, why, *who(member)),))
