"""The sticky assignor's general case: members that subscribe to different topics.

1. Owned partitions stay.
2. A partition without an owner goes to the subscriber with the fewest partitions, topics with few subscribers
   first.
3. Single partitions move from a member to one with at least two fewer, until no such move is left. Of two
   opposite moves within a topic the second takes back the partition of the first.

A result that is no better balanced than before these moves is dropped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.assignors.model import by_id, consumers_of, java_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.assignors.model import Assignment, Counts, Partition, Subscriber


def assign(members: Sequence[Subscriber], counts: Counts) -> Assignment:
    """Hand out every partition of a subscribed topic."""
    consumers = {t: [m.member_id for m in found] for t, found in consumers_of(by_id(members), counts).items()}
    topics = sorted(consumers, key=lambda topic: (len(consumers[topic]), java_order(topic)))
    places = [(topic, number) for topic in topics for number in range(counts[topic])]
    board = _Board({member.member_id: [] for member in members}, consumers)
    revoked = _keep(board, members, set(places))
    fresh = not any(board.current.values())
    unassigned = [place for place in places if place not in board.owner]
    for place in unassigned:
        board.put(place, board.idlest(place))
    _balance(board, places, [] if revoked else unassigned, fresh=fresh)
    return board.current


@dataclass(slots=True)
class _Board:
    """The owners of partitions while they are balanced, and the moves so far."""

    current: Assignment
    consumers: dict[str, list[str]]
    owner: dict[Partition, str] = field(default_factory=dict)
    moved: dict[Partition, tuple[str, str]] = field(default_factory=dict)
    moves: dict[tuple[str, str, str], dict[Partition, None]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def load(self, member: str) -> int:
        return len(self.current[member])

    def idlest(self, place: Partition) -> str:
        return min(self.consumers[place[0]], key=lambda member: (self.load(member), java_order(member)))

    def put(self, place: Partition, member: str) -> None:
        self.current[member].append(place)
        self.owner[place] = member

    def move(self, place: Partition, to: str) -> None:
        """Move `place`, or the partition of its topic that an opposite move brought, to `to`."""
        actual = self._actual(place, to)
        source = self.owner[actual]
        first, _ = self.moved.pop(actual, (source, ""))
        self.moves[actual[0], first, source].pop(actual, None)
        if first != to:
            self.moved[actual] = first, to
            self.moves[actual[0], first, to][actual] = None
        self.current[source].remove(actual)
        self.put(actual, to)

    def _actual(self, place: Partition, to: str) -> Partition:
        source = self.moved.get(place, (self.owner[place], ""))[0]
        opposite = self.moves.get((place[0], to, source))
        return next(iter(opposite)) if opposite else place


def _keep(board: _Board, members: Sequence[Subscriber], existing: set[Partition]) -> bool:
    """Leave members what they own of their topics; True where something must be revoked."""
    claims = Counter(place for member in members for place in set(member.owned))
    revoked = False
    for member in members:
        for place in member.owned:
            if place not in existing or claims[place] > 1:
                continue
            if place[0] in member.topics:
                board.put(place, member.member_id)
            else:
                revoked = True
    return revoked


def _balance(board: _Board, places: list[Partition], unassigned: list[Partition], *, fresh: bool) -> None:
    before = {member: list(given) for member, given in board.current.items()}
    movable = {topic for topic, consumers in board.consumers.items() if len(consumers) > 1}
    _pass(board, [place for place in unassigned if place[0] in movable])
    changed = _pass(board, [place for place in places if place[0] in movable])
    if changed and not fresh and _score(board.current) >= _score(before):
        board.current = before


def _pass(board: _Board, places: list[Partition]) -> bool:
    """Move partitions until none has a member with at least two fewer to go to; True if one moved."""
    changed, again = False, True
    while again:
        again = False
        for place in places:
            to = board.idlest(place)
            if board.load(board.owner[place]) > board.load(to) + 1:
                board.move(place, to)
                changed = again = True
    return changed


def _score(assignment: Assignment) -> int:
    """Sum of the differences between all pairs of members' loads: 0 is perfectly even."""
    loads = sorted(map(len, assignment.values()))
    return sum((2 * index - len(loads) + 1) * load for index, load in enumerate(loads))
