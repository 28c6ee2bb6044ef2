"""Which members went on committing after another one had fallen silent: what tells its silence from a lull.

Many members may depart one after the other, and each is judged beside all that are left. So the latest
commits are kept in order, and only members that have committed, come or left since are looked at again.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.trace import is_steady

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.state.group_state import Member
    from rebalance_monitor.coordinator.state.roster import Roster

OFTEN = 3
"""Commits from which a member's silence may say something."""

_LONGER = 1.5
_ANY_TOPIC = -1
# Entries of a heap for each number that counts, from which on it is made anew.
_VOID = 4


class Greatest:
    """The greatest of numbers that come, change and go, each under a name."""

    __slots__ = ("_heap", "now")

    def __init__(self) -> None:
        self.now: dict[str, float] = {}
        self._heap: list[tuple[float, str]] | None = None

    def set(self, name: str, number: float) -> None:
        """Take the number of `name`, in place of the one before."""
        self.now[name] = number
        if self._heap is not None:
            heappush(self._heap, (-number, name))
            if len(self._heap) > _VOID * (len(self.now) + _VOID):
                self._heap = None

    def drop(self, name: str) -> None:
        """Forget the number of `name`, if it has one."""
        self.now.pop(name, None)

    def top(self) -> str | None:
        """Return the name of the greatest number, None where there is none."""
        if self._heap is None:
            self._heap = [(-number, name) for name, number in self.now.items()]
            heapify(self._heap)
        heap = self._heap
        while heap and self.now.get(heap[0][1]) != -heap[0][0]:
            heappop(heap)
        return heap[0][1] if heap else None

    def most(self) -> float | None:
        """Return the greatest number, None where there is none."""
        name = self.top()
        return None if name is None else self.now[name]


class Siblings:
    """Members that went on, and until when.

    Until so much time before its last commit a member went on by more than its intervals. Members that
    subscribe to other topics are another application: how much they have to do is no evidence. Steady members
    are those of `is_steady`, with partitions.
    """

    __slots__ = ("_beyond", "_newest", "_places", "_until", "lived")

    def __init__(self, members: Iterable[Member]) -> None:
        self.lived: dict[str, None] = {}
        self._until: dict[tuple[str, int], Greatest] = {}
        self._places: dict[str, list[tuple[str, int]]] = {}
        self._newest, self._beyond = Greatest(), Greatest()
        for member in members:
            self._take(member)

    def committed(self, member: Member, life: int) -> bool:
        """Whether siblings on topics of its own committed after `life` (ms), by more than their intervals."""
        topics = [topic for topic, *_ in member.assigned] or [_ANY_TOPIC]
        places = (self._until.get((member.subscribed, topic)) for topic in topics)
        until = (place.most() for place in places if place is not None)
        return any(one is not None and one > life for one in until)

    @property
    def are_steady(self) -> bool:
        """Whether any of them commits steadily."""
        return bool(self._newest.now)

    def went_on(self, life: int, cadence: int) -> bool:
        """Whether a steady one committed later than `life` (ms) by more than its cadence and this one."""
        newest, beyond = self._newest.top(), self._beyond.top()
        if newest is None or beyond is None:
            return False
        last, latest = self._newest.now, self._beyond.now
        if last[newest] - cadence <= life or latest[beyond] <= life:
            return False
        if last[beyond] - cadence > life or latest[newest] > life:
            return True
        return any(latest[name] > life and at - cadence > life for name, at in last.items())

    def catch_up(self, roster: Roster) -> None:
        """Look again at the members that the roster has noted, and empty its note."""
        for name in self.lived:
            self._forget(name)
            member = roster.find(name)
            if member is not None:
                self._take(member)
        self.lived.clear()

    def _take(self, member: Member) -> None:
        name = member.member_id
        if member.gaps:
            until = member.last_commit - _LONGER * sorted(member.gaps)[len(member.gaps) // 2]
            topics = (_ANY_TOPIC, *(topic for topic, *_ in member.assigned))
            places = self._places[name] = [(member.subscribed, topic) for topic in topics]
            for place in places:
                self._until.setdefault(place, Greatest()).set(name, until)
        if member.offsets and is_steady(member, OFTEN):
            self._newest.set(name, member.last_commit)
            self._beyond.set(name, member.last_commit - member.cadence)

    def _forget(self, name: str) -> None:
        for place in self._places.pop(name, ()):
            self._until[place].drop(name)
        self._newest.drop(name)
        self._beyond.drop(name)


def siblings_of(roster: Roster) -> Siblings:
    """Return the members of an epoch-based group as siblings of one that is not among them any more."""
    found = roster.beside
    if isinstance(found, Siblings) and found.lived is roster.lived:
        found.catch_up(roster)
        return found
    found = roster.beside = Siblings(roster)
    roster.lived = found.lived
    return found
