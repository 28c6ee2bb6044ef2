"""Storms: too many disruptive generations of one group in a sliding window; one incident until quiet.

Each generation is classified by what the group lost and what came back:

- Losing a member counts if the member itself joined during the disturbance (`young`), or departed by a fault
  of its own (`crash_loops.py`).
- A rebalance among the same members counts, and so does each failed generation.
- Replacing lost members counts from the fourth time on that a replacement is itself lost.
- Losing and replacing other members counts only if the same client has also lost a young member twice.

So a rolling restart, in which every member leaves and returns once, is recognised and is no storm. Neither is
stopping the group after it, nor its roll-back. An Empty counts if the group lost a young member that sent no
LeaveGroup. If all members sent it, the group was stopped: its next start begins anew, unless the group had
hardly started and stops like that again and again. A departure from an epoch-based group is noted when it
happens, because a group that never converges storms as well. First starts, scale-outs, cooperative follow-ups
and the rebalances that Kafka Streams announces are never noted.

A storm resolves after the quiet time, counted between the times of records. Records alone decide which storm
a generation belongs to; the clock only publishes the end sooner. So a late record goes on with the storm of
its own time. If the end of that storm is published already, it stays resolved until it has grown by the
threshold, which is published as an update.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.commits.client_families import instance_of
from rebalance_monitor.coordinator.findings.causes import LOSSES as CAUSED_BY_LOSS
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, MAJORITY, CauseEntry, deadline_anchor
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.state.group_state import NEVER
from rebalance_monitor.coordinator.state.membership import Change
from rebalance_monitor.coordinator.state.roster import roster_of
from rebalance_monitor.coordinator.storms import (
    crash_loops,
    rolling_restarts,
    scoring,
    static_takeovers,
)
from rebalance_monitor.coordinator.storms.rolling_restarts import AGAIN, LOSSES, START_MS, YOUNG, Code
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member, StormState

MAX_EVENTS, _BLAMED = 128, 2
_VALUES = attrgetter(*(field.name for field in fields(CauseEntry)))
_CHURN = frozenset({Cause.MEMBER_LEFT, Cause.MEMBER_JOINED})


def note_generation(
    state: GroupState, scene: Scene, change: Change, at: int, causes: tuple[CauseEntry, ...]
) -> list[Finding]:
    """Note one completed generation, or the Empty that ends one; ms `at` is the end of its join phase."""
    found = _begin(state, scene, at)
    flapping = static_takeovers.flapping(state, change, at) if change.replaced else None
    if causes and causes[0].cause is Cause.FIRST_START:
        return found
    left, back = _departed(state, change)
    faulty = bool(left) and crash_loops.is_fault(state.storm, left, causes, at)
    code, offender = _classify(state.storm, replace(change, left=left), flapping, faulty=faulty)
    if _is_expected(state, scene, causes, faulty=faulty):
        code = None
    starting = code is Code.SAME and (at - state.started_at <= START_MS or len(left) < len(change.left))
    if code is None or starting:
        # A departure from an epoch-based group was noted when it happened; it may have completed a restart.
        return found + (
            rolling_restarts.find_completed(state, scene, at) if len(left) < len(change.left) else []
        )
    # A member that returns within a convergence comes after its loss, which began the convergence.
    when = at if state.group_type == "classic" else max(state.epochs.bumped_at, 0)
    if not state.members and rolling_restarts.was_job(state, scene, at, causes):
        rolling_restarts.end_run(state.storm)
        return found
    _append(state, when, code, len(left) + back, offender or _asked(state, causes))
    return found + _judge(state, scene, at, causes) + rolling_restarts.find_completed(state, scene, at)


def note_departure(
    state: GroupState, scene: Scene, member: Member, causes: tuple[CauseEntry, ...]
) -> list[Finding]:
    """Note a departed member of an epoch-based group: the group may never converge.

    A static member may still be replaced, which the convergence shows.
    """
    if not _goes_for_good(state, member) or _is_starting(state, member, scene.ts):
        return []
    found = _begin(state, scene, scene.ts)
    if not state.members and rolling_restarts.was_job(state, scene, scene.ts, causes):
        rolling_restarts.end_run(state.storm)
        return found
    faulty = crash_loops.is_fault(state.storm, (member,), causes, scene.ts)
    if _is_expected(state, scene, causes, faulty=faulty):
        return found
    code, _ = _classify(state.storm, Change((), (member,), (), ()), faulty=faulty)
    along = _goes_along(state, member)
    _append(state, scene.ts, code or Code.LOST, 1, member)
    if along:
        state.storm.events[-1][2] = 0
    return found + _judge(state, scene, scene.ts, causes)


def _goes_along(state: GroupState, member: Member) -> bool:
    """Whether others have departed since the group was last stable, were noted, and nobody has joined since.

    That is one disturbance, as it is one generation of a classic group: a shrinking group comes to its end.
    """
    last = int(state.storm.events[-1][0]) if state.storm.events else -1
    return last >= max(state.cst, member.joined_at, 0) and not state.changes.newcomers


def note_failed(state: GroupState, scene: Scene, count: int, at: int) -> list[Finding]:
    """Note `count` generations that failed before `at`."""
    found = _begin(state, scene, at)
    _append(state, at, Code.FAILED, count, None)
    return found + _judge(state, scene, at, ())


def settle(state: GroupState, scene: Scene) -> list[Finding]:
    """End an open storm if it has been quiet for long enough before the record of `scene`."""
    storm = state.storm
    if not storm.incident or scene.ts < _quiet_at(state, scene.settings.storm_quiet_ms):
        return []
    found = [] if storm.announced else [_resolved(state, scene)]
    storm.incident, storm.opened_at, storm.sequence, storm.total = "", -1, 0, 0
    storm.announced = False
    storm.events, storm.blamed = [], []
    return found


def announce(state: GroupState, scene: Scene, now: int) -> list[Finding]:
    """Resolve an open storm once: at `now` (ms) every record that could belong to it has been read."""
    if now < wake(state, scene.settings.storm_quiet_ms, scene.settings.grace_ms):
        return []
    state.storm.announced = True
    return [_resolved(state, scene)]


def is_open(storm: StormState) -> bool:
    """Whether a storm is open."""
    return bool(storm.incident) and not storm.announced


def wake(state: GroupState, quiet_ms: int, grace_ms: int) -> int:
    """Clock (ms) at which an open storm is resolved if nothing more counts; `NEVER` without one."""
    return _quiet_at(state, quiet_ms) + grace_ms if is_open(state.storm) else NEVER


def marked(found: Finding, storm: StormState, since: int, *, renewed: bool) -> Finding:
    """Mark a `rebalance` as disruptive if it, or a failed one before it since `since` (ms), counts.

    Otherwise mark it if it has `renewed` the group, as a deployment does.
    """
    weights = scoring.weights(storm) if storm.events else ()
    for event, weight in zip(storm.events, weights, strict=True):
        if int(event[0]) >= since and weight:
            return replace(found, details=found.details | {"disruptive": 1})
    return replace(found, details=found.details | {"renewed": 1}) if renewed else found


def _begin(state: GroupState, scene: Scene, at: int) -> list[Finding]:
    """Forget the events that have left the window at `at` (ms), before another is noted."""
    found, storm = settle(state, scene), state.storm
    since = at - scene.settings.storm_window_ms
    storm.events = [event for event in storm.events if int(event[0]) > since][-MAX_EVENTS:]
    if not storm.events:
        storm.blamed = []
    rolling_restarts.forget(storm)
    return found


def _append(state: GroupState, when: int, code: Code, generations: int, offender: Member | None) -> None:
    """Note an event of so many `generations`, of a classic group one.

    An Empty counts if the group lost a young member.
    """
    weight = generations if code is Code.FAILED or state.group_type != "classic" else 1
    event: list[int | str] = [when, code, max(1, weight), ""]
    if not state.members and code is not Code.FAILED:
        event[2] = int(code in YOUNG)
    if offender is not None and offender.host:
        event[3] = f"{instance_of(offender.client_id)} {offender.host}"
        event += [offender.member_id, offender.instance_id or ""]
    state.storm.events.append(event)
    rolling_restarts.follow(state.storm, empty=not state.members)


def _is_expected(state: GroupState, scene: Scene, causes: tuple[CauseEntry, ...], *, faulty: bool) -> bool:
    """Whether members only joined or left cleanly, in a group for which that is expected (`expected_churn`).

    An expiry is never expected: a crash loop at the longest back-off also keeps a schedule. An idle member
    of an epoch-based group that leaves after a session writes what an expiry writes, and a sample lists it
    until then in both cases. Where neither is claimed the declaration decides.
    """
    if not scene.settings.expected_churn or faulty:
        return False
    if state.group_type != "classic":
        return bool(causes) and {one.cause for one in causes if one.confidence >= CLAIMED} <= _CHURN
    said = {cause.cause for cause in causes if cause.confidence >= MAJORITY}
    return bool(said) and said <= _CHURN


def _is_starting(state: GroupState, member: Member, at: int) -> bool:
    """Whether an epoch-based group, which `member` leaves at `at` (ms), is new and has not converged yet."""
    oldest = roster_of(state).oldest
    began = member.joined_at if oldest is None else min(oldest, member.joined_at)
    return state.epochs.stable < 0 and at - began <= START_MS


def _goes_for_good(state: GroupState, member: Member) -> bool:
    """Whether a departure is noted when it happens."""
    return state.group_type != "classic" and member.instance_id is None


def _departed(state: GroupState, change: Change) -> tuple[tuple[Member, ...], int]:
    """Return the departed members not noted yet, and how many are back within the same convergence."""
    if state.group_type == "classic":
        return change.left, 0
    gone = {(member.client_id, member.host) for member in change.left}
    back = sum((member.client_id, member.host) in gone for member in change.joined)
    return tuple(member for member in change.left if not _goes_for_good(state, member)), back


def _classify(
    storm: StormState, change: Change, flapping: Member | None = None, *, faulty: bool
) -> tuple[Code | None, Member | None]:
    """Classify a generation: event code and responsible member, or None if it does not count towards a storm.

    `flapping`: a static member whose place was taken again and again. `faulty`: the departed member is to
    blame for its departure.
    """
    losses = _first(storm, LOSSES)
    for lost, code in ((AGAIN, Code.CYCLE), (YOUNG, Code.AGAIN), (LOSSES, Code.YOUNG)):
        since = _first(storm, lost)
        for member in change.left:
            if member.joined_at > since:
                return code, member
    if change.left:
        return Code.LOST if faulty else Code.RESTART, change.left[0]
    if change.joined:
        return (Code.RETURN, change.joined[0]) if losses < NEVER else (None, None)
    return (None if change.replaced and flapping is None else Code.SAME), flapping


def _asked(state: GroupState, causes: tuple[CauseEntry, ...]) -> Member | None:
    """Return the leader if it is known to have asked for a rebalance among the same members."""
    named = causes[0].member_id if causes and causes[0].cause is Cause.LEADER_REJOINED else None
    return next((member for member in state.members if member.member_id == named), None)


def _first(storm: StormState, codes: AbstractSet[Code]) -> int:
    return next((int(event[0]) for event in storm.events if event[1] in codes), NEVER)


def _quiet_at(state: GroupState, quiet_ms: int) -> int:
    return state.storm.last_at + quiet_ms


def _resolved(state: GroupState, scene: Scene) -> Finding:
    storm, settings = state.storm, scene.settings
    due = _quiet_at(state, settings.storm_quiet_ms)
    return scene.resolve(
        Kind.STORM,
        state,
        storm.incident,
        "quiet",
        at=due,
        evidence="derived",
        anchor=f"{storm.incident}/{deadline_anchor(0, '', due)}",
        sequence=storm.sequence,
        opened_at=storm.opened_at,
        offset=None,
        details={"total": storm.total, "window_ms": settings.storm_window_ms},
    )


def _judge(state: GroupState, scene: Scene, at: int, causes: tuple[CauseEntry, ...]) -> list[Finding]:
    """Open a storm, or update an open one each time it has grown by the threshold."""
    storm, settings = state.storm, scene.settings
    causes = _blamed(storm, causes)
    completed, failed = scoring.counted(storm)
    if storm.incident:
        grown = scoring.weights(storm)[-1]
        if not grown:
            return []
        storm.last_at = scene.ts
        # An event that counts only since another loss was not counted when it happened.
        storm.total = max(storm.total + grown, completed + failed)
        if storm.total < settings.storm_threshold * (storm.sequence + 2):
            return []
        storm.sequence = storm.total // settings.storm_threshold - 1
        storm.announced = False
        return [_report(state, scene, at, "updated", (completed, failed), causes)]
    if completed + failed < settings.storm_threshold:
        return []
    storm.opened_at, storm.last_at = at, scene.ts
    storm.total = completed + failed
    found = _report(state, scene, at, "opened", (completed, failed), causes)
    storm.incident = found.incident or ""
    storm.sequence = storm.total // settings.storm_threshold - 1
    return [found]


def _blamed(storm: StormState, causes: tuple[CauseEntry, ...]) -> tuple[CauseEntry, ...]:
    """Return the causes of a counted rebalance; if members only came back in it, of the one before it."""
    came_back = bool(causes) and causes[0].cause is Cause.MEMBER_JOINED
    if came_back and not any(entry.cause in CAUSED_BY_LOSS for entry in causes):
        return tuple(_entry(*one) for one in storm.blamed) or causes
    if causes:
        storm.blamed = [[*_VALUES(entry)] for entry in causes[:_BLAMED]]
    return causes


def _entry(cause: Any, *fields: Any) -> CauseEntry:  # noqa: ANN401 - as the state has them
    return CauseEntry(Cause(cause), *fields)


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
    details.update(scoring.worst(storm))
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
