"""Applications that share a group id: members whose subscriptions have no topic in common.

Each deployment of one application rebalances the other, and a leader that knows only its own topics leaves
those of the other without a reader. A member without topics is no evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rebalance_monitor.coordinator.state.group_state import Member

TWO_APPLICATIONS = "two applications share this group id"

_NAMED, _SOME, _SEVERAL = 5, 3, 2
_SHARED = 0.4


def apart(subscriptions: Mapping[str, Collection[str]]) -> list[set[str]]:
    """Return the sets of topics that no member subscribes across: from two on, one for each application.

    `subscriptions`: member id -> topics, of all members.
    """
    found: list[set[str]] = []
    for topics in map(set, subscriptions.values()):
        if topics:
            shared = [one for one in found if one & topics]
            found = [one for one in found if not one & topics] + [topics.union(*shared)]
    return found


def shared(members: Collection[Member], subscriptions: Mapping[str, Collection[str]]) -> list[CauseEntry]:
    """Name the applications that share the group id; nothing if there is only one.

    No member is responsible, so this cause comes after the causes that name members.
    """
    sets = apart(subscriptions)
    if len(sets) < _SEVERAL:
        return []
    why = f"{described(members, sets, subscriptions)} have no topic in common: {TWO_APPLICATIONS}"
    return [CauseEntry(Cause.GROUP_ID_SHARED, _SHARED, why)]


def described(
    members: Collection[Member],
    sets: Collection[Collection[str]],
    subscriptions: Mapping[str, Collection[str]],
) -> str:
    """Name each set's topics and the clients that subscribe to them."""
    named = []
    for topics in sorted(map(sorted, sets)):
        asking = [m.client_id for m in members if set(topics) & set(subscriptions.get(m.member_id, ()))]
        named.append(f"{_some(list(dict.fromkeys(asking)))} ({_some(topics)})")
    return " and ".join(named[:_NAMED])


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return f"{', '.join(names[:_SOME])}{more}"
