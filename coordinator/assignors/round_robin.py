"""RoundRobin: all partitions in order, each to the next member in turn that subscribes to its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.assignors.model import consumers_of, static_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.assignors.model import Assignment, Counts, Subscriber


def assign(members: Sequence[Subscriber], counts: Counts) -> Assignment:
    """Hand out every partition of the topics with a subscriber."""
    out: Assignment = {member.member_id: [] for member in members}
    turns = static_first(members)
    at = 0
    for topic in consumers_of(turns, counts):
        for partition in range(counts[topic]):
            while topic not in turns[at].topics:
                at = (at + 1) % len(turns)
            out[turns[at].member_id].append((topic, partition))
            at = (at + 1) % len(turns)
    return out
