"""Why a member of an epoch-based group departed: decided at its tombstone, kept until convergence.

Leaving, a session fence and a rebalance-timeout fence write the same tombstones.

- A member that had to revoke (state UNREVOKED) for its whole rebalance timeout was fenced for that, almost
  certainly.
- A static member that announced its departure (epoch -2) left. One that departs before its session can have
  expired was removed.
- Any other member is judged by its silence. Its length is exact, because no join phase lies between the
  removal and its record.

Heartbeats extend these sessions, commits do not. The client of a stalled application goes on sending
heartbeats, and each new epoch is acknowledged by one.
"""

from __future__ import annotations

from dataclasses import replace as with_changes
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace as changed

from rebalance_monitor.coordinator.commits.client_families import FAMILIES
from rebalance_monitor.coordinator.commits.siblings import siblings_of
from rebalance_monitor.coordinator.commits.trace import commits_when_idle
from rebalance_monitor.coordinator.deadlines.member_deadlines import AWAY, is_assumed, owes
from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence, Trace, encode
from rebalance_monitor.coordinator.departure.hypotheses import client_of
from rebalance_monitor.coordinator.departure.observe import (
    committed,
    is_telling_silence,
    orders_of,
    places_of,
    work_of,
)
from rebalance_monitor.coordinator.departure.verdicts import Departure, Measured, judge
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import ASSUMED, seconds
from rebalance_monitor.coordinator.modern import rejoins
from rebalance_monitor.coordinator.rebalance import baselines
from rebalance_monitor.coordinator.state.roster import roster_of
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.roster import Roster

_FENCE_SLACK_MS = 1_500
_WAIT_MS = 500
# Heartbeats of a session: no fewer than with the longest interval that brokers allow.
_LEAST_HEARTBEATS = 3
_MAX_DEPARTED = 50
# State of a member that waits for partitions of others (KIP-848).
_UNRELEASED = 2
# It may have gone by itself before the timer that was set again ran out.
_FENCED_LATE = 0.5


class _Heard(NamedTuple):
    """Evidence of a departure; `life`: its last sign of work (ms); `speaks`: whether silence since does."""

    evidence: Evidence
    life: int
    speaks: bool


def note_departure(state: GroupState, member: Member, scene: Scene) -> tuple[CauseEntry, ...]:
    """Judge a member at its tombstone and keep the verdict until the group has converged; return it."""
    heard = heard_of(state, member, scene.ts, assumed=is_assumed(state, member, scene))
    usual = _judge(member, heard, scene)
    gone = (
        _undescribed(state, member, usual)
        or _fenced(member, scene)
        or rejoins.missed(state, member, scene, usual.seen)
        or _overdue(member, scene, usual)
    )
    seen = gone.seen
    by_model = gone is usual and member.instance_id is None
    evidence = heard.evidence if by_model else changed(heard.evidence, apart=(-1,))
    state.changes.evidence[member.member_id] = encode(evidence).decode()
    state.changes.newcomers.discard(member.member_id)
    state.changes.resubscribed.discard(member.member_id)
    _forget_predecessor(state, member)
    state.changes.departed.append(member)
    state.changes.silences.append([seen.silence, seen.session, seen.rebalance, seen.cadence, scene.ts])
    state.changes.verdicts.append([[entry.cause.value, entry.confidence, entry.why] for entry in gone.causes])
    # A group that never converges must not grow: the newest departures are the ones that matter.
    state.changes.uncounted += max(0, len(state.changes.departed) - _MAX_DEPARTED)
    for dropped in state.changes.departed[:-_MAX_DEPARTED]:
        state.changes.evidence.pop(dropped.member_id, None)
    for kept in (state.changes.departed, state.changes.silences, state.changes.verdicts):
        del kept[:-_MAX_DEPARTED]
    return gone.causes


def _undescribed(state: GroupState, member: Member, usual: Departure) -> Departure | None:
    """Whether what describes the member was not read: neither its timeouts nor its instance id are known."""
    if baselines.is_described(state, member):
        return None
    why = "the record that describes it was not read: neither its timeouts nor its instance id are known"
    return Departure(member, usual.seen, (CauseEntry.of(member, Cause.UNKNOWN, 1.0, why),))


