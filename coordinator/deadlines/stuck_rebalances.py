"""Stuck rebalances without the probe: a join phase that does not end, a convergence that does not come.

*Classic groups.* No record shows a join phase, but commits do. Eager clients that commit when idle commit
once more as they rejoin, all within a heartbeat, and not again until the join phase ends. So a rebalance is
suspected if at least two of them stop together and no member of the group commits any more, while other
groups of the shard go on. Past the threshold it is stuck. Members that fell silent long before are the ones
that the others wait for. The probe reports the same sooner, and overrules this. The next record completes the
incident, a commit withdraws it. A group that is alone in its shard is not judged: its coordinator may be
unreachable.

*Epoch-based groups.* Records show that the group has not converged and which members have not acknowledged
the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.trace import commits_when_idle
from rebalance_monitor.coordinator.deadlines import not_rejoined
from rebalance_monitor.coordinator.deadlines.member_deadlines import AWAY, owes
from rebalance_monitor.coordinator.deadlines.stuck_limits import MOST_MS, Limits, limits
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MAX_KEPT, CauseEntry, deadline_anchor, end_of
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.rebalance import baselines
from rebalance_monitor.coordinator.rebalance.report import member_entry
from rebalance_monitor.coordinator.state.group_state import NEVER
from rebalance_monitor.coordinator.state.membership import COOPERATIVE
from rebalance_monitor.coordinator.state.roster import roster_of
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_HEARTBEAT_MS = 3_000
# Default of the longest heartbeat interval that brokers allow members of epoch-based groups.
_LONGEST_BEAT_MS = 15_000
_TOGETHER = 2
_CONFIDENCE = 0.6
# Stable, and waiting for partitions that others have yet to release.
_AT_TARGET = frozenset({0, 2})
UNSETTLED = frozenset({Status.ASSIGNING, Status.RECONCILING})


def due(state: GroupState, settings: DetectionSettings, live_since: int) -> int:
    """Earliest clock (ms) at which `on_clock` may have something to say; 2**63 - 1 if none."""
    unsettled = state.status in UNSETTLED and baselines.knows_epochs(state)
    if state.stuck.incident:
        louder = unsettled and state.group_type != "classic" and not state.stuck.is_critical
        return state.stuck.since + _limits(state, settings).pages + settings.grace_ms if louder else NEVER
    if state.stuck.suspected or unsettled:
        return _since(state, live_since) + _limits(state, settings).warns + settings.grace_ms
    if state.status in UNSETTLED:
        return NEVER
    stopped = _stopped(state, live_since)
    return _newest(stopped) + _wait(stopped) + settings.grace_ms if stopped else NEVER


def on_clock(state: GroupState, scene: Scene, live_since: int, shard_ts: int) -> list[Finding]:
    """Report what is suspected, or stuck, once that is `due`; `shard_ts`: newest record of the shard (ms)."""
    if scene.ts < due(state, scene.settings, live_since):
        return []
    if state.stuck.suspected or state.status in UNSETTLED:
        return [_stuck(state, scene, _since(state, live_since))]
    stopped = _stopped(state, live_since)
    if shard_ts < _newest(stopped) + _wait(stopped) // 2:
        return []
    return [_suspect_stuck(state, scene, stopped)]


def settle(state: GroupState, scene: Scene, resolution: str) -> list[Finding]:
    """Close what is open: a record `completed` it, or a commit or the group's end `withdrawn`."""
    found = []
    for kind, incident in (
        (Kind.REBALANCE_IN_PROGRESS, state.stuck.suspected),
        (Kind.REBALANCE_STUCK, state.stuck.incident),
    ):
        if incident:
            found.append(_resolved(state, scene, kind, incident, resolution))
    # An epoch-based group may fall behind again without another bump: that is another incident.
    state.stuck.since = scene.ts if state.stuck.incident and state.group_type != "classic" else -1
    state.stuck.suspected = state.stuck.incident = state.stuck.waits_for = ""
    state.stuck.is_critical = False
    return found


