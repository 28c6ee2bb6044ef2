"""Partitions without a reader, or with two, by one record: subscriptions against the assignment.

The leader of a classic group assigns the topics that it knows. A leader that knows only its own topics
(kafkajs) gives partitions to members that do not subscribe to them and read none of them. It gives the
partitions of other topics to no member. That is a silent outage if two applications share a group id. A
partition with two owners is read twice. Each of these is wrong under every assignor.

- Subscribed topics without an owner are named beside these faults. No record shows whether such a topic
  exists, so alone it is judged where the brokers are asked (`lag/judging`).
- A classic group is judged only if every subscription and assignment can be read. Classic Kafka Streams is
  not judged: its members subscribe to more topics than their tasks read.
- An epoch-based group is judged by its target, once it is reached: a partition, or an active task, with two
  owners or none. Share groups assign one partition to several members on purpose.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MAX_KEPT, CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.rebalance import baselines
from rebalance_monitor.coordinator.rebalance.report import member_entry
from rebalance_monitor.coordinator.state.membership import COOPERATIVE, STREAMS_ASSIGNOR

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.rebalance.group_metadata import Membership
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

TWO_APPLICATIONS = "two applications share this group id"

_NAMED, _SOME, _SEVERAL = 5, 3, 2
_MAX_UNOWNED = 20
_SHARED = 0.4


@dataclass(frozen=True, slots=True)
class Faults:
    """What one assignment has wrong, in partitions.

    `owners`: members that own what they do not subscribe to (`unread`), or what another owns (`twice`).
    `skipped`: partitions without an owner between others of their topic that have one. `unowned`: subscribed
    topics without an owner.
    """

    owners: tuple[Member, ...]
    unread: int
    twice: int
    unowned: tuple[str, ...]
    applications: int
    skipped: int = 0


def judge(state: GroupState, scene: Scene, after: Membership) -> list[Finding]:
    """Open, or resolve, what is wrong in the assignment of a completed generation."""
    if state.protocol == STREAMS_ASSIGNOR or not after.is_readable:
        state.checks.unowned = []
        return close(state, scene)
    found = faults(state, after.subscriptions)
    state.checks.unowned = list(found.unowned[:_MAX_UNOWNED])
    return _open_or_close(state, scene, found, after.subscriptions)


def judge_converged(state: GroupState, scene: Scene) -> list[Finding]:
    """Open, or resolve, what is wrong in the target assignment that an epoch-based group has reached.

    Its members have their targets then: partitions of a KIP-848 group, active tasks of a streams group. If
    not all members are known, an unknown one may own a partition that seems to have no owner.
    """
    if not baselines.knows_members(state, scene.ts):
        return close(state, scene)
    return _open_or_close(state, scene, faults(state, None), {})


def _open_or_close(
    state: GroupState, scene: Scene, found: Faults, subscriptions: Mapping[str, Collection[str]]
) -> list[Finding]:
    if not (found.unread or found.twice or found.skipped):
        return close(state, scene, "completed")
    if state.checks.unassigned:
        return []
    opened = _opened(state, scene, found, subscriptions)
    state.checks.unassigned, state.checks.unassigned_at = opened.incident or "", state.ts
    return [opened]


def close(state: GroupState, scene: Scene, resolution: str = "withdrawn") -> list[Finding]:
    """Resolve the open incident: the assignment is right, or can no longer be judged."""
    incident, state.checks.unassigned = state.checks.unassigned, ""
    if not incident:
        return []
    return [
        scene.resolve(
            Kind.PARTITIONS_UNASSIGNED,
            state,
            incident,
            resolution,
            at=state.ts,
            evidence="derived",
            opened_at=state.checks.unassigned_at,
            details={},
        )
    ]


def faults(state: GroupState, subscriptions: Mapping[str, Collection[str]] | None) -> Faults:
    """Compare the assignment with the `subscriptions` (member id -> topics) of all members.

    None: records do not show which member subscribes to which topic, and the brokers assign by subscription.
    """
    owned = Counter(place for member in state.members for place in _places(member))
    asked = subscriptions or {}
    unread = {
        member.member_id: 0 if subscriptions is None else _unread(state, member, asked)
        for member in state.members
    }
    every = {topic for topics in asked.values() for topic in topics}
    twice = {place for place, times in owned.items() if times > 1}
    return Faults(
        owners=tuple(m for m in state.members if unread[m.member_id] or twice & set(_places(m))),
        unread=sum(unread.values()),
        twice=len(twice),
        unowned=tuple(sorted(every - {state.topics[topic] for topic, _ in owned})),
        applications=len(apart(asked)),
        skipped=0 if state.protocol in COOPERATIVE else _skipped(owned),
    )


def _places(member: Member) -> Iterator[tuple[int, int]]:
    return ((topic, one) for topic, *given in member.assigned for one in given)


def _skipped(owned: Collection[tuple[int, int]]) -> int:
    """Count the partitions without an owner although a higher number of the same topic has one.

    Partitions are numbered without a gap, so these exist. A cooperative assignor withholds some on purpose.
    """
    highest: dict[int, int] = {}
    for topic, one in owned:
        highest[topic] = max(one, highest.get(topic, -1))
    return sum(most + 1 for most in highest.values()) - len(owned)


def apart(subscriptions: Mapping[str, Collection[str]]) -> list[set[str]]:
    """Return the sets of topics that no member subscribes across: from two on, one for each application.

    `subscriptions`: member id -> topics, of all members. A member without topics is no evidence.
    """
    found: list[set[str]] = []
    for topics in map(set, subscriptions.values()):
        if topics:
            shared = [one for one in found if one & topics]
            found = [one for one in found if not one & topics] + [topics.union(*shared)]
    return found


def shared(members: Collection[Member], subscriptions: Mapping[str, Collection[str]]) -> list[CauseEntry]:
    """Name the applications that share the group id; nothing if there is only one.

    Each deployment of one application rebalances the other. No member is responsible, so this cause comes
    after the causes that name members.
    """
    sets = apart(subscriptions)
    if len(sets) < _SEVERAL:
        return []
    why = f"{described(members, sets, subscriptions)} have no topic in common: {TWO_APPLICATIONS}"
    return [CauseEntry(Cause.GROUP_ID_SHARED, _SHARED, why)]


def described(
    members: Collection[Member],
    sets: Collection[Collection[str]],
    subscriptions: Mapping[str, Collection[str]],
) -> str:
    """Name each set's topics and the clients that subscribe to them."""
    told = []
    for topics in sorted(map(sorted, sets)):
        asking = [m.client_id for m in members if set(topics) & set(subscriptions.get(m.member_id, ()))]
        told.append(f"{_some(list(dict.fromkeys(asking)))} ({_some(topics)})")
    return " and ".join(told[:_NAMED])


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return f"{', '.join(names[:_SOME])}{more}"


def _unread(state: GroupState, member: Member, subscriptions: Mapping[str, Collection[str]]) -> int:
    asked = subscriptions.get(member.member_id, ())
    return sum(len(given) for topic, *given in member.assigned if state.topics[topic] not in asked)


def _opened(
    state: GroupState, scene: Scene, found: Faults, subscriptions: Mapping[str, Collection[str]]
) -> Finding:
    details: Details = {"unread": found.unread, "twice": found.twice, "applications": found.applications}
    if found.skipped:
        details["skipped"] = found.skipped
    if found.unowned:
        details["unowned_topics"] = ", ".join(found.unowned[:_NAMED])
    return scene.find(
        Kind.PARTITIONS_UNASSIGNED,
        state,
        at=state.ts,
        evidence="derived",
        phase="opened",
        opened_at=state.ts,
        members_affected=len(found.owners),
        partitions_affected=found.unread + found.twice + found.skipped,
        members=tuple(member_entry(member, "kept") for member in found.owners[:MAX_KEPT]),
        causes=tuple(shared(state.members, subscriptions)),
        details=details,
    )
