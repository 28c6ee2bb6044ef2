"""Storms: too many disruptive generations of one group in a sliding window; one incident until quiet.

What counts is decided per generation: losing a member that itself came during the disturbance (`young`),
taking a member back after that, a rebalance among the same members, and each failed generation. Losing and
replacing members that were there before the disturbance counts only where the same client also lost a young
member twice, so a rolling restart, in which every member goes and comes back once, is recognised and is no
storm, nor is stopping the group after it. An Empty counts with the generation it ends, not by itself. First
starts, scale-outs, cooperative follow-ups and the rebalances that Kafka Streams announces are never noted. A
storm resolves after the quiet time, counted between the times of records: records alone decide which storm a
generation belongs to, the clock only tells the end sooner. A record that comes late for its own time
therefore goes on with the storm that it belongs to; one that was told as over stays so until it has grown by
the threshold, which is told as an update.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import CauseEntry, deadline_anchor
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.reasons import MAJORITY, seconds
from rebalance_monitor.coordinator.state import NEVER

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings import Details, Finding
    from rebalance_monitor.coordinator.membership import Change
    from rebalance_monitor.coordinator.scene import Scene
    from rebalance_monitor.coordinator.state import GroupState, Member, StormState

MAX_EVENTS = 128
START_MS = 30_000
"""For this long after a group's first generation its members are still starting, ms."""

_RESTARTED = 2
_UNSTABLE = 2
_NAMED = 4


_FAULTS = frozenset({Cause.POLL_INTERVAL_EXCEEDED, Cause.JOIN_DEADLINE_MISSED, Cause.SYNC_DEADLINE_MISSED})


class Code(StrEnum):
    """What a noted generation was."""

    RESTART = "r"
    LOST = "x"
    RETURN = "j"
    YOUNG = "y"
    SAME = "s"
    FAILED = "f"


_LOSSES = frozenset({Code.RESTART, Code.LOST, Code.YOUNG})
_DISRUPTIVE = frozenset({Code.LOST, Code.YOUNG, Code.SAME, Code.FAILED})


def note_generation(
    state: GroupState, scene: Scene, change: Change, at: int, causes: tuple[CauseEntry, ...]
) -> list[Finding]:
    """Note one completed generation, or the Empty that ends one; ms `at` is the end of its join phase."""
    storm = state.storm
    found = settle(state, scene)
    _prune(storm, at - scene.settings.storm_window_ms)
    code, offender = _classify(storm, change, causes)
    starting = code is Code.SAME and at - state.started_at <= START_MS
    if code is None or starting:
        return found
    who = "" if offender is None else f"{offender.client_id} {offender.host}"
    # Who returns within a convergence comes after its loss, which is when that began.
    when = at if state.group_type == "classic" else max(state.bumped_at, 0)
    event: list[int | str] = [when, code, _weight(state, change), who]
    storm.events.append(
        event if offender is None else [*event, offender.member_id, offender.instance_id or ""]
    )
    return found + _judge(state, scene, at, causes) + _restarts(state, scene, at)


def note_failed(state: GroupState, scene: Scene, count: int, at: int) -> list[Finding]:
    """Note `count` generations that failed before `at`."""
    found = settle(state, scene)
    _prune(state.storm, at - scene.settings.storm_window_ms)
    state.storm.events.append([at, Code.FAILED, count, ""])
    return found + _judge(state, scene, at, ())


def settle(state: GroupState, scene: Scene) -> list[Finding]:
    """End an open storm if it has been quiet for long enough before the record of `scene`."""
    storm = state.storm
    if not storm.incident or scene.ts < _quiet_at(state, scene.settings.storm_quiet_ms):
        return []
    found = [] if storm.announced else [_resolved(state, scene)]
    storm.incident, storm.opened_at, storm.sequence, storm.total = "", -1, 0, 0
    storm.announced = False
    storm.events = []
    return found


def announce(state: GroupState, scene: Scene, now: int) -> list[Finding]:
    """Tell once that an open storm is over: at `now` (ms) every record that could belong to it is read."""
    if now < wake(state, scene.settings.storm_quiet_ms, scene.settings.grace_ms):
        return []
    state.storm.announced = True
    return [_resolved(state, scene)]


def is_open(storm: StormState) -> bool:
    """Whether a storm was told that has not been told as over."""
    return bool(storm.incident) and not storm.announced


def wake(state: GroupState, quiet_ms: int, grace_ms: int) -> int:
    """Clock (ms) at which an open storm is told as over if nothing more counts; `NEVER` without one."""
    return _quiet_at(state, quiet_ms) + grace_ms if is_open(state.storm) else NEVER


def marked(found: Finding, storm: StormState, since: int) -> Finding:
    """Return a `rebalance` marked, if it or what failed before it disrupts; noted since `since` (ms)."""
    unstable = _unstable(storm)
    for at, code, _, who, *_ in storm.events:
        if int(at) >= since and (code in _DISRUPTIVE or who in unstable):
            return replace(found, details=found.details | {"disruptive": 1})
    return found


def _unstable(storm: StormState) -> set[int | str]:
    """Return the clients that have lost a young member twice."""
    lost = Counter(event[3] for event in storm.events if event[1] == Code.YOUNG)
    return {who for who, times in lost.items() if times >= _UNSTABLE}


def counted(storm: StormState) -> tuple[int, int]:
    """(completed, failed) generations of the window that count."""
    unstable = _unstable(storm)
    completed = failed = 0
    for _, code, n, who, *_ in storm.events:
        if code == Code.FAILED:
            failed += int(n)
        elif code in {Code.YOUNG, Code.SAME} or who in unstable:
            completed += int(n)
    return completed, failed


