"""The assignment of a completed generation: partitions without a reader, or with two, and uneven spreads.

Subscriptions are compared with the assignment of one record. Two kinds of incidents come of it.

`partitions_unassigned`. The leader of a classic group assigns the topics that it knows. A leader that knows
only its own topics (kafkajs) gives partitions to members that do not subscribe to them and read none of them.
It gives the partitions of other topics to no member. That is a silent outage if two applications share a
group id. A partition with two owners is read twice. Each of these is wrong under every assignor.

- Subscribed topics without an owner are named beside these faults. No record shows whether such a topic
  exists, so alone it is judged where the brokers are asked (`lag/judging`).
- A classic group is judged only if every subscription and assignment can be read. Classic Kafka Streams is
  not judged: its members subscribe to more topics than their tasks read.
- An epoch-based group is judged by its target, once it is reached: a partition, or an active task, with two
  owners or none. Share groups assign one partition to several members on purpose.

`assignment_skewed`. If all members subscribe to the same topics, a difference of at most one partition
between the busiest and the idlest member is always possible. For unequal subscriptions the assignors
themselves compute the best spread (`assignors/`). The usual case is Range with co-subscribed topics: five
partitions against three, or ten against five. Members without partitions because there are more members than
partitions are reported as information: no assignor can help. A spread is not judged

- while partitions are withheld: in the first phase of a cooperative rebalance, and while a member joins
- if a subscription cannot be read, the group is too large to try, or its protocol is not known.

Both end when the assignment can no longer be judged, and when the group has no members.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.assignors import compare
from rebalance_monitor.coordinator.assignors.model import Subscriber, same_subscriptions
from rebalance_monitor.coordinator.checks import applications
from rebalance_monitor.coordinator.findings.finding import MAX_KEPT
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.rebalance import baselines
from rebalance_monitor.coordinator.rebalance.report import member_entry
from rebalance_monitor.coordinator.state.membership import COOPERATIVE, STREAMS_ASSIGNOR

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.rebalance.group_metadata import Membership
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

KNOWN = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Protocols whose spread can be judged."""

