"""Assignments that are spread worse than the best of Kafka's assignors would spread them, and idle members.

If all members subscribe to the same topics, a difference of at most one partition between the busiest and
the idlest member is always possible. For unequal subscriptions the assignors themselves compute the best
spread (`assignors/`). The usual case is Range with co-subscribed topics: five partitions against three, or
ten against five. Members without partitions because there are more members than partitions are reported as
information: no assignor can help.

An assignment is not judged

- while partitions are withheld: in the first phase of a cooperative rebalance, and while a member joins
- if a subscription cannot be read, the group is too large to try, or its protocol is not known.

The incident ends when the assignment can no longer be judged, and when the group has no members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.assignors import compare
from rebalance_monitor.coordinator.assignors.model import Subscriber, same_subscriptions
from rebalance_monitor.coordinator.findings.finding import MAX_KEPT
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.rebalance.report import member_entry
from rebalance_monitor.coordinator.state.membership import COOPERATIVE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

KNOWN = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Protocols whose assignments can be judged."""

_MAX_TRIED = 10_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule` is "spread", "idle" or "" (nothing wrong); the best possible loads beside."""

    rule: str
    best: str = ""
    most: int = 0
    least: int = 0


def judge(
    before: GroupState, state: GroupState, scene: Scene, subscriptions: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """Open, or resolve, the skew of a classic group after a completed generation.

    `subscriptions`: member id -> topics. How many partitions there are is known from the generations before.
    """
    asked = [subscriptions.get(member.member_id, ()) for member in state.members]
    if state.protocol not in KNOWN or not all(asked):
        return close(state, scene)
    counts = _counts(before, state, asked)
    loads = [_load(member) for member in state.members]
    # The generation before was not read: partitions may be withheld until the second phase.
    withheld = before.offset < 0 and state.generation > 1 and state.protocol in COOPERATIVE
    if withheld or sum(loads) < sum(counts.values()):
        return []
    if all(topics == asked[0] for topics in asked):
        return _turn(state, scene, _even(loads))
    return _turn(state, scene, verdict(subscribers(state, subscriptions), counts))


def judge_converged(state: GroupState, scene: Scene) -> list[Finding]:
    """Open, or resolve, the skew of a KIP-848 group that has converged; its members name no partitions."""
    loads = [_load(member) for member in state.members]
    subscribed = {member.subscribed for member in state.members}
    if len(subscribed) != 1 or "" in subscribed or not sum(loads):
        return close(state, scene)
    return _turn(state, scene, _even(loads, "uniform"))


def close(state: GroupState, scene: Scene) -> list[Finding]:
    """Withdraw what is open: the group has no members, or none whose spread can be judged."""
    rule, _, incident = state.checks.skewed.partition("/")
    state.checks.skewed = ""
    return [_skew_finding(state, scene, Verdict(rule), incident, "withdrawn")] if rule else []


def severity(rule: str) -> Severity | None:
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
        severity=severity(found.rule),
        incident=incident,
        opened_at=state.checks.skewed_at,
        resolution=resolution,
        members=tuple(member_entry(member, "kept") for member in _named(state.members, found) if opened),
        details=_details(state, found, opened=opened),
    )


def _named(members: list[Member], found: Verdict) -> list[Member]:
    """Return the busiest members, or the idle ones."""
    if found.rule == "idle":
        return [member for member in members if not _load(member)][:MAX_KEPT]
    return sorted(members, key=lambda member: (-_load(member), member.member_id))[:MAX_KEPT]


def _details(state: GroupState, found: Verdict, *, opened: bool) -> Details:
    loads = [_load(member) for member in state.members]
    most, least = max(loads, default=0), min(loads, default=0)
    details: Details = {"most": most, "least": least, "idle": loads.count(0), "rule": found.rule}
    if opened:
        details |= {"best_most": found.most, "best_least": found.least}
    return details | ({"best": found.best} if found.best else {})


def _load(member: Member) -> int:
    return len(member.offsets)
