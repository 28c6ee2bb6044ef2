"""The causes of a rebalance, from two consecutive records and the commits between them.

Several triggers within one join phase end in one record, so causes are a set. `unknown` is added unless the
evidence adds up to a majority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, ranked
from rebalance_monitor.coordinator.findings.wording import counted, seconds
from rebalance_monitor.coordinator.rebalance import connect, same_members, subscriptions
from rebalance_monitor.coordinator.state import membership

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.departure.verdicts import Departure
    from rebalance_monitor.coordinator.findings.finding import MemberEntry
    from rebalance_monitor.coordinator.rebalance.group_metadata import Membership
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member
    from rebalance_monitor.coordinator.state.membership import Change


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
    if after.connect is not connect.NO_EVIDENCE or state.protocol_type == connect.PROTOCOL_TYPE:
        found += connect.causes(state, after.connect, cst, same=same, lost=bool(change.left))
    if not found:
        found = same_members.causes(state, after, cst, aborted)
    return ranked(found)


def joined(member: Member, sizes: tuple[int, int], *, alone: bool) -> CauseEntry:
    """Make the cause entry of a member that joined; `alone`: no member departed in the same join phase.

    `sizes`: members of the group before, negative if unknown, and now.
    """
    confidence, (before, now) = 0.95 if alone else 0.92, sizes
    why = f"a new member: {f'{before} before, ' if before >= 0 else ''}{now} now"
    return CauseEntry.of(member, Cause.MEMBER_JOINED, confidence, why)


def replaced(before: Member, now: Member) -> CauseEntry:
    """Make the cause entry of a static member that took the place of a process before it."""
    seen, did = max((before.joined_at, "came"), (before.last_commit, "last committed"))
    why = "its instance came back under another member id "
    why += f"{seconds(now.joined_at - seen)} after the process before it {did}"
    return CauseEntry.of(now, Cause.STATIC_MEMBER_REPLACED, 0.9, why)


def maybe_removed(member: Member | MemberEntry, silence: int) -> CauseEntry:
    """Make the cause entry of a member that left and was back at once; `silence` in ms."""
    why = f"no commit for {seconds(silence)} before the join phase ended; it rejoined within the same phase, "
    why += "as after a removal by an administrator"
    return CauseEntry.of(member, Cause.MEMBER_REMOVED_BY_ADMIN, 0.2, why)


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
            found.append(CauseEntry.of(now, Cause.SUBSCRIPTION_CHANGED, 0.9, why))
    return found + _partitions(state, after, change, protocol, cst)


def _may_be_first_phase(state: GroupState, after: Membership, cst: int) -> bool:
    """Whether the first record that was read of the group may have been the first phase of a follow-up."""
    started = [cause for cause, _ in state.rebalances.causes[:1]] == [Cause.FIRST_START.value]
    return state.ts == state.started_at and not started and same_members.is_follow_up(state, after, cst)


def _partitions(
    state: GroupState, after: Membership, change: Change, protocol: str, cst: int
) -> list[CauseEntry]:
    before = dict(zip(state.topics, state.totals, strict=True))
    now = membership.assigned_by_topic(after.members, after.topics)
    found = [
        CauseEntry(
            Cause.PARTITIONS_CHANGED, 0.95, f"{topic}: {counted(before[topic], 'partition')} became {count:,}"
        )
        for topic, count in now.items()
        if 0 < before.get(topic, 0) < count
    ]
    if found and _may_be_first_phase(state, after, cst):
        found = []
    if change.joined or change.left or protocol in membership.COOPERATIVE or not now:
        return found
    # No assignor withholds a subscribed topic, so the topic has no partitions any more.
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
