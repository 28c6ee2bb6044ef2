"""Which generations count towards a storm, and which members are responsible.

These count:

- generations that disrupt by themselves
- generations of an unstable client: it has lost a young member twice
- after the fourth loss of a replacement (`CYCLE`), as many returns as young members were lost before. Any
  member may return: a pod that is created anew has another host, and often another client id. More returns
  than losses are a scale-out. A rollout, its roll-back and the next rollout are no cycle yet.

The worst offender is the client with the most of what counts. Its host is named unless it moves from host to
host. Failed generations have no offender.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.storms import offenders
from rebalance_monitor.coordinator.storms.rolling_restarts import YOUNG, Code

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from rebalance_monitor.coordinator.findings.finding import Details
    from rebalance_monitor.coordinator.state.group_state import StormState

Event = list[int | str]
"""When (ms), what, how many generations, `client id host` of the offender, and, of some, its member and
instance ids."""

_UNSTABLE = 2
_DISRUPTIVE = YOUNG | {Code.LOST, Code.SAME, Code.FAILED}
_MEMBER = 4
_LEAST_SHARE = 0.1


def weights(storm: StormState) -> list[int]:
    """How many generations of a storm each event counts for, 0 if it does not count."""
    clients = _unstable(storm)
    found, away, cycling = [], 0, False
    for event in storm.events:
        code, generations = event[1], int(event[2])
        cycling = cycling or code == Code.CYCLE
        counts = generations if code in _DISRUPTIVE or event[3] in clients else 0
        if code in YOUNG:
            away += generations
        elif code == Code.RETURN:
            back = min(generations, away)
            away -= back
            counts = max(counts, back if cycling else 0)
        found.append(counts)
    return found


def counted(storm: StormState) -> tuple[int, int]:
    """(completed, failed) generations of the window that count."""
    weighed = weights(storm)
    failed = sum(one for one, event in zip(weighed, storm.events, strict=True) if event[1] == Code.FAILED)
    return sum(weighed) - failed, failed


def _unstable(storm: StormState) -> set[int | str]:
    """Return the clients that have lost a young member twice."""
    lost = Counter(event[3] for event in storm.events if event[1] in YOUNG)
    return {who for who, times in lost.items() if times >= _UNSTABLE}


def worst(storm: StormState) -> Details:
    """Return the client with most of what counts, its newest member, and its share.

    A small share is not returned. If the client moves from host to host, no host is named.
    """
    tally: dict[str, Counter[str]] = {}
    weighed = weights(storm)
    for event, weight in zip(storm.events, weighed, strict=True):
        if event[3]:
            client, host = _named(event)
            tally.setdefault(client, Counter())[host] += weight
    clients = {name: hosts.total() for name, hosts in tally.items()}
    client, count = _most(clients)
    if count < offenders.MAIN_SHARE * sum(weighed) and (several := offenders.common(clients, sum(weighed))):
        return several
    if count <= 0 or count < _LEAST_SHARE * sum(weighed):
        return {}
    found: Details = {"worst_client": client}
    host, there = _most(tally[client])
    if 2 * there >= count:
        found["worst_host"], count = host, there
    found["worst_share"] = round(count / sum(weighed), 2)
    hosts = {host} if "worst_host" in found else set(tally[client])
    members = [
        event[_MEMBER:] for event in storm.events if len(event) > _MEMBER and _is(event, client, hosts)
    ]
    if members:
        member, instance = map(str, members[-1])
        found |= {"worst_member": member} | ({"worst_instance": instance} if instance else {})
    return found


def _most(tally: Mapping[str, int]) -> tuple[str, int]:
    """Return the client with the highest weight, and the weight."""
    return min(tally.items(), key=lambda one: (-one[1], one[0]), default=("", 0))


def _named(event: Event) -> tuple[str, str]:
    """(client id, host) of the offender: a client id may hold spaces, an address does not."""
    client, _, host = str(event[3]).rpartition(" ")
    return client, host


def _is(event: Event, client: str, hosts: Container[str]) -> bool:
    name, host = _named(event)
    return bool(event[3]) and name == client and host in hosts
