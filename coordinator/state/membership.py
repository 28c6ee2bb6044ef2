"""A group before a record and after it: its state as it was, and the members that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rebalance_monitor.decoders.layouts.twins import quickly_made

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

T = TypeVar("T")

STREAMS_ASSIGNOR = "stream"
"""Of classic Kafka Streams, whose members subscribe to more than their tasks read."""

COOPERATIVE = frozenset({"cooperative-sticky", "stream", "compatible", "sessioned"})
"""Protocols whose members keep partitions through a rebalance and may need a second one to hand them on."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Change:
    """What differs between two memberships; `replaced` pairs are (before, after) of one instance id."""

    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    replaced: tuple[tuple[Member, Member], ...]
    kept: tuple[tuple[Member, Member], ...]


def compare(before: list[Member], after: list[Member]) -> Change:
    """Members that joined, departed, were replaced under their instance id, or stayed."""
    old = {member.member_id: member for member in before}
    new = {member.member_id: member for member in after}
    gone = {m.instance_id: m for m in before if m.instance_id is not None and m.member_id not in new}
    replaced = [(gone[m.instance_id], m) for m in after if m.member_id not in old and m.instance_id in gone]
    moved = {member.member_id for pair in replaced for member in pair}
    return Change(
        joined=tuple(m for m in after if m.member_id not in old and m.member_id not in moved),
        left=tuple(m for m in before if m.member_id not in new and m.member_id not in moved),
        replaced=tuple(replaced),
        kept=tuple((old[m.member_id], m) for m in after if m.member_id in old),
    )


def assigned_by_topic(members: list[Member], topics: list[str]) -> dict[str, int]:
    """Topic -> partitions assigned in it."""
    counts: dict[str, int] = {}
    for member in members:
        for topic, *given in member.assigned:
            counts[topics[topic]] = counts.get(topics[topic], 0) + len(given)
    return counts


def as_it_was(state: GroupState) -> GroupState:
    """Return the group as it is now, for comparison with what the next record makes of it.

    Lists, storms and positions are shared with `state`.
    """
    before = _copy(state)
    before.rebalances, before.learned = _copy(state.rebalances), _copy(state.learned)
    before.epochs, before.changes = _copy(state.epochs), _copy(state.changes)
    before.subscriptions, before.empty = _copy(state.subscriptions), _copy(state.empty)
    before.stuck, before.checks = _copy(state.stuck), _copy(state.checks)
    return before


# A third of the price of `copy.copy`, which looks for it.
_copy: Callable[[T], T] = msgspec.Struct.__copy__  # type: ignore[attr-defined] # the stub does not have it
