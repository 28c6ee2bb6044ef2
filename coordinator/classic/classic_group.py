"""Classic groups: GroupMetadata records (type 2) into state and findings.

One record is one completed generation, a static member's rewrite of the same generation, the moment the
group became empty, the placeholder of a brand-new group (generation 0), or a tombstone. A generation number
is used up by every completed join phase, so a hole between two records that were both read live counts
rebalances that failed. Holes that touch history, a tombstone or a change of group type say nothing and are
not reported, nor are holes between records that were written while the monitor was down for long. A jump that
no coordinator can have made in the time is a new baseline.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.checks import applications, assignment, unsubscribed_topics
from rebalance_monitor.coordinator.classic import static_returns
from rebalance_monitor.coordinator.commits import trace
from rebalance_monitor.coordinator.deadlines import silent_members, stuck_rebalances
from rebalance_monitor.coordinator.departure.observe import observed
from rebalance_monitor.coordinator.departure.phase import learn_heartbeats
from rebalance_monitor.coordinator.departure.verdicts import NOBODY, judge, sent
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import ranked
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lifecycle import close_incidents, empty_groups
from rebalance_monitor.coordinator.rebalance import (
    first_start,
    group_metadata,
    rebalance_causes,
    report,
    successors,
    visits,
)
from rebalance_monitor.coordinator.state import membership
from rebalance_monitor.coordinator.state.state_machine import EDGES, Event
from rebalance_monitor.coordinator.storms import rolling_restarts, static_takeovers, storm

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.departure.verdicts import Departure, Judged
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.rebalance.group_metadata import Membership
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.coordinator.state.membership import Change
    from rebalance_monitor.decoders import GroupMetadataValue

CLASSIC = "classic"
GROUP_METADATA = 2
"""The type of its records."""

_MAX_FAILED = 32
# One member alone that joins on and on in one machine takes as long.
_LEAST_JOIN_MS = 2
_MAX_AT_START = 3
_MAX_NEW = 4
_PLANNED = frozenset({Cause.COOPERATIVE_FOLLOW_UP, Cause.STREAMS_PROBING, Cause.GROUP_MIGRATED})
_CONNECT = frozenset({Cause.CONNECT_RECONFIGURED, Cause.CONNECT_DELAYED})


def on_value(state: GroupState, value: GroupMetadataValue, scene: Scene, size: int) -> list[Finding]:
    """Take one GroupMetadata value of `size` bytes into `state`; returns findings in a fixed order."""
    event = _event(state, value)
    edge = EDGES.get((state.status, event))
    found: list[Finding] = []
    if state.group_type != CLASSIC or edge is None or _is_another(state, value, scene):
        was_other = state.group_type not in {"", CLASSIC}
        found = close_incidents.begin_anew(state, scene, CLASSIC)
        # Without a tombstone, records of the group may be missing between: it does not count as a new group.
        if was_other:
            state.rebalances.migrated = max(state.rebalances.migrated, 0)
        edge = EDGES.get((state.status, event))
    status = state.status if edge is None else edge.after
    before = membership.as_it_was(state)
    after = group_metadata.read(state, value)
    _store(state, value, after, scene, status)
    if event is Event.PLACEHOLDER:
        return found
    if event is Event.STATIC_REWRITE:
        return _report_returns(before, state, after, scene)
    if state.stuck.suspected or state.stuck.incident:
        found += stuck_rebalances.settle(state, scene, "completed")
    found += _report_failed(before, state, scene)
    if event is Event.EMPTIED:
        return found + _report_emptied(before, state, scene) + _report_size(state, scene, size)
    return found + _report_generation(before, state, after, scene) + _report_size(state, scene, size)


def _is_another(state: GroupState, value: GroupMetadataValue, scene: Scene) -> bool:
    """Whether the record is not of the group that was known: numbers go back, or far ahead in no time.

    Each generation takes a request and an answer of every member. Nothing is derived of a group that was
    deleted meanwhile, or from a forged record.
    """
    jump = value.generation - state.generation
    return jump < 0 or (jump > _MAX_FAILED and jump * _LEAST_JOIN_MS > scene.ts - state.ts)


def _event(state: GroupState, value: GroupMetadataValue) -> Event:
    if value.members:
        same = value.generation == state.generation and state.members and state.group_type == CLASSIC
        return Event.STATIC_REWRITE if same else Event.GENERATION
    return Event.PLACEHOLDER if value.generation == 0 else Event.EMPTIED


def _store(
    state: GroupState, value: GroupMetadataValue, after: Membership, scene: Scene, status: str
) -> None:
    cst = value.current_state_timestamp
    if value.members and not state.members:
        state.started_at = scene.ts
    if value.members:
        state.rebalances.holes = 0
        state.topics, state.totals = after.topics, after.totals
    for member in after.members:
        # Before version 2 a record does not say when the join phase ended.
        member.joined_at = member.joined_at if member.joined_at > 0 else scene.ts
    if value.generation != state.generation:
        state.worked = state.last_commit
    state.status = status
    state.protocol_type = intern(value.protocol_type)
    state.protocol = intern(value.protocol or "")
    state.generation = value.generation
    state.leader = value.leader or ""
    state.cst = cst if cst > 0 else scene.ts
    state.ts, state.offset, state.live = scene.ts, scene.offset, not scene.history
    state.members, state.probing_at = after.members, after.probing_at
    if state.learned.idle_families:
        trace.keep_idle_families(state)
    state.connect = [after.connect.offset, after.connect.delay, int(after.connect.revoked)]
    state.dirty, state.rebalances.migrated = True, -1


def _report_failed(before: GroupState, state: GroupState, scene: Scene) -> list[Finding]:
    new = _is_new(before, state, scene)
    count = state.generation - 1 if new else state.generation - before.generation - 1
    unread = before.offset < scene.whole_since
    if count <= 0 or unread or not (new or (before.offset >= 0 and before.live and state.live)):
        return []
    state.rebalances.holes += not state.members
    beginning = not before.members and not before.rebalances.holes
    at_start = count <= _MAX_AT_START and (
        beginning or scene.ts - before.started_at <= rolling_restarts.START_MS
    )
    usual = at_start or (count <= _MAX_AT_START and _only_grew(before, state))
    since = scene.ts - scene.settings.storm_window_ms
    recent = [at for at in before.rebalances.failed if at > since][-_MAX_FAILED:]
    repeated = not usual and len(recent) + 1 >= scene.settings.failed_repeated
    found = report.failed(state, before, scene, count, at_start=at_start, repeated=repeated)
    if usual:
        return [found]
    state.rebalances.failed = [*recent, scene.ts]
    return [found, *storm.note_failed(state, scene, count, scene.ts)]


def _only_grew(before: GroupState, state: GroupState) -> bool:
    """Whether members joined and none left, and the record had not grown too large to be stored.

    A member that joins before the others have synced makes their SyncGroup fail.
    """
    change = membership.compare(before.members, state.members)
    grew = before.members and change.joined
    return bool(grew) and not (change.left or change.replaced or before.checks.too_large)


def _is_new(before: GroupState, state: GroupState, scene: Scene) -> bool:
    """Whether it is the first record of a group that did not exist: the Scala coordinator writes no other."""
    unknown = before.offset < 0 and before.rebalances.migrated < 0
    return unknown and scene.complete and state.live and state.generation <= _MAX_NEW


def _report_generation(
    before: GroupState, state: GroupState, after: Membership, scene: Scene
) -> list[Finding]:
    """Report a generation with members: which members changed, and why."""
    aborted = max(0, state.generation - before.generation - 1)
    # Members that came with the group from the other protocol are no new members.
    known = after.members if before.rebalances.migrated > 0 else before.members
    change = membership.compare(known, after.members)
    if change.replaced:
        change = static_returns.separate_returns(before, change, state.cst, aborted)
    judged = _explain_departures(before, state, change, aborted, scene)
    gone, asked = judged.gone, after.asked
    if before.members:
        causes = rebalance_causes.causes_of(before, after, change, gone, state.protocol, state.cst, aborted)
    else:
        causes = first_start.started(before, state, asked, new=_is_new(before, state, scene))
        if state.empty.visits:
            visits.forget(state, asked)
    if after.is_readable and len({member.subscribed for member in state.members}) > 1:
        causes += tuple(applications.shared(state.members, after.subscriptions))
    rebalance_causes.remember(state, causes)
    every = causes
    if gone or state.rebalances.expired:
        every += successors.causes(state, change, gone, state.cst)
    found = [report.rebalance(before, state, scene, change, judged, every)]
    found += _report_departed(before, state, scene, gone, found[0].id)
    found += _end_emptiness(state, scene)
    if asked is not None and (state.checks.unsubscribed or not asked.issuperset(before.topics)):
        found += unsubscribed_topics.note(before, state, asked, scene)
    planned = not causes or before.offset < 0 or _is_planned(causes[0].cause, change)
    if not planned and _may_disrupt(state, change):
        rolling_restarts.note_size(before, scene, state.cst)
        rolling_restarts.note_lives(state.storm, every)
        found += storm.note_generation(state, scene, change, state.cst, causes)
    may_renew = change.left or before.empty.at >= 0
    renewed = bool(may_renew) and rolling_restarts.renewed(before, change, causes, state.cst)
    if renewed or state.storm.events:
        found[0] = storm.marked(found[0], state.storm, state.cst, renewed=renewed)
    return found + _report_slow_sync(state, scene) + assignment.judge(before, state, scene, after)


def _explain_departures(
    before: GroupState, state: GroupState, change: Change, aborted: int, scene: Scene
) -> Judged:
    """Explain why members departed, and learn the timers that the rebalance shows."""
    if scene.history and not change.left:
        return NOBODY
    evidence = observed(before, change, state.cst, aborted, scene.settings.max_poll_interval_ms)
    if not change.left:
        state.learned.beats = list(learn_heartbeats(evidence))
        return NOBODY
    judged = judge(change.left, evidence, history=scene.history)
    if judged.explained is not None:
        state.learned.beats = list(judged.explained.beats)
        state.learned.ways = list(judged.explained.group_ways)
    return judged


def _is_planned(cause: Cause, change: Change) -> bool:
    """Whether a generation does not count towards a storm: it was announced, or a configuration moved."""
    return cause in _PLANNED or (cause in _CONNECT and not change.left and not change.joined)


def _may_disrupt(state: GroupState, change: Change) -> bool:
    """Whether a storm, or a rolling restart, may begin or go on: members that only joined are a scale-out."""
    only_grew = change.joined and not (change.left or change.replaced)
    return not only_grew or bool(state.storm.events or state.storm.incident)


def _report_departed(
    before: GroupState, state: GroupState, scene: Scene, gone: list[Departure], beside: str
) -> list[Finding]:
    found = report.departed(state, scene, gone, beside, before) if gone else []
    if any(member.silent_id for member in before.members):
        found += silent_members.resolve_departed(before, state, scene, gone)
    return found


def _report_emptied(before: GroupState, state: GroupState, scene: Scene) -> list[Finding]:
    """Report that the last member departed.

    The time of the record is the time of the departure: there was no member left to wait for.
    """
    if not before.members:
        # Members that came and left before their first assignment have restarted the retention.
        withdrawn = empty_groups.resolve_expiring(state, scene, "withdrawn")
        return withdrawn + ([] if scene.history else empty_groups.stands_empty(state, scene))
    change = membership.compare(before.members, [])
    aborted = max(0, state.generation - before.generation - 1)
    judged = _explain_departures(before, state, change, aborted, scene)
    gone = judged.gone
    causes = ranked([cause for departure in gone for cause in departure.causes])
    successors.causes(state, change, gone, state.cst)
    rebalance_causes.remember(state, causes)
    beside = _report_departed(before, state, scene, gone, scene.incident_of(Kind.GROUP_EMPTY))
    return empty_groups.became_empty(
        state,
        scene,
        change,
        gone,
        causes,
        beside,
        at=state.cst,
        details=sent(judged),
        protocol=before.protocol or None,
        previous_generation=before.generation,
        previous_leader=before.leader or None,
        members_affected=len(before.members),
        partitions_affected=sum(len(member.offsets) for member in before.members),
    )


def _end_emptiness(state: GroupState, scene: Scene) -> list[Finding]:
    """Close what an empty group had open."""
    found = report.refilled(state, scene, state.cst) if state.empty.incident else []
    if state.empty.expiring:
        found += empty_groups.resolve_expiring(state, scene, "withdrawn")
    return found


def _report_returns(before: GroupState, state: GroupState, after: Membership, scene: Scene) -> list[Finding]:
    """Take a record of the same generation: static members came back, or a sync was written twice."""
    change = membership.compare(before.members, after.members)
    state.cst, state.started_at = before.cst, before.started_at
    for old, now in change.kept:
        now.silent_id, now.silent_at = old.silent_id, old.silent_at
    found = silent_members.resolve_removed(change, state, scene)
    for old, now in change.replaced:
        now.host_stale, now.cadence, now.idle, now.joined_at = True, old.cadence, old.idle, scene.ts
        found.append(static_takeovers.find_takeover(state, scene, old, now))
    return found


def _report_slow_sync(state: GroupState, scene: Scene) -> list[Finding]:
    took, limit = state.ts - state.cst, scene.settings.slow_sync_ms
    if took < limit:
        return []
    return [
        scene.find(
            Kind.SLOW_SYNC, state, at=state.ts, evidence="read", sync_ms=took, details={"threshold_ms": limit}
        )
    ]


def _report_size(state: GroupState, scene: Scene, size: int) -> list[Finding]:
    limit = scene.settings.max_message_bytes
    large = size >= limit * scene.settings.group_too_large_share
    if large == bool(state.checks.too_large):
        return []
    details: Details = {"bytes": size, "limit": limit}
    if large:
        found = scene.find(
            Kind.GROUP_TOO_LARGE, state, at=state.ts, phase="opened", opened_at=state.ts, details=details
        )
        state.checks.too_large, state.checks.too_large_at = found.incident or "", state.ts
        return [found]
    incident, state.checks.too_large = state.checks.too_large, ""
    return [
        scene.resolve(
            Kind.GROUP_TOO_LARGE,
            state,
            incident,
            "withdrawn",
            at=state.ts,
            opened_at=state.checks.too_large_at,
            details=details,
        )
    ]
