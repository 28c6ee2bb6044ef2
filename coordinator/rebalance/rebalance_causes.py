"""The causes of a rebalance: all that two consecutive records, and the commits between them, are evidence of.

Several triggers within one join phase end in one record, so causes are a set. `unknown` is added unless the
evidence adds up to a majority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.departure.observe import observed
from rebalance_monitor.coordinator.departure.verdicts import judge
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.ranking import ranked
from rebalance_monitor.coordinator.findings.wording import (
    counted,
    entry,
    joined,
    maybe_removed,
    names_of,
    replaced,
    seconds,
)
from rebalance_monitor.coordinator.rebalance import connect, follow_ups, subscriptions
from rebalance_monitor.coordinator.state import membership
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.departure.verdicts import Departure, Judged
    from rebalance_monitor.coordinator.rebalance.group_metadata import Membership
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.coordinator.state.membership import Change

_AGAIN_MS = 60_000


def departures(
    state: GroupState,
    change: Change,
    cst: int,
    aborted: int,
    interval: int | None = None,
    *,
    history: bool = False,
) -> Judged:
    """Judge every member that left between `state`'s record and the one whose join phase ended at `cst`.

    `interval`: the configured max.poll.interval (ms) of those that send none. History is judged in closed
    form.
    """
    return judge(change.left, observed(state, change, cst, aborted, interval), history=history)


def causes_of(
    state: GroupState,
    after: Membership,
    change: Change,
    gone: list[Departure],
    value_protocol: str,
    cst: int,
    aborted: int,
) -> tuple[CauseEntry, ...]:
    """Causes of the generation that follows `state` and `aborted` ones, most likely first."""
    found = [cause for departure in gone for cause in departure.causes]
    sizes = len(state.members), len(after.members)
    found += [joined(member, sizes, alone=not gone) for member in change.joined]
    found += _removed_by_admin(change, gone)
    found += [replaced(before, now) for before, now in change.replaced]
    found += _changed(state, after, change, value_protocol, cst)
    found += _reset(after)
    same = not change.joined and not change.left
    found += connect.causes(state, after.connect, cst, same=same, lost=bool(change.left))
    if not found:
        found = _same_members(state, after, cst, aborted)
    return ranked(found)


def _reset(after: Membership) -> list[CauseEntry]:
    """Name a coordinator that was reloaded amid a rebalance: it has lost the generation that it began."""
    if not after.reset:
        return []
    why = f"{counted(len(after.reset), 'member')} rejoined without a generation, "
    why += "as after a reload amid a rebalance"
    return [CauseEntry(Cause.COORDINATOR_MOVED, 0.55, why)]


def _removed_by_admin(change: Change, gone: list[Departure]) -> list[CauseEntry]:
    """Name members that departed while active and were back at once, as a removed member does."""
    back = _back(change)
    return [
        maybe_removed(departure.member, departure.seen.silence)
        for departure in gone
        if departure.causes[0].cause is Cause.MEMBER_LEFT
        and (departure.member.client_id, departure.member.host) in back
    ]


def _back(change: Change) -> set[tuple[str, str]]:
    """Return client id and host of each dynamic member that joined: it may replace one that departed."""
    return {(member.client_id, member.host) for member in change.joined if member.instance_id is None}


def remember(state: GroupState, causes: tuple[CauseEntry, ...]) -> None:
    """Keep the likeliest causes of the rebalance that `state` describes, for summaries."""
    state.rebalances.at = state.ts
    state.rebalances.causes = [[cause.cause.value, cause.confidence] for cause in causes[:3]]


def _changed(
    state: GroupState, after: Membership, change: Change, protocol: str, cst: int
) -> list[CauseEntry]:
    found: list[CauseEntry] = []
    if protocol != state.protocol and state.protocol:
        found.append(CauseEntry(Cause.PROTOCOL_CHANGED, 0.9, f"assignor {state.protocol} became {protocol}"))
    for before, now in change.kept:
        if before.subscribed != now.subscribed and before.subscribed and now.subscribed:
            why = subscriptions.changed(after.subscriptions.get(now.member_id, ()), len(state.topics))
            found.append(entry(now, Cause.SUBSCRIPTION_CHANGED, 0.9, why))
    return found + _partitions(state, after, change, protocol, cst)


def _may_be_first_phase(state: GroupState, after: Membership, cst: int) -> bool:
    """Whether the first record that was read of the group may have been the first phase of a follow-up."""
    started = [cause for cause, _ in state.rebalances.causes[:1]] == [Cause.FIRST_START.value]
    return state.ts == state.started_at and not started and follow_ups.is_follow_up(state, after, cst)


def _partitions(
    state: GroupState, after: Membership, change: Change, protocol: str, cst: int
) -> list[CauseEntry]:
    before = dict(zip(state.topics, state.totals, strict=True))
    now = membership.assigned_by_topic(after.members, after.topics)
    found = [
        CauseEntry(Cause.PARTITIONS_CHANGED, 0.95, f"{topic}: {before[topic]} partitions became {count}")
        for topic, count in now.items()
        if 0 < before.get(topic, 0) < count
    ]
    if found and _may_be_first_phase(state, after, cst):
        found = []
    if change.joined or change.left or protocol in membership.COOPERATIVE or not now:
        return found
    # No assignor withholds a topic that somebody asks for: it has no partitions any more.
    asked = {topic for topics in after.subscriptions.values() for topic in topics}
    same = [old.subscribed == new.subscribed for old, new in change.kept]
    for topic in state.topics:
        if topic not in now and (all(same) or topic in asked):
            why = f"{topic}: {before[topic]} partitions before, still subscribed to, none assigned"
            found.append(CauseEntry(Cause.TOPIC_DELETED, 0.9, why))
        elif topic not in now and len(same) > 1 and not any(same):
            why = f"{topic}: {before[topic]} partitions before, dropped by {len(same)} members at once"
            found.append(CauseEntry(Cause.TOPIC_DELETED, 0.7, why))
    return found


def _same_members(state: GroupState, after: Membership, cst: int, aborted: int) -> list[CauseEntry]:
    """No member joined or departed, and nothing visible changed."""
    apart = cst - state.ts
    if announced := follow_ups.probing(state, cst):
        late = seconds(max(0, cst - state.probing_at))
        why = f"{late} after the time that the last assignment announced; a join phase may take as long"
        return [CauseEntry(Cause.STREAMS_PROBING, announced, why)]
    if follow_ups.is_migrated(state, cst):
        why = f"{seconds(apart)} after its migration, which the coordinator follows with a rebalance"
        return [CauseEntry(Cause.GROUP_MIGRATED, 0.9, why)]
    if follow_ups.is_follow_up(state, after, cst):
        why = f"{seconds(apart)} after a cooperative generation that left partitions unassigned"
        return [CauseEntry(Cause.COOPERATIVE_FOLLOW_UP, 0.9, why)]
    given = sum(map(membership.partitions, after.members))
    why = f"same members, topics and partitions: {len(after.members)}, {len(after.topics)} and {given}"
    leader, who_asked = _leader(state, after)
    rejoined = CauseEntry(Cause.LEADER_REJOINED, 0.45, why + who_asked, *leader)
    # Who rejoins on and on does so by itself: no coordinator moves that often.
    again = apart <= _AGAIN_MS and any(cause == Cause.LEADER_REJOINED for cause, _ in state.rebalances.causes)
    if aborted:
        lost = "1 generation has" if aborted == 1 else f"{aborted} generations have"
        untold = f"{lost} no record on the topic: members that joined or left then are not known"
        found = [CauseEntry(Cause.UNKNOWN, 0.55, untold), replace(rejoined, confidence=0.2)]
        return found if again else [*found, CauseEntry(Cause.COORDINATOR_MOVED, 0.2, why)]
    if again:
        last = f"{why}, {seconds(apart)} after the last time{who_asked}"
        return [replace(rejoined, confidence=0.55, why=last)]
    reloaded = why + "; some clients rejoin when their coordinator reloads"
    return [
        rejoined,
        CauseEntry(Cause.COORDINATOR_MOVED, 0.25, reloaded),
    ]


def _leader(state: GroupState, after: Membership) -> tuple[tuple[str, str, str, str | None] | tuple[()], str]:
    """Return the leader, if no other member can have asked a Stable group to rebalance, and say so.

    A follower that sends the subscription that it had is given the current generation again.
    """
    led = [member for member in after.members if member.member_id == state.leader]
    if led and after.unvarying:
        return names_of(
            led[0]
        ), "; its leader asked for it: without a new subscription only a leader's request starts a rebalance"
    return (), "; a member asked for it, perhaps the leader"