_MAX_TRIED = 10_000
_NAMED = 5
_MAX_UNOWNED = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule` is "spread", "idle" or "" (nothing wrong); the best possible loads beside."""

    rule: str
    best: str = ""
    most: int = 0
    least: int = 0


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
    skipped: int = 0


def judge(before: GroupState, state: GroupState, scene: Scene, after: Membership) -> list[Finding]:
    """Open, or resolve, what is wrong in the assignment of a completed generation of a classic group."""
    return _judge_spread(before, state, scene, after.subscriptions) + _judge_owners(state, scene, after)


def judge_converged(state: GroupState, scene: Scene) -> list[Finding]:
    """Open, or resolve, what is wrong in the target assignment that an epoch-based group has reached.

    Its members have their targets then: partitions of a KIP-848 group, active tasks of a streams group. If
    not all members are known, an unknown one may own a partition that seems to have no owner.
    """
    found = _judge_converged_spread(state, scene) if state.group_type == "consumer" else []
    if state.group_type == "share":
        return found
    if not baselines.knows_members(state, scene.ts):
        return found + _close_owners(state, scene)
    return found + _open_or_close(state, scene, faults(state, None), {})


def close(state: GroupState, scene: Scene) -> list[Finding]:
    """Withdraw what is open: the group has no members."""
    return _close_spread(state, scene) + _close_owners(state, scene)


def _judge_spread(
    before: GroupState, state: GroupState, scene: Scene, subscriptions: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """Open, or resolve, the skew of a classic group.

    `subscriptions`: member id -> topics. How many partitions there are is known from the generations before.
    """
    asked = [subscriptions.get(member.member_id, ()) for member in state.members]
    if state.protocol not in KNOWN or not all(asked):
        return _close_spread(state, scene)
    counts = _counts(before, state, asked)
    loads = [_load(member) for member in state.members]
    # The generation before was not read: partitions may be withheld until the second phase.
    withheld = before.offset < 0 and state.generation > 1 and state.protocol in COOPERATIVE
    if withheld or sum(loads) < sum(counts.values()):
        return []
    if all(topics == asked[0] for topics in asked):
        return _turn(state, scene, _even(loads))
    return _turn(state, scene, verdict(subscribers(state, subscriptions), counts))


def _judge_converged_spread(state: GroupState, scene: Scene) -> list[Finding]:
    """Open, or resolve, the skew of a KIP-848 group that has converged; its members name no partitions."""
    loads = [_load(member) for member in state.members]
    subscribed = {member.subscribed for member in state.members}
    if len(subscribed) != 1 or "" in subscribed or not sum(loads):
        return _close_spread(state, scene)
    return _turn(state, scene, _even(loads, "uniform"))


def _close_spread(state: GroupState, scene: Scene) -> list[Finding]:
    """Withdraw an open skew: the group has no members, or none whose spread can be judged."""
    rule, _, incident = state.checks.skewed.partition("/")
    state.checks.skewed = ""
    return [_skew_finding(state, scene, Verdict(rule), incident, "withdrawn")] if rule else []


def severity_of_skew(rule: str) -> Severity | None:
    """Return the severity of what a rule finds, None for the kind's own; idle members are information."""
    return None if rule == "spread" else Severity.INFO


def subscribers(state: GroupState, subscriptions: Mapping[str, Sequence[str]]) -> list[Subscriber]:
    """Return the members as an assignor takes them; members with an unknown subscription are left out."""
    return [
        Subscriber(
            member.member_id,
            tuple(subscriptions[member.member_id]),
            member.instance_id,
            owned=tuple((state.topics[t], p) for t, *given in member.assigned for p in given),
        )
        for member in state.members
        if subscriptions.get(member.member_id)
    ]


def verdict(members: Sequence[Subscriber], counts: Mapping[str, int]) -> Verdict:
    """Compare what the members own with the best that an assignor would give."""
    loads = [len(member.owned) for member in members]
    if not loads or same_subscriptions(members):
        return _even(loads)
    if len(members) * sum(counts.values()) > _MAX_TRIED:
        return Verdict("")
    tried = compare.alternatives(members, counts)
    best = min(tried, key=lambda name: (tried[name].most, -tried[name].least))
    most, least = tried[best].most, tried[best].least
    worse = max(loads) > most and max(loads) - min(loads) > most - least
    return Verdict("spread" if worse else "", best, most, least)


def _counts(before: GroupState, state: GroupState, asked: Sequence[Sequence[str]]) -> dict[str, int]:
    """Topic -> partitions; a subscribed topic of which nothing is handed out counts as before."""
    subscribed = {topic for topics in asked for topic in topics}
    known = dict(zip(before.topics, before.totals, strict=True))
    kept = {topic: count for topic, count in known.items() if topic in subscribed}
    return kept | dict(zip(state.topics, state.totals, strict=True))


def _even(loads: list[int], best: str = "sticky") -> Verdict:
    """Compare with the spread that is always possible for equal subscriptions, as `best` would give it."""
    few, extra = divmod(sum(loads), max(len(loads), 1))
    if max(loads, default=0) - min(loads, default=0) > 1:
        return Verdict("spread", best, few + (extra > 0), few)
    idle = loads.count(0) > 0 and sum(loads) > 0
    return Verdict("idle" if idle else "", "", few + (extra > 0), few)


def _turn(state: GroupState, scene: Scene, found: Verdict) -> list[Finding]:
    """Resolve what no longer holds, open what holds now; `checks.skewed`: open rule and incident."""
    rule, _, incident = state.checks.skewed.partition("/")
    if rule == found.rule:
        return []
    ended = [_skew_finding(state, scene, Verdict(rule), incident, "completed")] if rule else []
    state.checks.skewed = ""
    if not found.rule:
        return ended
    state.checks.skewed_at = state.ts
    opened = _skew_finding(state, scene, found)
    state.checks.skewed = f"{found.rule}/{opened.incident}"
    return [*ended, opened]


def _skew_finding(
    state: GroupState,
    scene: Scene,
    found: Verdict,
    incident: str = "",
    resolution: str | None = None,
) -> Finding:
    opened = not incident
    return scene.find(
        Kind.ASSIGNMENT_SKEWED,
        state,
        at=state.ts,
        evidence="derived",
        phase="opened" if opened else "resolved",
        severity=severity_of_skew(found.rule),
        incident=incident,
        opened_at=state.checks.skewed_at,
        resolution=resolution,
        members=tuple(member_entry(member, "kept") for member in _named(state.members, found) if opened),
        details=_skew_details(state, found, opened=opened),
    )


def _named(members: list[Member], found: Verdict) -> list[Member]:
    """Return the busiest members, or the idle ones."""
    if found.rule == "idle":
        return [member for member in members if not _load(member)][:MAX_KEPT]
    return sorted(members, key=lambda member: (-_load(member), member.member_id))[:MAX_KEPT]


def _skew_details(state: GroupState, found: Verdict, *, opened: bool) -> Details:
    loads = [_load(member) for member in state.members]
    most, least = max(loads, default=0), min(loads, default=0)
    details: Details = {"most": most, "least": least, "idle": loads.count(0), "rule": found.rule}
    if opened:
        details |= {"best_most": found.most, "best_least": found.least}
    return details | ({"best": found.best} if found.best else {})


def _load(member: Member) -> int:
    return len(member.offsets)


def _judge_owners(state: GroupState, scene: Scene, after: Membership) -> list[Finding]:
    """Open, or resolve, partitions of a classic group without a reader, or with two."""
    if state.protocol == STREAMS_ASSIGNOR or not after.is_readable:
        state.checks.unowned = []
        return _close_owners(state, scene)
    found = faults(state, after.subscriptions)
    state.checks.unowned = list(found.unowned[:_MAX_UNOWNED])
    return _open_or_close(state, scene, found, after.subscriptions)


def _open_or_close(
    state: GroupState, scene: Scene, found: Faults, subscriptions: Mapping[str, Collection[str]]
) -> list[Finding]:
    if not (found.unread or found.twice or found.skipped):
        return _close_owners(state, scene, "completed")
    if state.checks.unassigned:
        return []
    opened = _opened(state, scene, found, subscriptions)
    state.checks.unassigned, state.checks.unassigned_at = opened.incident or "", state.ts
    return [opened]


def _close_owners(state: GroupState, scene: Scene, resolution: str = "withdrawn") -> list[Finding]:
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
    owned: dict[int, set[int]] = {}
    asked, given, unread = subscriptions or {}, 0, []
    for member in state.members:
        own, strange = asked.get(member.member_id, ()), 0
        for topic, *partitions in member.assigned:
            owned.setdefault(topic, set()).update(partitions)
            given += len(partitions)
            if subscriptions is not None and state.topics[topic] not in own:
                strange += len(partitions)
        unread.append(strange)
    # That no partition has two owners is seen without looking at each.
    twice = _twice(state) if given > sum(map(len, owned.values())) else set()
    every = {topic for topics in asked.values() for topic in topics}
    return Faults(
        owners=tuple(
            member
            for member, count in zip(state.members, unread, strict=True)
            if count or (twice and not twice.isdisjoint(_places(member)))
        ),
        unread=sum(unread),
        twice=len(twice),
        unowned=tuple(sorted(every - {state.topics[topic] for topic, places in owned.items() if places})),
        skipped=0 if state.protocol in COOPERATIVE else _skipped(owned),
    )


def _twice(state: GroupState) -> set[tuple[int, int]]:
    """Return the partitions that have two owners."""
    owned = Counter(place for member in state.members for place in _places(member))
    return {place for place, times in owned.items() if times > 1}


def _places(member: Member) -> Iterator[tuple[int, int]]:
    return ((topic, one) for topic, *given in member.assigned for one in given)


def _skipped(owned: Mapping[int, Collection[int]]) -> int:
    """Count the partitions without an owner although a higher number of the same topic has one.

    `owned`: topic -> partitions. They are numbered without a gap, so these exist. A cooperative assignor
    withholds some on purpose.
    """
    return sum(max(places, default=-1) + 1 - len(places) for places in owned.values())


def _opened(
    state: GroupState, scene: Scene, found: Faults, subscriptions: Mapping[str, Collection[str]]
) -> Finding:
    details: Details = {"unread": found.unread, "twice": found.twice}
    details["applications"] = len(applications.apart(subscriptions))
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
        causes=tuple(applications.shared(state.members, subscriptions)),
        details=details,
    )