def _forget_predecessor(state: GroupState, member: Member) -> None:
    """Forget the departure of a process that a static member replaced in the same write: no member left."""
    for place, (before, (*_, at)) in enumerate(
        zip(state.changes.departed, state.changes.silences, strict=True)
    ):
        if (before.instance_id, at) == (member.instance_id or "", member.joined_at):
            for kept in (state.changes.departed, state.changes.silences, state.changes.verdicts):
                del kept[place]
            state.changes.evidence.pop(before.member_id, None)
            return


def _judge(member: Member, heard: _Heard, scene: Scene) -> Departure:
    """Judge by the timers: no join phase stands between a removal and its record."""
    evidence, life, speaks = heard
    (usual,) = judge([member], evidence, history=False).gone
    seen = replace(usual.seen, silence=max(0, scene.ts - life))
    if member.instance_id is None:
        return replace(usual, seen=seen)
    return _static(member, seen, evidence.departed[0], speaks=speaks)


def heard_of(state: GroupState, member: Member, now: int, *, assumed: bool = False) -> _Heard:
    """Return the evidence of a departure at `now` (ms); the member is not in `state` any more.

    `assumed`: nobody said what its session timeout is.
    """
    rest = roster_of(state)
    siblings, family = siblings_of(rest), FAMILIES[_family(member, rest)]
    static = member.instance_id is not None
    heard = max(member.last_commit, member.joined_at, member.acked_at)
    worked = heard if static or family.polls_to_rejoin else _worked_at(member, heard)
    speaks = is_telling_silence(state, member, siblings, worked)
    life = worked if speaks else heard
    acknowledged = max(member.joined_at, member.acked_at)
    one = Departed(
        session=member.session_timeout,
        rebalance=max(member.rebalance_timeout, 0),
        since=max(0, now - acknowledged),
        trace=_trace(member, now, life, idle=speaks and commits_when_idle(state, member)),
        family=family.name,
        static=static and member.epoch == AWAY,
        went_on=siblings.committed(member, life),
        rearms=False,
        heard=now - heard,
        work=work_of(member, given=rest.any_given),
        deaf=_deaf(state, member, rest, now),
        young=_is_young(member, acknowledged) and state.group_type == "consumer",
        places=committed(state, member, lambda: places_of(state)),
        assumed=assumed,
    )
    evidence = Evidence(
        since=one.since,
        aborted=0,
        departed=(one,),
        survivors=(),
        kept=len(rest),
        joined=0,
        deadline=one.rebalance,
        session=one.session,
        phase=(0, _WAIT_MS),
        apart=(0,),
    )
    return _Heard(evidence, life, speaks)


def _is_young(member: Member, acknowledged: int) -> bool:
    """Whether it has never committed, and `acknowledged` (ms), its newest heartbeat, is one of its first.

    Members of share and streams groups may make no commit on this topic, however old they are.
    """
    first = member.joined_at + member.session_timeout // _LEAST_HEARTBEATS
    return not member.commits and acknowledged < first


def _trace(member: Member, now: int, life: int, *, idle: bool) -> Trace:
    """Return its commits; one that was given its only partitions after the last of them has made none."""
    last = now - member.last_commit if member.last_commit > member.joined_at else -1
    if life > member.last_commit and max(member.offsets, default=-1) < 0:
        last = -1
    return Trace(last, tuple(member.gaps), idle, member.commits, orders_of(member))


def _worked_at(member: Member, heard: int) -> int:
    """When its application last showed life (ms): its heartbeats, `heard` last, go on without that.

    One that has not committed any of its partitions yet had none before, so nothing to commit.
    """
    had = max(member.offsets, default=-1) >= 0
    return member.last_commit if had and member.last_commit > member.joined_at else heard


