"""Convergences of epoch-based groups: one `rebalance` from the first epoch bump to the last acknowledgement.

Members that join and depart in between are collected in the state (`Changes`). `fencing.py` judges each
departure at its tombstone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.checks import applications, assignment
from rebalance_monitor.coordinator.commits import topic_names
from rebalance_monitor.coordinator.deadlines import stuck_rebalances
from rebalance_monitor.coordinator.deadlines.member_deadlines import AWAY
from rebalance_monitor.coordinator.departure.evidence import decode, encode, together
from rebalance_monitor.coordinator.departure.verdicts import Departure, Measured, judge
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MEASURED, CauseEntry, ranked
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import counted
from rebalance_monitor.coordinator.lifecycle import empty_groups
from rebalance_monitor.coordinator.rebalance import (
    baselines,
    first_start,
    report,
    subscriptions,
    successors,
    visits,
)
from rebalance_monitor.coordinator.rebalance.rebalance_causes import joined, remember, replaced
from rebalance_monitor.coordinator.state.group_state import Changes
from rebalance_monitor.coordinator.state.membership import Change
from rebalance_monitor.coordinator.state.roster import roster_of
from rebalance_monitor.coordinator.state.state_machine import SETTLED, Status
from rebalance_monitor.coordinator.storms import rolling_restarts, static_takeovers, storm
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.departure.evidence import Evidence
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_FIRST_EPOCH, _MAX_NEW = 1, 4


def on_status(state: GroupState, before: str, scene: Scene) -> list[Finding]:
    """Report a convergence when the group has reached its newest epoch, or emptied."""
    replaced = _replacements(state, scene) if not state.changes.bumps else []
    if state.status not in SETTLED:
        over = stuck_rebalances.moves_on(state, scene)
        return replaced + (stuck_rebalances.settle(state, scene, "completed") if over else [])
    if not state.changes.bumps:
        return replaced + stuck_rebalances.settle(state, scene, "completed")
    if state.status == Status.EMPTY and before == Status.EMPTY and not state.changes.departed:
        # Its last member departed with this bump, and compaction has removed the tombstone.
        state.changes.bumps, state.cst = 0, scene.ts
        return replaced
    found = stuck_rebalances.settle(state, scene, "completed")
    found += _emptied(state, scene) if state.status == Status.EMPTY else _converged(state, scene)
    rest(state, scene.ts)
    return found


def api_status(state: GroupState, at: int) -> Status:
    """Return the group's state at `at` (ms) as the coordinator's API would give it, as far as it was read."""
    if not state.members:
        return Status.EMPTY if baselines.knows_members(state, at) else Status.UNKNOWN
    if state.generation < 0:
        return Status.UNKNOWN
    if state.generation > state.epochs.target:
        return Status.ASSIGNING
    members = roster_of(state)
    there = members.count_at(AWAY) + members.count_at(state.epochs.target, (0,))
    return Status.STABLE if there == len(members) else Status.RECONCILING


def rest(state: GroupState, at: int) -> None:
    """Begin to collect anew what comes and goes: the group has been at its newest epoch since `at` (ms)."""
    state.epochs.stable, state.cst, state.rebalances.migrated = state.generation, at, -1
    state.changes = Changes()
    roster_of(state).lived = None
    _intern(state)


def _intern(state: GroupState) -> None:
    """Forget topics that are assigned to no member."""
    used = sorted({topic for member in state.members for topic, *_ in member.assigned})
    if len(used) < len(state.topics):
        place = {topic: index for index, topic in enumerate(used)}
        state.topics = [state.topics[topic] for topic in used]
        for member in state.members:
            member.assigned = [[place[topic], *given] for topic, *given in member.assigned]
        # What was kept beside the members names topics by their places.
        state.members = list(state.members)
    if state.members and state.group_type == "consumer":
        topic_names.forget(state)


def _departures(state: GroupState) -> list[Departure]:
    found = []
    kept = state.changes
    for member, numbers, verdict in zip(kept.departed, kept.silences, kept.verdicts, strict=True):
        causes = tuple(
            CauseEntry.of(member, Cause(str(cause)), float(share), str(why)) for cause, share, why in verdict
        )
        silence, session, rebalance, usual, *_ = numbers
        seen = Measured(session, rebalance, silence, usual, goodbye=True)
        found.append(Departure(member, seen, causes))
    return found


def _evidence(state: GroupState, gone: Sequence[Departure], scene: Scene) -> Details:
    """Return the evidence of the members that departed, as a detail for the driver; history has none."""
    evidence = _together(state, gone, scene)
    return {} if evidence is None else {MEASURED: encode(evidence).decode()}


def _together(state: GroupState, gone: Sequence[Departure], scene: Scene) -> Evidence | None:
    kept = state.changes
    at = {one.member_id: went for one, (*_, went) in zip(kept.departed, kept.silences, strict=True)}
    names = [departure.member.member_id for departure in gone]
    if scene.history or not names or not kept.evidence.keys() >= set(names):
        return None
    each = [decode(kept.evidence[name].encode()) for name in names]
    return together(each, [max(0, scene.ts - at[name]) for name in names])


def _judged_together(state: GroupState, gone: list[Departure], scene: Scene) -> list[Departure]:
    """Judge the members of an empty group again, beside each other: one event may have taken the last ones.

    What the pattern of a removal tells stands.
    """
    evidence = _together(state, gone, scene)
    if evidence is None or len(gone) == 1:
        return gone
    again = judge([one.member for one in gone], evidence, history=False).gone
    return [
        before if age < 0 else replace(before, causes=now.causes)
        for before, now, age in zip(gone, again, evidence.apart, strict=True)
    ]


def _change(state: GroupState) -> Change:
    """Members that joined and departed since the group was last stable.

    A static member under a new id is replaced where both are one write. Else its session had expired before.
    """
    new = roster_of(state).of(state.changes.newcomers)
    replaced = _replaced(state, new)
    moved = {member.member_id for pair in replaced for member in pair}
    return Change(
        joined=tuple(m for m in new if m.member_id not in moved),
        left=tuple(m for m in state.changes.departed if m.member_id not in moved),
        replaced=tuple(replaced),
        kept=tuple((m, m) for m in state.members if m.member_id not in state.changes.newcomers),
    )


def _replaced(state: GroupState, new: Sequence[Member]) -> list[tuple[Member, Member]]:
    went = zip(state.changes.departed, state.changes.silences, strict=True)
    gone = {(m.instance_id, at): m for m, (*_, at) in went if m.instance_id is not None}
    return [(gone[place], m) for m in new if (place := (m.instance_id, m.joined_at)) in gone]


def _converged(state: GroupState, scene: Scene) -> list[Finding]:
    change = _change(state)
    left = {member.member_id for member in change.left}
    gone = [departure for departure in _departures(state) if departure.member.member_id in left]
    causes = _causes(state, scene, change, gone)
    causes += tuple(applications.shared(state.members, subscriptions.of_members(state)))
    known, began = state.epochs.stable >= 0, state.epochs.bumped_at
    took, went = max(0, scene.ts - began), len(change.left) + state.changes.uncounted
    renewed = rolling_restarts.renewed(state, change, causes, began)
    every = causes + successors.causes(state, change, gone, scene.ts, ordered=False)
    found = [
        scene.find(
            Kind.REBALANCE,
            state,
            at=scene.ts,
            previous_generation=state.epochs.stable if known else None,
            started_at_min=began,
            started_at_max=began,
            join_ms_min=took,
            join_ms_max=took,
            members_affected=len(change.joined) + went + len(change.replaced),
            partitions_affected=sum(len(member.offsets) for member in change.left),
            causes=every,
            members=report.member_entries(change, gone),
            details={"joined": len(change.joined), "left": went, "bumps": state.changes.bumps}
            | report.unlisted(change, gone)
            | _evidence(state, gone, scene),
        )
    ]
    found += report.departed(state, scene, gone, found[0].id, state)
    found += _refilled(state, scene)
    remember(state, causes)
    rolling_restarts.note_lives(state.storm, every)
    if known and not _is_own_step(state, change):
        found += storm.note_generation(state, scene, change, scene.ts, causes)
    found[0] = storm.marked(found[0], state.storm, began, renewed=renewed)
    return found + assignment.judge_converged(state, scene)


def _is_own_step(state: GroupState, change: Change) -> bool:
    """Whether a streams group bumped its epoch by itself, as it does for each warmed-up task (4.4)."""
    moved = change.joined or change.left or change.replaced
    same = not (moved or state.changes.resubscribed or state.changes.rehashed)
    return same and state.group_type == "streams"


def _is_new(state: GroupState, scene: Scene) -> bool:
    """Whether its first epoch was read, or those before it failed; brokers begin at one or at two."""
    first = state.generation - state.changes.bumps + 1
    return first <= _FIRST_EPOCH or (scene.complete and state.live and first <= _MAX_NEW)


def _causes(state: GroupState, scene: Scene, change: Change, gone: list[Departure]) -> tuple[CauseEntry, ...]:
    sizes = _before(state, change), len(state.members)
    if state.rebalances.migrated > 0 or (not change.kept and not change.left and change.joined):
        new = state.epochs.stable >= 0 or _is_new(state, scene)
        found = list(first_start.begun(state, len(state.members), new=new))
        if state.rebalances.migrated <= 0:
            asked = state.subscriptions.names or None
            found += visits.causes(state, state.cst, state.epochs.bumped_at, asked)
            if new and state.epochs.stable < 0 and len(found) == 1:
                found += visits.before_members(state, state.epochs.bumped_at, asked)
            visits.forget(state, asked)
        return tuple(found + [joined(member, sizes, alone=True) for member in change.joined if change.kept])
    found = [cause for departure in gone for cause in departure.causes]
    found += [joined(member, sizes, alone=not gone) for member in change.joined]
    found += [replaced(before, now) for before, now in change.replaced]
    for member in roster_of(state).of(state.changes.resubscribed):
        why = subscriptions.changed(state.subscriptions.topics.get(member.subscribed, ()))
        found.append(CauseEntry.of(member, Cause.SUBSCRIPTION_CHANGED, 0.95, why))
    return ranked(found or _same_members(state))


def _before(state: GroupState, change: Change) -> int:
    """Return how many members the group had when it was last stable, -1 where unknown."""
    if state.epochs.stable < 0 or state.changes.uncounted:
        return -1
    stayed = len(change.kept) + len(change.replaced)
    return stayed + sum(member.joined_at <= state.cst for member in change.left)


def _same_members(state: GroupState) -> list[CauseEntry]:
    """No member joined, departed or resubscribed: topics changed, or a pattern matches others."""
    if state.changes.resolved_at >= 0:
        why = f"a pattern that members subscribe to was resolved: the group's topics changed{_topics(state)}"
        return [CauseEntry(Cause.SUBSCRIPTION_CHANGED, 0.85, why)]
    if state.changes.rehashed:
        # A topic that was just created becomes known by and by.
        share = 0.55 if state.epochs.bumped_at - state.started_at <= rolling_restarts.START_MS else 0.85
        why = f"the group's metadata of its topics changed: their names, partitions or racks{_topics(state)}"
        return [CauseEntry(Cause.PARTITIONS_CHANGED, share, why)]
    if state.group_type == "share":
        why = f"partitions were initialised for the group, and can be assigned now{_topics(state)}"
        return [CauseEntry(Cause.UNKNOWN, 1.0, why)]
    bumps = counted(state.changes.bumps, "epoch bump")
    if state.group_type == "streams":
        why = f"{bumps} with the same members: a setting, the topology or a warm-up task"
        return [CauseEntry(Cause.UNKNOWN, 1.0, why)]
    if state.epochs.metadata_hash:
        why = f"{bumps} with the same members and topics: a pattern or an assignor changed"
        return [CauseEntry(Cause.SUBSCRIPTION_CHANGED, 0.4, why)]
    why = f"{bumps} without a change of members: subscriptions or topic metadata changed"
    return [
        CauseEntry(Cause.PARTITIONS_CHANGED, 0.4, why),
        CauseEntry(Cause.SUBSCRIPTION_CHANGED, 0.4, why),
    ]


def _topics(state: GroupState) -> str:
    """Say how many topics the group subscribes to now, where that is known."""
    return f"; {len(state.subscriptions.names)} topics now" if state.subscriptions.names else ""


def _emptied(state: GroupState, scene: Scene) -> list[Finding]:
    gone = _judged_together(state, _departures(state), scene)
    change = Change((), tuple(state.changes.departed), (), ())
    causes = ranked([cause for departure in gone for cause in departure.causes])
    successors.causes(state, change, gone, scene.ts)
    remember(state, causes)
    beside = report.departed(state, scene, gone, scene.incident_of(Kind.GROUP_EMPTY), state)
    # Members may come to an empty group and go before they have acknowledged anything.
    again = report.refilled(state, scene, state.epochs.bumped_at) if state.empty.incident else []
    return again + empty_groups.became_empty(
        state,
        scene,
        change,
        gone,
        causes,
        beside,
        at=scene.ts,
        previous_generation=state.epochs.stable if state.epochs.stable >= 0 else None,
        members_affected=len(gone) + state.changes.uncounted,
        details=_evidence(state, gone, scene),
    )


def _refilled(state: GroupState, scene: Scene) -> list[Finding]:
    """Close what an empty group had open."""
    if state.empty.incident or state.epochs.stable < 0:
        state.started_at = scene.ts
    found = report.refilled(state, scene, scene.ts) if state.empty.incident else []
    return found + empty_groups.resolve_expiring(state, scene, "withdrawn")


def _replacements(state: GroupState, scene: Scene) -> list[Finding]:
    """Report static members that came back under a new id without any epoch bump."""
    if not state.changes.departed:
        return []
    pairs = _replaced(state, roster_of(state).of(state.changes.newcomers))
    for before, now in pairs:
        state.changes.departed, state.changes.silences, state.changes.verdicts = [], [], []
        state.changes.evidence = {}
        state.changes.newcomers.discard(now.member_id)
        now.idle, now.cadence = before.idle, before.cadence
    return [static_takeovers.find_takeover(state, scene, before, now) for before, now in pairs]
