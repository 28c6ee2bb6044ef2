"""Which of an epoch-based group's topic ids goes by which name: records name ids, commits name topics.

From 4.1 on no record holds both. A request commits partitions of one member; so the names in it stand for ids
of which that member has all these partitions, and what fits no member in one request rules an id out for
good. Names that cannot be told apart are not needed apart where the same members have the same partitions of
all their ids. What fits nobody (a commit of an assignment just given up) says nothing; contradictions begin
anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.coordinator.state.group_state import GroupState

MAX_TOPICS = 20
MAX_PARTITIONS = 256
_SETTLED_MS = 2_000

Shares = dict[str, set[int]]
"""topic id -> partitions, of one member"""


def is_ambiguous(state: GroupState) -> bool:
    """Whether commits can still resolve a topic id: several topics, and not each name has one id."""
    if not 1 < len(state.names) <= MAX_TOPICS or state.status != Status.STABLE:
        return False
    return any(len(state.aliases.get(name, ())) != 1 for name in state.names)


def on_run(state: GroupState, listed: Iterable[tuple[str, int]], at: int) -> bool:
    """Take a run of commits at `at` (ms); True where the request before it, now complete, resolved an id.

    A run may be cut anywhere, so what was committed at one time is put together first.
    """
    if at != state.asked_at:
        told = _learn(state)
        state.asked, state.asked_at = [], at
    else:
        told = False
    if at >= state.cst + _SETTLED_MS and len(state.asked) <= MAX_PARTITIONS:
        state.asked += [list(place) for place in listed if place[0] in state.names]
    return told


def _learn(state: GroupState) -> bool:
    asked: Shares = {}
    for name, partition in state.asked if len(state.asked) <= MAX_PARTITIONS else ():
        asked.setdefault(str(name), set()).add(int(partition))
    fits = [found for share in _shares(state) if (found := _fitting(state, asked, share))]
    if not asked or not fits:
        return False
    told = {name: sorted({topic for found in fits for topic in found[name]}) for name in asked}
    before = dict(state.aliases)
    state.aliases = _propagated({**state.aliases, **told})
    return state.aliases != before


def forget(state: GroupState) -> None:
    """Forget topics no longer assigned to the group: a topic that is created again has another id."""
    here = set(state.topics)
    state.aliases = {
        name: ids for name, ids in state.aliases.items() if name in state.names and here.issuperset(ids)
    }


def named(state: GroupState) -> list[str]:
    """Return the name of each of the group's topics, "" where it is not known."""
    if not state.names:
        return state.topics
    if len(state.names) == len(state.topics) == 1:
        return state.names
    names = {ids[0]: name for name, ids in state.aliases.items() if len(ids) == 1}
    names |= _alike(state)
    return [names.get(topic, "") for topic in state.topics]


def _shares(state: GroupState) -> list[Shares]:
    return [{state.topics[t]: set(given) for t, *given in member.assigned} for member in state.members]


def _fitting(state: GroupState, asked: Shares, share: Shares) -> dict[str, list[str]]:
    """Return name -> ids that one member's share allows; empty where some name fits none."""
    found = {
        name: [
            topic
            for topic, given in share.items()
            if partitions <= given and topic in state.aliases.get(name, (topic,))
        ]
        for name, partitions in asked.items()
    }
    return found if all(found.values()) else {}


def _propagated(aliases: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Rule the ids of settled names out for the others; a contradiction forgets everything."""
    found = dict(aliases)
    for _ in found:
        taken = {ids[0] for ids in found.values() if len(ids) == 1}
        found = {
            name: ids if len(ids) == 1 else [topic for topic in ids if topic not in taken]
            for name, ids in found.items()
        }
    single = [ids[0] for ids in found.values() if len(ids) == 1]
    return {} if len(set(single)) < len(single) or not all(found.values()) else found


def _alike(state: GroupState) -> dict[str, str]:
    """Pair names with ids that they share, where every member has the same partitions of all of these."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for name, ids in sorted(state.aliases.items()):
        if len(ids) > 1:
            shared.setdefault(tuple(ids), []).append(name)
    shares = _shares(state)
    return {
        topic: name
        for ids, names in shared.items()
        if len(ids) == len(names)
        and all(share.get(ids[0]) == share.get(topic) for share in shares for topic in ids)
        for topic, name in zip(ids, names, strict=True)
    }
