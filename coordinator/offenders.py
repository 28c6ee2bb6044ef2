"""What of a storm's noted generations counts, and who is behind them.

A loss of an unstable client counts, of which a young member was lost twice, and so do those that disrupt by
themselves. The worst offender is the client with the most of what counts; failed generations are nobody's.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.restarts import Code

if TYPE_CHECKING:
    from collections.abc import Collection

    from rebalance_monitor.coordinator.findings import Details
    from rebalance_monitor.coordinator.state import StormState

Event = list[int | str]
"""When (ms), what, how many generations, `client id host` of the offender, and, of some, its member and
instance ids."""

_UNSTABLE = 2
_DISRUPTIVE = frozenset({Code.LOST, Code.YOUNG, Code.SAME, Code.FAILED})
_NAMED = 4
_LEAST_SHARE = 0.1


def unstable(storm: StormState) -> set[int | str]:
    """Return the clients that have lost a young member twice."""
    lost = Counter(event[3] for event in storm.events if event[1] == Code.YOUNG)
    return {who for who, times in lost.items() if times >= _UNSTABLE}


def weight(event: Event, clients: Collection[int | str]) -> int:
    """How many generations of a storm a noted event is, 0 where it is none; `clients`: the unstable ones."""
    return int(event[2]) if event[1] in _DISRUPTIVE or event[3] in clients else 0


def counted(storm: StormState) -> tuple[int, int]:
    """(completed, failed) generations of the window that count."""
    clients = unstable(storm)
    failed = sum(weight(event, clients) for event in storm.events if event[1] == Code.FAILED)
    return sum(weight(event, clients) for event in storm.events) - failed, failed


def worst(storm: StormState) -> Details:
    """Return the client behind most of what counts, its newest member, and its share; none behind little."""
    clients = unstable(storm)
    tally = Counter[str]()
    for event in storm.events:
        tally[str(event[3])] += weight(event, clients)
    named = [(who, count) for who, count in tally.items() if who]
    found, count = min(named, key=lambda one: (-one[1], one[0]), default=("", 0))
    if count <= 0 or count < _LEAST_SHARE * tally.total():
        return {}
    # A client id may hold spaces, an address does not.
    client, _, host = found.rpartition(" ")
    told: Details = {
        "worst_client": client,
        "worst_host": host,
        "worst_share": round(count / tally.total(), 2),
    }
    members = [event[_NAMED:] for event in storm.events if event[3] == found and len(event) > _NAMED]
    if members:
        member, instance = map(str, members[-1])
        told |= {"worst_member": member} | ({"worst_instance": instance} if instance else {})
    return told
