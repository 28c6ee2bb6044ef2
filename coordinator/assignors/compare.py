"""What an assignment is worth: how it is spread, and how many partitions change their owner to get there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.assignors.table import CLIENT, SERVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.assignors.model import Assignment, Counts, Subscriber

MAX_WORK = 200_000
"""Members times partitions up to which an assignor is tried; larger groups are not compared."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Partitions of the busiest and the idlest member, members without any, and partitions that moved."""

    most: int
    least: int
    idle: int
    moves: int


def spread(assignment: Assignment, members: Sequence[Subscriber]) -> Spread:
    """Describe `assignment` as seen from what the members own."""
    owner = {place: member.member_id for member in members for place in member.owned}
    loads = [len(assignment.get(member.member_id, ())) for member in members]
    moves = sum(
        owner.get(place, member) != member for member, places in assignment.items() for place in places
    )
    return Spread(max(loads, default=0), min(loads, default=0), loads.count(0), moves)


def current(members: Sequence[Subscriber]) -> Spread:
    """Describe what the members own now."""
    return spread({member.member_id: list(member.owned) for member in members}, members)


def alternatives(members: Sequence[Subscriber], counts: Counts, *, epochs: bool = False) -> dict[str, Spread]:
    """Return what each assignor would give, by name; empty where the group is too large to try.

    `epochs`: the server's assignors, for a KIP-848 group.
    """
    if not members or len(members) * sum(counts.values()) > MAX_WORK:
        return {}
    table = SERVER if epochs else CLIENT
    return {name: spread(assign(members, counts), members) for name, assign in table.items()}
