"""Sticky and CooperativeSticky (KIP-54, KIP-429): as even as possible, with as few moves as possible.

Where all members subscribe to the same topics each member has a quota, the smallest or one more, and keeps
what it owns up to that; otherwise `general` balances. CooperativeSticky hands out the same, but withholds
partitions that another member still has to give up. What members own is taken as of one generation: what two
of them claim belongs to neither. Racks are left out: the topic holds none of the replicas' racks.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.assignors import general
from rebalance_monitor.coordinator.assignors.model import by_id, consumers_of, same_subscriptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.assignors.model import Assignment, Counts, Partition, Subscriber


def assign(members: Sequence[Subscriber], counts: Counts) -> Assignment:
    """Hand out every partition evenly, and move as few owned partitions as possible."""
    if same_subscriptions(members):
        return _Quotas(by_id(members), counts).build()
    return general.assign(members, counts)


def cooperative(members: Sequence[Subscriber], counts: Counts) -> Assignment:
    """Return the first phase of a cooperative rebalance: what has to change its owner is not handed out."""
    target = assign(members, counts)
    owner = {place: member.member_id for member in members for place in member.owned}
    return {
        member: [place for place in places if owner.get(place, member) == member]
        for member, places in target.items()
    }


@dataclass(slots=True)
class _Quotas:
    """Equal subscriptions: `few` partitions each, one more for `extra` members."""

    members: list[Subscriber]
    counts: Counts
    out: Assignment = field(default_factory=dict)
    few: int = 0
    extra: int = 0
    under: list[str] = field(default_factory=list)
    exactly: deque[str] = field(default_factory=deque)

    def build(self) -> Assignment:
        everything = [(t, p) for t in consumers_of(self.members, self.counts) for p in range(self.counts[t])]
        self.few, self.extra = divmod(len(everything), max(len(self.members), 1))
        self.out = {member.member_id: [] for member in self.members}
        claims = Counter(place for member in self.members for place in set(member.owned))
        valid = {place for place in everything if claims[place] == 1}
        for member in self.members:
            self._keep(member.member_id, [place for place in member.owned if place in valid])
        taken = {place for places in self.out.values() for place in places}
        self._hand_out([place for place in everything if place not in taken])
        return self.out

    def _keep(self, member: str, owned: list[Partition]) -> None:
        """Leave the member what it owns up to its quota."""
        owned = sorted(owned, key=lambda place: (place[1], place[0]))
        if len(owned) < self.few:
            self.under.append(member)
        elif len(owned) > self.few and self.extra > 0:
            self.extra -= 1
            owned = owned[: self.few + 1]
        else:
            owned = owned[: self.few]
            self.exactly.append(member)
        self.out[member] += owned

    def _hand_out(self, places: list[Partition]) -> None:
        """Fill members up to the smaller quota in turns, then members that may have one more."""
        turn = deque(self.under)
        for place in places:
            if not turn:
                member = self.exactly.popleft()
                self.out[member].append(place)
                continue
            member = turn.popleft()
            self.out[member].append(place)
            if len(self.out[member]) < self.few:
                turn.append(member)
            else:
                self.exactly.append(member)
