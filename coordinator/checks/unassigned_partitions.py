"""Partitions that nobody reads, or that two read, by one record: subscriptions against the assignment.

The leader of a classic group assigns by what it knows. One that knows only its own topics (kafkajs) gives
partitions to members that do not subscribe to them, which read none of them, and nobody those of the others'
topics: a silent outage where two applications share a group id. A partition that two members own is read
twice. Each of these is wrong whatever the assignor. That a topic which is subscribed to is owned by nobody is
told beside them, for no record says whether it exists. Only where every subscription and assignment can be
read; never of Kafka Streams, whose members subscribe to more than their tasks read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.finding import MAX_KEPT
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.rebalance.report import member_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.rebalance.group_metadata import Membership
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_NAMED = 5
_UNJUDGED = frozenset({"stream"})


@dataclass(frozen=True, slots=True)
class Faults:
    """What one assignment has wrong: members that own what they do not subscribe to, and how much of it."""

    owners: tuple[Member, ...]
    unread: int
    twice: int
    unowned: tuple[str, ...]
    applications: int


def judge(state: GroupState, scene: Scene, after: Membership) -> list[Finding]:
    """Open, or resolve, what is wrong in the assignment of a completed generation."""
    if state.protocol_type != "consumer" or state.protocol in _UNJUDGED or after.partial:
        return close(state, scene)
    if len(after.subscriptions) < len(state.members):
        return close(state, scene)
    found = faults(state, after.subscriptions)
    wrong = bool(found.unread or found.twice)
    if not wrong:
        return close(state, scene, "completed")
    if state.unassigned_id:
        return []
    state.unassigned_id = scene.identify(Kind.PARTITIONS_UNASSIGNED, phase="opened")
    return [_opened(state, scene, found)]


def close(state: GroupState, scene: Scene, resolution: str = "withdrawn") -> list[Finding]:
    """Resolve what is open: nothing is wrong any more, or nothing can be said."""
    incident, state.unassigned_id = state.unassigned_id, ""
    if not incident:
        return []
    return [
        scene.find(
            Kind.PARTITIONS_UNASSIGNED,
            state,
            at=state.ts,
            evidence="derived",
            phase="resolved",
            incident=incident,
            resolution=resolution,
            details={},
        )
    ]


def faults(state: GroupState, subscriptions: Mapping[str, Collection[str]]) -> Faults:
    """Compare the assignment with the `subscriptions` (member id -> topics) of all members."""
    owned = Counter(
        (topic, one) for member in state.members for topic, *given in member.assigned for one in given
    )
    unread = {member.member_id: _unread(state, member, subscriptions) for member in state.members}
    asked = {topic for topics in subscriptions.values() for topic in topics}
    return Faults(
        owners=tuple(member for member in state.members if unread[member.member_id]),
        unread=sum(unread.values()),
        twice=sum(times > 1 for times in owned.values()),
        unowned=tuple(sorted(asked - {state.topics[topic] for topic, _ in owned})),
        applications=applications(subscriptions.values()),
    )


def applications(subscriptions: Collection[Collection[str]]) -> int:
    """Count the sets of members that share no topic with any other: two applications under one group id."""
    apart: list[set[str]] = []
    for topics in map(set, subscriptions):
        if topics:
            shared = [one for one in apart if one & topics]
            apart = [one for one in apart if not one & topics] + [topics.union(*shared)]
    return len(apart)


def _unread(state: GroupState, member: Member, subscriptions: Mapping[str, Collection[str]]) -> int:
    asked = subscriptions.get(member.member_id, ())
    return sum(len(given) for topic, *given in member.assigned if state.topics[topic] not in asked)


def _opened(state: GroupState, scene: Scene, found: Faults) -> Finding:
    details: Details = {"unread": found.unread, "twice": found.twice, "applications": found.applications}
    if found.unowned:
        details["unowned_topics"] = ", ".join(found.unowned[:_NAMED])
    return scene.find(
        Kind.PARTITIONS_UNASSIGNED,
        state,
        at=state.ts,
        evidence="derived",
        phase="opened",
        incident=state.unassigned_id,
        opened_at=state.ts,
        members_affected=len(found.owners),
        partitions_affected=found.unread + found.twice,
        members=tuple(member_entry(member, "kept") for member in found.owners[:MAX_KEPT]),
        details=details,
    )