def _deaf(state: GroupState, member: Member, rest: Roster, now: int) -> int:
    """For how long (ms) it did not acknowledge an epoch that others had, -1 where a live one need not have.

    One hears of a new epoch in the answer to its next heartbeat, and a record says so at once, but of one
    that still has to revoke: it stays in its epoch meanwhile. One that waits for partitions takes them so
    once all others have given them up.
    """
    if member.epoch_state == _UNRELEASED and member.epoch == state.epochs.target:
        released = rest.count_at(state.epochs.target, (0,)) == len(rest)
        first = rest.last_ack(state.epochs.target) if released else None
    elif state.epochs.target > member.epoch >= 0:
        first = rest.first_ack(state.epochs.target, member.acked_at)
    else:
        return -1
    late = 0 if first is None else now - first
    beat = member.session_timeout // _LEAST_HEARTBEATS + _WAIT_MS
    return late if late >= beat and member.instance_id is None and not owes(member) else -1


def _family(member: Member, rest: Roster) -> str:
    """Return the member's own family, else the one that most others of the group show."""
    own = member.family if member.family != "unknown" else rest.family
    return own or "unknown-848"


def _static(member: Member, seen: Measured, one: Departed, *, speaks: bool) -> Departure:
    """Distinguish an expired session from a removal by an administrator.

    A static member that is closed announces its departure; it is not removed.
    Its last sign of life may be a heartbeat later than the one from which its session runs.
    """
    said = "after it announced its departure" if member.epoch == AWAY else "without announcing it"
    why = f"silent {seconds(seen.silence)}, {said}; session timeout "
    why += seconds(seen.session) + ASSUMED * one.assumed
    early = seen.session // _LEAST_HEARTBEATS + _FENCE_SLACK_MS
    shares: tuple[tuple[Cause, float], ...]
    if seen.silence < seen.session - early:
        # The session timeout is in no record: what is assumed may be too long.
        shares = ((Cause.MEMBER_REMOVED_BY_ADMIN, 0.5), (Cause.STATIC_MEMBER_EXPIRED, 0.4))
    elif member.epoch == AWAY or _fits(member, seen, early, speaks=speaks, holds=client_of(one).holds):
        shares = ((Cause.STATIC_MEMBER_EXPIRED, 0.9),)
    else:
        shares = ((Cause.STATIC_MEMBER_EXPIRED, 0.55), (Cause.UNKNOWN, 0.45))
    return Departure(member, seen, tuple(CauseEntry.of(member, cause, share, why) for cause, share in shares))


def _fits(member: Member, seen: Measured, early: int, *, speaks: bool, holds: bool) -> bool:
    """Whether its session ended just as one does that began with its last sign of life, or with a stall.

    A live member that has nothing to commit is as silent. That it acknowledged an epoch is a heartbeat.
    """
    if not speaks and member.last_commit > member.acked_at:
        return False
    spread = max(seen.cadence, 0) * speaks + _FENCE_SLACK_MS
    begun = (0, seen.rebalance) if holds else (0,)
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
        "which starts again where a coordinator was loaded meanwhile"
    )
    entry = CauseEntry.of(member, Cause.JOIN_DEADLINE_MISSED, _FENCED_LATE, why)
    rest = [
        with_changes(one, confidence=round(one.confidence * (1 - _FENCED_LATE), 2)) for one in usual.causes
    ]
    return Departure(member, usual.seen, (entry, *rest))


def _fenced(member: Member, scene: Scene) -> Departure | None:
    """Whether it was removed for not revoking in time, which has a pattern of its own."""
    late = scene.ts - member.acked_at - member.rebalance_timeout
    if not owes(member) or member.rebalance_timeout < 0 or not 0 <= late <= _FENCE_SLACK_MS:
        return None
    silence = scene.ts - max(member.last_commit, member.acked_at)
    timeouts = member.session_timeout, member.rebalance_timeout
    seen = Measured(*timeouts, silence, max(member.cadence, 0), goodbye=True)
    took = seconds(scene.ts - member.acked_at)
    why = f"it had {took} to give up partitions; rebalance timeout {seconds(member.rebalance_timeout)}"
    return Departure(member, seen, (CauseEntry.of(member, Cause.JOIN_DEADLINE_MISSED, 0.95, why),))
