"""The server-side assignors of KIP-848 groups: `uniform` (the default) and `range`.

Uniform starts from the current target and is even over all topics, each member's quota
first kept, then filled; unequal subscriptions are balanced like the sticky assignor's general case. Range is
the clients' Range without racks: not sticky, co-partitioned topics stay together.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.assignors import general
from rebalance_monitor.coordinator.assignors.model import consumers_of, same_subscriptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.assignors.model import Assignment, Counts, Subscriber


def uniform(members: Sequence[Subscriber], counts: Counts) -> Assignment:
    """Hand out every partition; members in the given order, as the server keeps them."""
    if not same_subscriptions(members):
        return general.assign(members, counts)
    everything = [(topic, p) for topic in consumers_of(members, counts) for p in range(counts[topic])]
    few, extra = divmod(len(everything), max(len(members), 1))
    known = set(everything)
    out: Assignment = {}
    for member in members:
        owned = [place for place in member.owned if place in known]
        more = len(owned) > few and extra > 0
        extra -= more
        out[member.member_id] = owned[: few + more]
    taken = {place for places in out.values() for place in places}
    left = iter([place for place in everything if place not in taken])
    for places in out.values():
        more = len(places) <= few and extra > 0
        extra -= more
        places.extend(islice(left, max(0, few + more - len(places))))
    return out
