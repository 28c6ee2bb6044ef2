"""Facts that the scenario decides: why a group rebalanced although no member joined or left.

The coordinator's log only says which member asked for a rebalance. What made that member ask is known from
the step that was done before it: partitions were added, a topic deleted, a connector reconfigured. A fact is
tied to a generation: the first that was asked for after the step for no reason of membership. What no step
explains is a cooperative follow-up, if the client says so or its assignor works so, a probing rebalance of
Kafka Streams, or a leader that rejoined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.truth.fold import Fact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rebalance_monitor.lab.truth.truth import Truth

# A client's metadata is as old as 5 s in the lab (metadata.max.age.ms), and its heartbeat up to 1 s.
EFFECT_MS = 12_000
REFILLED_MS = 60_000
_OF_MEMBERS = re.compile(
    r"Adding new member|on heartbeat expiration|LeaveGroup|removing member|pending sync|[Ss]tatic member"
)
_OF_LOSS = re.compile(r"on heartbeat expiration|LeaveGroup")
_FOLLOW_UP = re.compile(r"need to revoke partitions and re-join")
# At once (0) where tasks are only handed over, at a time announced before where they had to warm up.
_PROBING = re.compile(r"triggered followup rebalance scheduled for [1-9]")
_FOLLOWING = re.compile(r"triggered followup rebalance")


@dataclass(frozen=True, slots=True)
class Act:
    """A step that was done: when (ms), what, to which member ids.

    `verb` is a scenario's, or what it amounts to: rejoin, connector, assignor (a member with another one),
    assign (a client that commits with the group id and is no member).
    """

    at: int
    verb: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """What of a group's scenario matters here; `moves`: when its coordinator moved (ms).

    `joins_by_pattern`: its members subscribe to a pattern; `at_broker`: which the broker resolves.
    """

    group: str
    acts: tuple[Act, ...]
    cooperative: bool = False
    connect: bool = False
    joins_by_pattern: bool = False
    at_broker: bool = False
    moves: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cycle:
    """One written generation: when and why it was asked for, when it was written."""

    generation: int
    asked: int
    reason: str
    written: int

    @property
    def of_members(self) -> bool:
        return bool(_OF_MEMBERS.search(self.reason))

    @property
    def of_loss(self) -> bool:
        return bool(_OF_LOSS.search(self.reason))


def scripted_facts(script: Script, events: Iterable[Truth]) -> list[Fact]:
    """Derive the facts of one classic group from its script and its truth events, in order of time."""
    own = [event for event in events if event.group == script.group]
    cycles = list(_cycles(own))
    facts = [
        fact for act in _without_repeated_assignors(script.acts) for fact in _of_act(script, act, cycles, own)
    ]
    explained = {fact.generation for fact in facts if fact.generation >= 0}
    explained |= {one.generation for one in cycles for act in script.acts if _resubscribes(script, act, one)}
    if script.connect:
        # The generation after a loss announces the delay; whether that is its cause is a matter of taste.
        label = f"cause:{Cause.CONNECT_DELAYED}"
        lost = (one for one in cycles if one.of_loss)
        facts += [Fact(label, script.group, one.generation, "", one.written, required=False) for one in lost]
    for before, cycle in pairwise(cycles):
        if not cycle.of_members and cycle.generation not in explained:
            facts += _of_reason(script, before, cycle)
        elif not cycle.of_members and any(_resubscribes(script, act, cycle) for act in script.acts):
            # It may as well have been asked for by a client that learnt of its topics late.
            facts += [replace(fact, required=False) for fact in _of_reason(script, before, cycle)]
    return facts


def _without_repeated_assignors(acts: Iterable[Act]) -> Iterator[Act]:
    """Leave out all members but the first that come with another assignor: with that one it has changed."""
    changed = False
    for act in acts:
        if act.verb != "assignor" or not changed:
            yield act
        changed |= act.verb == "assignor"


def _resubscribes(script: Script, act: Act, cycle: _Cycle) -> bool:
    changes = act.verb in {"subscribe", "delete_topic"} or (
        act.verb == "create_topic" and script.joins_by_pattern
    )
    return changes and act.at <= cycle.asked <= act.at + EFFECT_MS


def _cycles(events: Sequence[Truth]) -> Iterator[_Cycle]:
    asked: Truth | None = None
    for event in events:
        if event.what == "started" and asked is None:
            asked = event
        elif event.what == "synced" and asked is not None:
            yield _Cycle(event.generation, asked.at, asked.reason, event.at)
            asked = None
        elif event.what == "empty":
            asked = None


# Verb -> the cause of the generation after it, and whether that may be asked for by a member that joins.
_NEXT = {
    "add_partitions": (Cause.PARTITIONS_CHANGED, False),
    "rejoin": (Cause.LEADER_REJOINED, False),
    "reset_offsets": (Cause.OFFSETS_RESET, True),
    "assignor": (Cause.PROTOCOL_CHANGED, True),
}
# Connect reconfigures, revokes and assigns; every member hears of a deleted topic for itself.
_SEVERAL = {
    "connector": (Cause.CONNECT_RECONFIGURED, (Cause.COOPERATIVE_FOLLOW_UP,)),
    "delete_topic": (Cause.TOPIC_DELETED, (Cause.PARTITIONS_CHANGED, Cause.LEADER_REJOINED)),
}


def _of_act(script: Script, act: Act, cycles: Sequence[_Cycle], events: Sequence[Truth]) -> list[Fact]:
    if act.verb in _NEXT:
        cause, any_reason = _NEXT[act.verb]
        return _of_next(script, cause, act, cycles, any_reason=any_reason)
    if act.verb in _SEVERAL:
        # Some clients drop a topic that is gone from their subscription.
        gone = _members_at(events, act.at) if act.verb == "delete_topic" else []
        return _of_several(script, act, cycles) + _subscribed(script, act, gone, required=False)
    if act.verb == "remove_members":
        label = f"cause:{Cause.MEMBER_REMOVED_BY_ADMIN}"
        return [Fact(label, script.group, -1, member, act.at) for member in act.members]
    if act.verb == "delete_group":
        label = f"cause:{Cause.GROUP_DELETED_BY_ADMIN}"
        return [Fact(one, script.group, -1, "", act.at) for one in (Kind.GROUP_REMOVED, label)]
    if act.verb == "assign":
        label = f"cause:{Cause.GROUP_ID_SHARED}"
        refilled = (one for one in cycles if act.at <= one.asked and _was_empty(one, events))
        return [Fact(label, script.group, one.generation, "", one.written) for one in refilled]
    members = act.members if act.verb == "subscribe" else ()
    if act.verb == "create_topic" and script.joins_by_pattern:
        members = tuple(_members_at(events, act.at))
        # Then no member's own subscription changes.
        members = ("",) if script.at_broker and members else members
    return _subscribed(script, act, members, required=True)


def _was_empty(cycle: _Cycle, events: Sequence[Truth]) -> bool:
    """Whether a generation fills a group without members: what was committed before it is foreign."""
    before = [one.what for one in events if one.at < cycle.asked and one.what in {"empty", "synced"}]
    return before[-1:] == ["empty"]


def _subscribed(script: Script, act: Act, members: Iterable[str], *, required: bool) -> list[Fact]:
    label = f"cause:{Cause.SUBSCRIPTION_CHANGED}"
    return [Fact(label, script.group, -1, member, act.at, required=required) for member in members]


def _of_next(
    script: Script,
    cause: Cause,
    act: Act,
    cycles: Sequence[_Cycle],
    *,
    any_reason: bool,
) -> list[Fact]:
    within = REFILLED_MS if any_reason else EFFECT_MS
    later = (one for one in cycles if act.at <= one.asked <= act.at + within)
    chosen = next((one for one in later if any_reason or not one.of_members), None)
    if chosen is None:
        return []
    return [Fact(f"cause:{cause}", script.group, chosen.generation, "", chosen.written)]


def _of_several(script: Script, act: Act, cycles: Sequence[_Cycle]) -> list[Fact]:
    """Of several generations that a step causes the first must be reported with its cause, others may be."""
    cause, others = _SEVERAL[act.verb]
    during = [one for one in cycles if act.at <= one.asked <= act.at + EFFECT_MS]
    after = [one for one in during if not one.of_members]
    # Where a member's coming or going asked for it, its record shows what the step changed as well.
    found = [
        Fact(f"cause:{other}", script.group, one.generation, "", one.written, required=False)
        for one in during
        if one not in after[:1]
        for other in (cause, *(() if one.of_members else others))
    ]
    label = f"cause:{cause}"
    return found + [Fact(label, script.group, one.generation, "", one.written) for one in after[:1]]


def _of_reason(script: Script, before: _Cycle, cycle: _Cycle) -> list[Fact]:
    """Name why a generation came that no step explains and in which no member joined or left."""
    if any(0 <= cycle.asked - at <= EFFECT_MS for at in script.moves):
        causes, required = [Cause.COORDINATOR_MOVED, Cause.LEADER_REJOINED], False
    elif _PROBING.search(cycle.reason):
        causes, required = [Cause.STREAMS_PROBING], True
    elif _FOLLOWING.search(cycle.reason):
        causes, required = [Cause.STREAMS_PROBING, Cause.COOPERATIVE_FOLLOW_UP], False
    elif script.connect and before.of_loss:
        causes, required = [Cause.CONNECT_DELAYED], True
    elif script.connect:
        causes, required = [Cause.CONNECT_DELAYED, Cause.COOPERATIVE_FOLLOW_UP], False
    elif _FOLLOW_UP.search(cycle.reason) or (script.cooperative and cycle.asked - before.written < EFFECT_MS):
        causes, required = [Cause.COOPERATIVE_FOLLOW_UP], True
    else:
        causes, required = [Cause.LEADER_REJOINED], True
    at, group = cycle.written, script.group
    return [Fact(f"cause:{cause}", group, cycle.generation, "", at, required=required) for cause in causes]


def _members_at(events: Iterable[Truth], at: int) -> list[str]:
    members: dict[str, None] = {}
    for event in events:
        if event.at > at:
            break
        if event.what == "joined":
            members |= dict.fromkeys(event.members)
        elif event.what in {"left", "poll_left", "expired", "join_deadline", "sync_deadline"}:
            for member in event.members:
                members.pop(member, None)
    return list(members)
