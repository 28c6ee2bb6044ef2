"""Which member owns which place of a commit run, by the current assignment.

A group commits the same partitions in the same order again and again. So the owners of a run's places are
computed once per list of partitions (bytes) and assignment; after that a member's share is a slice.

A record of a classic group is a new assignment of all members. A record of an epoch-based group changes one
member, between the commits of the others: then only this member's partitions are looked at again.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rebalance_monitor.coordinator.commits import topic_names
from rebalance_monitor.coordinator.state.roster import Roster
from rebalance_monitor.decoders.rows import listed_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_MAX_PLANS = 64
_MAX_KNOWN, _KNOWN_WIDTH, _KNOWN_BYTES = 16_384, 64, 1_024
_NONE = slice(0)


class Places(NamedTuple):
    """What one member, by its place in the group, has of a run, and where that is among its offsets.

    `width` of these there are; the usual is that they are all that it has.
    """

    member: int
    run: slice
    own: slice
    width: int
    # Instead of the slices, where the places are in no regular order or one comes twice.
    each: tuple[tuple[int, int], ...] = ()


Plan = tuple[Struct, tuple[Places, ...]]
"""The form of a run's offsets, and the places of each member."""

Partition = tuple[str, int]
Owned = dict[Partition, tuple[int, int]]
"""(topic, partition) -> place of the member among `Owners.members`, index into its offsets."""

_packed = msgspec.msgpack.Encoder().encode

# Pure memory of what `_plan` gave last. The groups of one application share topic and assignment, and every
# batch sees the same runs again.
_known: dict[tuple[bytes, bytes], Plan] = {}


class Owners:
    """The owner of each partition under the current assignment of a group; valid until its next record.

    `members`: in the order of the places that plans name. `is_stale`: there has been a record since.
    """

    __slots__ = ("_follows", "_layout", "_owned", "_plans", "_state", "is_stale", "members")

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._plans: dict[bytes, Plan] = {}
        self._owned: Owned | None = None
        self._follows: _Following | None = None
        self.members, self.is_stale = state.members, False
        width = max(len(self.members), sum(len(member.offsets) for member in self.members))
        self._layout = _layout(state) if width <= _KNOWN_WIDTH else b""
        if width > _KNOWN_WIDTH and isinstance(self.members, Roster):
            self._follow(state, self.members)

    def catch_up(self, state: GroupState) -> bool:
        """Take what records of an epoch-based group have changed; False where that takes new owners."""
        if self._follows is None or state is not self._state or not self._follows.catch_up(state):
            return False
        self._plans.clear()
        self.is_stale = False
        return True

    def _follow(self, state: GroupState, roster: Roster) -> None:
        follows = _Following(state, roster)
        self.members, self._owned = follows.members, follows.owned
        if follows.is_clear:
            self._follows = follows

    def plan(self, partitions: bytes) -> Plan:
        """Return the owner of each place of a run with this list of partitions (T of the row contract)."""
        found = self._plans.get(partitions)
        if found is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            found = self._plans[partitions] = self._remembered(partitions)
        return found

    def silent(self, partitions: bytes) -> list[Member]:
        """Return the owners of a run that were said to be silent."""
        _, shares = self.plan(partitions)
        return [member for share in shares if (member := self.members[share.member]).silent_id]

    def _remembered(self, partitions: bytes) -> Plan:
        if not self._layout or len(partitions) > _KNOWN_BYTES:
            return self._made(partitions)
        key = partitions, self._layout
        found = _known.get(key)
        if found is None:
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            found = _known[key] = self._made(partitions)
        return found

    def _made(self, partitions: bytes) -> Plan:
        if self._owned is None:
            self._owned = _owned(self._state)
        return _plan(partitions, self._owned)


class _Following:
    """The owners of a large group's partitions, kept up to date by the members that its roster has noted.

    `is_clear`: no partition has two owners, so that none is uncovered where one of them gives it up.
    """

    __slots__ = ("_free", "_moved", "_named", "_places", "_roster", "_shares", "is_clear", "members", "owned")

    def __init__(self, state: GroupState, roster: Roster) -> None:
        self._roster, self._named = roster, _named(state)
        self._moved = roster.moved = {}
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        self._shares: dict[str, list[Partition]] = {}
        self.members: list[Member] = []
        self.owned: Owned = {}
        self.is_clear = True
        for member in roster:
            self._put(state, member)

    def catch_up(self, state: GroupState) -> bool:
        """Look again at the members that have changed; False where that does not do."""
        if state.members is not self._roster or self._roster.moved is not self._moved:
            return False
        named = _named(state)
        if any(named.get(topic, name) != name for topic, name in self._named.items()):
            return False
        self._named = named
        there = [(name, self._roster.find(name)) for name in self._moved]
        for name, _ in there:
            for partition in self._shares.pop(name, ()):
                del self.owned[partition]
        for name, member in there:
            if member is not None:
                self._put(state, member)
            elif name in self._places:
                self._free.append(self._places.pop(name))
        self._moved.clear()
        return self.is_clear

    def _put(self, state: GroupState, member: Member) -> None:
        place = self._places.get(member.member_id, -1)
        if place < 0:
            place = self._places[member.member_id] = self._free.pop() if self._free else len(self.members)
        self.members[place : place + 1] = [member]
        shares = self._shares[member.member_id] = []
        for index, partition in enumerate(_listed(member, state.topics, self._named)):
            if partition[0]:
                self.is_clear &= partition not in self.owned
                self.owned[partition] = place, index
                shares.append(partition)


def _layout(state: GroupState) -> bytes:
    """Topics of a group, and the assignment of each member; none for names that are no text."""
    try:
        return _packed((topic_names.named(state), [member.assigned for member in state.members]))
    except UnicodeEncodeError:
        return b""


def _owned(state: GroupState) -> Owned:
    """(topic, partition) -> (place of the member, index into its offsets) under the current assignment."""
    named = _named(state)
    return {
        partition: (place, index)
        for place, member in enumerate(state.members)
        for index, partition in enumerate(_listed(member, state.topics, named))
    }


def _named(state: GroupState) -> dict[str, str]:
    """Topic of the group -> its name, "" where that is not known."""
    return dict(zip(state.topics, topic_names.named(state), strict=False))


def _listed(member: Member, topics: Sequence[str], named: Mapping[str, str]) -> Iterator[Partition]:
    """Yield the partitions of a member, in the order of its offsets."""
    for topic, *partitions in member.assigned:
        name = named.get(topics[topic], "")
        for partition in partitions:
            yield name, partition


def _plan(partitions: bytes, owned: Owned) -> Plan:
    listed = list(listed_partitions(partitions))
    places: dict[int, tuple[list[int], list[int]]] = {}
    for place, partition in enumerate(listed):
        found = owned.get(partition)
        if found is not None:
            run, own = places.setdefault(found[0], ([], []))
            run.append(place)
            own.append(found[1])
    shares = tuple(_places(member, run, own) for member, (run, own) in places.items())
    return Struct(f">{len(listed)}q"), shares


def _places(member: int, run: list[int], own: list[int]) -> Places:
    slices = _slice(run), _slice(own)
    if None in slices:
        return Places(member, _NONE, _NONE, len(own), tuple(zip(run, own, strict=True)))
    return Places(member, slices[0] or _NONE, slices[1] or _NONE, len(own))


def _slice(places: list[int]) -> slice | None:
    """Return the slice that gives these places in this order, if there is one."""
    step = places[1] - places[0] if len(places) > 1 else 1
    if step > 0 and places == list(range(places[0], places[-1] + 1, step)):
        return slice(places[0], places[-1] + 1, step)
    return None
