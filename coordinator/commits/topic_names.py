"""Resolves the topic ids of an epoch-based group to names: its records hold ids, commits hold names.

From 4.1 on no record holds both. A request commits partitions of one member. So each name in it belongs to an
id of which that member has all these partitions; any other id is ruled out for that name. Names that
cannot be distinguished need no distinction if the same members have the same partitions of all their ids. A
request that fits no member (it commits an assignment just given up) is no evidence. A contradiction resets
what was learned.
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
    names, aliases = state.subscriptions.names, state.subscriptions.aliases
    if not 1 < len(names) <= MAX_TOPICS or state.status != Status.STABLE:
        return False
    return any(len(aliases.get(name, ())) != 1 for name in names)


def on_run(state: GroupState, listed: Iterable[tuple[str, int]], at: int) -> bool:
    """Take a run of commits at `at` (ms); True where the request before it, now complete, resolved an id.

    A run may be cut anywhere, so what was committed at one time is put together first.
    """
    run = state.subscriptions
    has_resolved = at != run.committed_at and _learn(state)
    if at != run.committed_at:
        run.committed, run.committed_at = [], at
    if at >= state.cst + _SETTLED_MS and len(run.committed) <= MAX_PARTITIONS:
        run.committed += [list(place) for place in listed if place[0] in run.names]
    return has_resolved


def _learn(state: GroupState) -> bool:
    asked: Shares = {}
    committed = state.subscriptions.committed
    for name, partition in committed if len(committed) <= MAX_PARTITIONS else ():
        asked.setdefault(str(name), set()).add(int(partition))
    fits = [found for share in _shares(state) if (found := _fitting(state, asked, share))]
    if not asked or not fits:
        return False
    fitting = {name: sorted({topic for found in fits for topic in found[name]}) for name in asked}
    before = dict(state.subscriptions.aliases)
    state.subscriptions.aliases = _propagated({**state.subscriptions.aliases, **fitting})
    return state.subscriptions.aliases != before


def forget(state: GroupState) -> None:
    """Forget topics no longer assigned to the group: a topic that is created again has another id."""
    here, known = set(state.topics), state.subscriptions
    known.aliases = {
        name: ids for name, ids in known.aliases.items() if name in known.names and here.issuperset(ids)
    }


def named(state: GroupState) -> list[str]:
    """Return the name of each of the group's topics, "" where it is not known."""
    subscribed = state.subscriptions.names
    if not subscribed:
        return state.topics
    if len(subscribed) == len(state.topics) == 1:
        return subscribed
    names = {ids[0]: name for name, ids in state.subscriptions.aliases.items() if len(ids) == 1}
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
            if partitions <= given and topic in state.subscriptions.aliases.get(name, (topic,))
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
    for name, ids in sorted(state.subscriptions.aliases.items()):
        if len(ids) > 1:
            shared.setdefault(tuple(ids), []).append(name)
    shares = _shares(state) if shared else []
    return {
        topic: name
        for ids, names in shared.items()
        if len(ids) == len(names)
        and all(share.get(ids[0]) == share.get(topic) for share in shares for topic in ids)
        for topic, name in zip(ids, names, strict=True)
    }
