"""Who is behind a storm: the client that took part in most of the generations that were noted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings import Details
    from rebalance_monitor.coordinator.state import StormState

_NAMED = 4
"""Place of the member id in an event that has one."""


def worst(storm: StormState) -> Details:
    """Return the client behind most of the noted generations, its newest member, and its share of them."""
    tally = Counter(str(event[3]) for event in storm.events if event[3])
    if not tally:
        return {}
    worst, count = min(tally.items(), key=lambda item: (-item[1], item[0]))
    # A client id may hold spaces, an address does not.
    client, _, host = worst.rpartition(" ")
    found: Details = {
        "worst_client": client,
        "worst_host": host,
        "worst_share": round(count / len(storm.events), 2),
    }
    named = [event for event in storm.events if event[3] == worst and len(event) > _NAMED]
    if named:
        member, instance = map(str, named[-1][_NAMED:])
        found |= {"worst_member": member} | ({"worst_instance": instance} if instance else {})
    return found
