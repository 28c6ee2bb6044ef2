"""Commit runs as a trace of life: which member wrote them, how often, and whether it commits when idle.

An OffsetCommit record names no member, so a commit belongs to the member that the current assignment gives
the partition to. The fold takes one partition at a time and knows a commit by its timestamp, so a run that
was cut anywhere gives the same state as the whole run. Only whether an offset moved is used, never its
value: it may belong to an aborted transaction.

A group commits the same partitions in the same order again and again, so who owns which place of a run is
worked out once per list of partitions (bytes) and assignment, and after that a member's share is a slice.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.decoders.rows import listed_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.state import GroupState, Member

IDLE_TRAIT = 2
"""Commits without any progress from which a member counts as one that commits when idle."""

_SMOOTHING = 4
_MAX_IDLE_FAMILIES = 8
_MAX_PLANS = 64
_NONE = slice(0)


class _Share(NamedTuple):
    """What one member has of a run: places in the run, and the same places among the member's offsets."""

    member: Member
    run: slice
    own: slice
    # Instead of the slices, where the places are in no regular order or one comes twice.
    each: tuple[tuple[int, int], ...] = ()


class Owners:
    """Who owns what under the current assignment of one group; good until the next record of the group."""

    __slots__ = ("_owned", "_plans")

    def __init__(self, state: GroupState) -> None:
        self._owned = _owned(state)
        self._plans: dict[bytes, tuple[Struct, list[_Share]]] = {}

    def shares(self, partitions: bytes) -> tuple[Struct, list[_Share]]:
        """Give the form of a run's offsets, and its partitions (T of the row contract) split by owner."""
        found = self._plans.get(partitions)
        if found is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            found = self._plans[partitions] = self._split(partitions)
        return found

    def _split(self, partitions: bytes) -> tuple[Struct, list[_Share]]:
        places: dict[int, tuple[Member, list[int], list[int]]] = {}
        listed = list(listed_partitions(partitions))
        for place, partition in enumerate(listed):
            found = self._owned.get(partition)
            if found is not None:
                member, index = found
                _, run, own = places.setdefault(id(member), (member, [], []))
                run.append(place)
                own.append(index)
        shares = [_share(member, run, own) for member, run, own in places.values()]
        return Struct(f">{len(listed)}q"), shares


def _owned(state: GroupState) -> dict[tuple[str, int], tuple[Member, int]]:
    """(topic, partition) -> (member, index into its offsets) under the current assignment."""
    found: dict[tuple[str, int], tuple[Member, int]] = {}
    topics = state.topics
    if state.names:
        topics = state.names if len(state.names) == len(topics) == 1 else []
    for member in state.members if topics else ():
        index = 0
        for topic, *partitions in member.assigned:
            name = topics[topic]
            for partition in partitions:
                found[name, partition] = (member, index)
                index += 1
    return found


def _share(member: Member, run: list[int], own: list[int]) -> _Share:
    slices = _slice(run), _slice(own)
    if None in slices:
        return _Share(member, _NONE, _NONE, tuple(zip(run, own, strict=True)))
    return _Share(member, slices[0] or _NONE, slices[1] or _NONE)


def _slice(places: list[int]) -> slice | None:
    """Return the slice that gives these places in this order, if there is one."""
    step = places[1] - places[0] if len(places) > 1 else 1
    if step > 0 and places == list(range(places[0], places[-1] + 1, step)):
        return slice(places[0], places[-1] + 1, step)
    return None


def fold(state: GroupState, at: int, partitions: bytes, offsets: bytes, owned: Owners) -> list[Member]:
    """Take one run of commits at `at` (ms); returns the members it is the first commit of at this time.

    `partitions` and `offsets` are T and O of the row contract.
    """
    state.last_commit = max(state.last_commit, at)
    form, shares = owned.shares(partitions)
    values = form.unpack(offsets)
    return [share.member for share in shares if _take(state, share, values, at)]


def commits_when_idle(state: GroupState, member: Member) -> bool:
    """Whether silence of this member means something even without traffic."""
    return member.idle >= IDLE_TRAIT or member.family in state.idle_families


def _take(state: GroupState, share: _Share, values: tuple[int, ...], at: int) -> bool:
    """Take a member's share of a run; True where it begins a new commit of the member."""
    member, run, own, each = share
    begins = at > member.last_commit
    if begins:
        _begin(state, member, at)
    if each:
        _take_each(member, each, values, at)
        return begins
    offsets = member.offsets
    before, after = offsets[own], list(values[run])
    offsets[own] = after
    if at == member.last_commit and before != after:
        member.moved = True
        member.fresh |= min(before) < 0
    return begins


def _take_each(member: Member, each: Iterable[tuple[int, int]], values: Sequence[int], at: int) -> None:
    """Take one partition after the other: the same one may come twice in a run."""
    for place, index in each:
        before = member.offsets[index]
        member.offsets[index] = values[place]
        if at == member.last_commit:
            member.fresh |= before < 0
            member.moved |= before != values[place]


def _begin(state: GroupState, member: Member, at: int) -> None:
    """Begin the member's commit at `at`, and judge the one before, which is complete now."""
    if member.commits:
        if not member.moved and not member.fresh:
            _idle(state, member)
        gap, cadence = at - member.last_commit, member.cadence
        member.cadence = gap if cadence < 0 else cadence + (gap - cadence) // _SMOOTHING
    else:
        member.first_commit = at
    member.last_commit = at
    member.commits += 1
    member.moved = member.fresh = False


def _idle(state: GroupState, member: Member) -> None:
    """Note a commit of unchanged offsets: twice is the idle trait, of the member and of its family."""
    member.idle += 1
    known = state.idle_families
    if member.idle == IDLE_TRAIT and member.family not in known and member.family != "unknown":
        known[_MAX_IDLE_FAMILIES - 1 :] = []
        known.append(member.family)