def _weight(state: GroupState, change: Change) -> int:
    """How much a generation counts: an Empty nothing, a convergence its departures and returns."""
    if state.group_type == "classic" or not state.members:
        return int(bool(state.members))
    gone = {(member.client_id, member.host) for member in change.left}
    back = sum((member.client_id, member.host) in gone for member in change.joined)
    return max(1, len(change.left) + back)


def _classify(
    storm: StormState, change: Change, causes: tuple[CauseEntry, ...]
) -> tuple[Code | None, Member | None]:
    """Code and offender of a generation, code None where it is none of a storm's business."""
    losses = [int(event[0]) for event in storm.events if event[1] in _LOSSES]
    since = losses[0] if losses else NEVER
    for member in change.left:
        if member.joined_at > since:
            return Code.YOUNG, member
    if change.left:
        faulty = any(cause.cause in _FAULTS and cause.confidence >= MAJORITY for cause in causes)
        return Code.LOST if faulty else Code.RESTART, change.left[0]
    if change.joined:
        return (Code.RETURN, change.joined[0]) if losses else (None, None)
    return (None if change.replaced else Code.SAME), None


def _quiet_at(state: GroupState, quiet_ms: int) -> int:
    return state.storm.last_at + quiet_ms


def _resolved(state: GroupState, scene: Scene) -> Finding:
    storm, settings = state.storm, scene.settings
    due = _quiet_at(state, settings.storm_quiet_ms)
    return scene.find(
        Kind.STORM,
        state,
        at=due,
        evidence="derived",
        anchor=f"{storm.incident}/{deadline_anchor(0, '', due)}",
        phase="resolved",
        sequence=storm.sequence,
        incident=storm.incident,
        opened_at=storm.opened_at,
        resolution="quiet",
        offset=None,
        details={"total": storm.total, "window_ms": settings.storm_window_ms},
    )


def _prune(storm: StormState, before: int) -> None:
    storm.events = [event for event in storm.events if int(event[0]) > before][-MAX_EVENTS:]


def _judge(state: GroupState, scene: Scene, at: int, causes: tuple[CauseEntry, ...]) -> list[Finding]:
    """Open a storm, or tell how an open one goes on each time it has grown by the threshold."""
    storm, settings = state.storm, scene.settings
    completed, failed = counted(storm)
    if storm.incident:
        storm.last_at = scene.ts
        storm.total += 1
        if storm.total < settings.storm_threshold * (storm.sequence + 2):
            return []
        storm.sequence += 1
        storm.announced = False
        return [_report(state, scene, at, "updated", (completed, failed), causes)]
    if completed + failed < settings.storm_threshold:
        return []
    storm.incident = scene.identify(Kind.STORM, phase="opened")
    storm.opened_at, storm.last_at = at, scene.ts
    storm.total = completed + failed
    return [_report(state, scene, at, "opened", (completed, failed), causes)]


def _report(
    state: GroupState,
    scene: Scene,
    at: int,
    phase: str,
    counts: tuple[int, int],
    causes: tuple[CauseEntry, ...],
) -> Finding:
    storm, settings = state.storm, scene.settings
    completed, failed = counts
    details: Details = {
        "count": completed + failed,
        "completed": completed,
        "failed": failed,
        "window_ms": settings.storm_window_ms,
        "threshold": settings.storm_threshold,
        "total": storm.total,
        "rule": "generations",
    }
    details.update(_worst(storm))
    return scene.find(
        Kind.STORM,
        state,
        at=at,
        evidence="derived",
        phase=phase,
        sequence=storm.sequence,
        incident=storm.incident,
        opened_at=storm.opened_at,
        causes=causes,
        details=details,
    )


def _worst(storm: StormState) -> Details:
    """Return the client behind most of the noted generations, its newest member, and its share of them."""
    tally = Counter(str(event[3]) for event in storm.events if event[3])
    if not tally:
        return {}
    client, count = min(tally.items(), key=lambda item: (-item[1], item[0]))
    found: Details = {"worst_client": client, "worst_share": round(count / len(storm.events), 2)}
    named = [event for event in storm.events if event[3] == client and len(event) > _NAMED]
    if named:
        member, instance = map(str, named[-1][_NAMED:])
        found |= {"worst_member": member} | ({"worst_instance": instance} if instance else {})
    return found


def _restarts(state: GroupState, scene: Scene, at: int) -> list[Finding]:
    """Say once that every member was restarted: all present came during it and none of these was lost."""
    storm = state.storm
    removals = [int(event[0]) for event in storm.events if event[1] == Code.RESTART]
    calm = all(event[1] in {Code.RESTART, Code.RETURN, Code.FAILED} for event in storm.events)
    if len(removals) < _RESTARTED or not calm or storm.restart_at == removals[0]:
        return []
    if len(state.members) < _RESTARTED:
        return []
    if any(member.joined_at < removals[0] for member in state.members):
        return []
    storm.restart_at = removals[0]
    window = at - removals[0]
    why = f"every member was replaced once within {seconds(window)}"
    found = scene.find(
        Kind.ROLLING_RESTART,
        state,
        at=at,
        evidence="suspected",
        confidence=0.8,
        causes=(CauseEntry(Cause.MEMBER_LEFT, 0.8, why),),
        details={"restarted": len(state.members), "window_ms": window},
    )
    return [found]
