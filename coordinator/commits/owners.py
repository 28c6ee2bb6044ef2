"""Which member owns which place of a commit run, by the current assignment.

A group commits the same partitions in the same order again and again. So the owners of a run's places are
computed once per list of partitions (bytes) and assignment; after that a member's share is a slice.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rebalance_monitor.coordinator.commits import topic_names
from rebalance_monitor.decoders.rows import listed_partitions

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState

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

_packed = msgspec.msgpack.Encoder().encode

# Pure memory of what `_plan` gave last. The groups of one application share topic and assignment, and every
# batch sees the same runs again.
_known: dict[tuple[bytes, bytes], Plan] = {}


class Owners:
    """The owner of each partition under the current assignment of a group; valid until its next record."""

    __slots__ = ("_layout", "_owned", "_plans", "_state")

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._plans: dict[bytes, Plan] = {}
        self._owned: dict[tuple[str, int], tuple[int, int]] = {}
        width = sum(len(member.offsets) for member in state.members)
        self._layout = _layout(state) if width <= _KNOWN_WIDTH else b""

    def plan(self, partitions: bytes) -> Plan:
        """Return the owner of each place of a run with this list of partitions (T of the row contract)."""
        found = self._plans.get(partitions)
        if found is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            found = self._plans[partitions] = self._remembered(partitions)
        return found

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
        self._owned = self._owned or _owned(self._state)
        return _plan(partitions, self._owned)


def _layout(state: GroupState) -> bytes:
    """Topics of a group, and the assignment of each member; none for names that are no text."""
    try:
        return _packed((topic_names.named(state), [member.assigned for member in state.members]))
    except UnicodeEncodeError:
        return b""


def _owned(state: GroupState) -> dict[tuple[str, int], tuple[int, int]]:
    """(topic, partition) -> (place of the member, index into its offsets) under the current assignment."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    topics = topic_names.named(state)
    for place, member in enumerate(state.members if topics else ()):
        index = 0
        for topic, *partitions in member.assigned:
            name = topics[topic]
            for partition in partitions:
                found[name, partition] = (place, index)
                index += 1
    return found


def _plan(partitions: bytes, owned: dict[tuple[str, int], tuple[int, int]]) -> Plan:
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