def _stopped(state: GroupState, live_since: int) -> list[Member]:
    """Return the idle committers of an eager group that stopped together, if it may be in a join phase."""
    eager = state.group_type == "classic" and state.protocol_type == "consumer"
    if not eager or state.status != Status.STABLE or state.protocol in COOPERATIVE:
        return []
    watched = [m for m in state.members if m.cadence > 0 and m.offsets and commits_when_idle(state, m)]
    newest = _newest(m for m in state.members if m.commits)
    if newest <= max(state.cst, live_since):
        return []
    reach = newest - max((m.cadence for m in watched), default=0) - _HEARTBEAT_MS
    stopped = [m for m in watched if m.last_commit >= reach]
    return stopped if len(stopped) >= _TOGETHER else []


def _newest(members: Iterable[Member]) -> int:
    return max((member.last_commit for member in members), default=-1)


def _wait(stopped: list[Member]) -> int:
    """How long (ms) all must be silent: two cadences and a heartbeat, but at least half a session."""
    return max(max(2 * m.cadence + _HEARTBEAT_MS, m.session_timeout // 2) for m in stopped)


def _since(state: GroupState, live_since: int) -> int:
    """Return since when (ms) the join phase lasts, or the longest awaited member has acknowledged nothing.

    A group that grows has a newer epoch all the time, which each member acknowledges at its next heartbeat.
    """
    if state.stuck.suspected or state.stuck.incident:
        return state.stuck.since
    began = max(state.epochs.bumped_at, state.stuck.since, live_since)
    # If no member is behind, the target has yet to be computed, after the newest record.
    return max(began, min(map(_waited, _behind(state)), default=state.ts))


def retarget(state: GroupState, epoch: int, at: int) -> None:
    """Take the target epoch written at `at` (ms): before it, no member at the previous epoch was behind."""
    if epoch != state.epochs.target and baselines.knows_epochs(state):
        for member in roster_of(state).at(state.epochs.target):
            if not owes(member):
                member.behind_at = at
    # Computed for the newest epoch of the group, whose own record may not have been read.
    state.epochs.target, state.generation = epoch, max(state.generation, epoch)


def moves_on(state: GroupState, scene: Scene) -> bool:
    """Whether all members that an epoch-based group was reported to wait for are gone."""
    if not state.stuck.incident or state.group_type == "classic":
        return False
    members, late = roster_of(state), _late(scene)
    there = members.count_at(AWAY) + members.count_at(state.epochs.target, _AT_TARGET)
    are_behind = there < len(members)

    def is_overdue(one: Member) -> bool:
        return _waited(one) <= late and (_is_behind(state, one) if are_behind else _is_owed(one))

    return members.first(is_overdue) is None


def _waited(member: Member) -> int:
    """Since when (ms) an epoch-based group waits for a member that is behind."""
    return max(member.acked_at, member.joined_at, member.behind_at)


def _overdue(state: GroupState, scene: Scene) -> list[Member]:
    """Return the members that are behind for longer than one heartbeat interval, longest first."""
    late = _late(scene)
    return sorted((member for member in _behind(state) if _waited(member) <= late), key=_waited)


def _late(scene: Scene) -> int:
    """Return since when (ms) at least an overdue member of an epoch-based group has been waited for."""
    return scene.ts - min(_LONGEST_BEAT_MS, scene.settings.stuck_after_ms or MOST_MS)


def _limits(state: GroupState, settings: DetectionSettings) -> Limits:
    """Return from when on a group is stuck, by the members that it waits for.

    For a classic group that is at least a minute unless it is configured, because commits only suggest it.
    """
    behind = state.members if state.group_type == "classic" else _behind(state)
    found = limits(
        settings, [one.session_timeout for one in behind], [one.rebalance_timeout for one in behind]
    )
    if state.group_type != "classic":
        return found
    warns = settings.stuck_after_ms or MOST_MS
    return Limits(warns, max(warns, found.pages))


def _behind(state: GroupState) -> list[Member]:
    """Return the members of an epoch-based group that it waits for.

    It does not wait for a member that has announced its departure. A member that waits for partitions of
    others is returned only if there is no other.
    """
    behind = [member for member in state.members if _is_behind(state, member)]
    return behind or [member for member in state.members if _is_owed(member)]


def _is_behind(state: GroupState, member: Member) -> bool:
    is_there = member.epoch == state.epochs.target and member.epoch_state in _AT_TARGET
    return not is_there and member.epoch != AWAY


def _is_owed(member: Member) -> bool:
    """Whether it waits for partitions of others, or has some to give up."""
    return member.epoch_state != 0 and member.epoch != AWAY


def _suspect_stuck(state: GroupState, scene: Scene, stopped: list[Member]) -> Finding:
    since = min(member.last_commit for member in stopped)
    silent = scene.ts - _newest(stopped)
    why = f"{len(stopped)} members that commit when idle stopped together {seconds(silent)} ago"
    found = _suspected(state, scene, Kind.REBALANCE_IN_PROGRESS, since, why, {})
    state.stuck.suspected, state.stuck.since = found.id, since
    return found


def _stuck(state: GroupState, scene: Scene, since: int) -> Finding:
    epochs, lasts = state.group_type != "classic", scene.ts - since
    ahead = _limits(state, scene.settings)
    details: Details = {"duration_ms": lasts, "threshold_ms": ahead.warns}
    if state.stuck.suspected:
        why = f"no generation for {seconds(scene.ts - since)} since members stopped committing together"
    else:
        why = f"not at epoch {state.epochs.target}; nothing acknowledged for {seconds(scene.ts - since)}"
        state.stuck.since = since
    state.stuck.is_critical = epochs and lasts >= ahead.pages
    found = _suspected(state, scene, Kind.REBALANCE_STUCK, since, why, details)
    state.stuck.incident = found.incident or ""
    state.stuck.waits_for = str(found.details.get("waits_for", ""))
    return found


def _suspected(
    state: GroupState, scene: Scene, kind: Kind, since: int, why: str, details: Details
) -> Finding:
    """Make the finding that opens an incident, or raises a stuck one to critical."""
    epochs = state.group_type != "classic"
    missing = _overdue(state, scene) if epochs else _missing(state, since, scene.ts)
    waits_for = ", ".join(dict.fromkeys(member.client_id or member.member_id for member in missing[:5]))
    anchor = deadline_anchor(state.generation, "", since)
    return scene.find(
        kind,
        state,
        at=scene.ts,
        evidence="read" if epochs else "suspected",
        confidence=1.0 if epochs else _CONFIDENCE,
        severity=Severity.WARNING if kind is Kind.REBALANCE_STUCK and not state.stuck.is_critical else None,
        anchor=anchor,
        phase="updated" if state.stuck.incident else "opened",
        incident=state.stuck.incident,
        opened_at=since,
        started_at_min=since,
        members_affected=len(missing),
        members=tuple(member_entry(member, "kept") for member in missing[:MAX_KEPT]),
        causes=(CauseEntry(Cause.UNKNOWN, 1.0, why),),
        details=details | ({"waits_for": waits_for} if waits_for else {}),
    )


def _missing(state: GroupState, since: int, now: int) -> list[Member]:
    """Return the members of a classic group that have not rejoined by `now` (ms)."""
    seen = [not_rejoined.describe_member(state, member) for member in state.members]
    found = not_rejoined.awaited(seen, since, now)
    named = () if found.any_of else [one.member_id for one in found.members]
    return [member for name in named for member in state.members if member.member_id == name]


def _resolved(state: GroupState, scene: Scene, kind: Kind, incident: str, resolution: str) -> Finding:
    opened = state.stuck.since if state.stuck.since >= 0 else state.epochs.bumped_at
    stuck = kind is Kind.REBALANCE_STUCK and state.stuck.waits_for
    waits_for: Details = {"waits_for": state.stuck.waits_for} if stuck else {}
    return scene.resolve(
        kind,
        state,
        incident,
        resolution,
        at=scene.ts,
        evidence="suspected" if state.group_type == "classic" else "read",
        anchor=end_of(incident),
        opened_at=opened,
        details={"duration_ms": max(0, scene.ts - opened)} | waits_for,
    )
