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

import msgspec

from rebalance_monitor.coordinator import topic_names
from rebalance_monitor.coordinator.families import FAMILIES
from rebalance_monitor.decoders.rows import listed_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.state import GroupState, Member

IDLE_TRAIT = 2
"""Commits without any progress from which a member may count as one that commits when idle."""

STEADY_COMMITS = 10
"""Commits in its generation from which a member's traffic counts as steady."""

# In place of how many commits moved nothing: it was silent, though alive, for longer than its session.
_TOLD_NOTHING = -1

# One in so many commits moves nothing where a client commits when idle; so many of those tell by themselves.
_ONE_IN = 10
_SMOOTHING = 4
_MAX_IDLE_FAMILIES, _MAX_PLANS = 8, 64
_MAX_KNOWN, _KNOWN_WIDTH, _KNOWN_BYTES = 16_384, 64, 1_024
# A shorter silence of a whole group is within every deadline.
_SILENCE_MS = 5_000
_NONE = slice(0)


class _Places(NamedTuple):
    """What one member, by its place in the group, has of a run, and where that is among its offsets.

    `width` of these there are; the usual is that they are all that it has.
    """

    member: int
    run: slice
    own: slice
    width: int
    # Instead of the slices, where the places are in no regular order or one comes twice.
    each: tuple[tuple[int, int], ...] = ()


_Plan = tuple[Struct, tuple[_Places, ...]]
"""The form of a run's offsets, and who has which of them."""

_packed = msgspec.msgpack.Encoder().encode

# Pure memory of what `_plan` gave last. The groups of one application share topic and assignment, and every
# batch sees the same runs again.
_known: dict[tuple[bytes, bytes], _Plan] = {}


class Owners:
    """Who owns what under the current assignment of one group; good until the next record of the group."""

    __slots__ = ("_layout", "_owned", "_plans", "_state")

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._plans: dict[bytes, _Plan] = {}
        self._owned: dict[tuple[str, int], tuple[int, int]] = {}
        width = sum(len(member.offsets) for member in state.members)
        self._layout = _layout(state) if width <= _KNOWN_WIDTH else b""

    def plan(self, partitions: bytes) -> _Plan:
        """Say who has which place of a run with this list of partitions (T of the row contract)."""
        found = self._plans.get(partitions)
        if found is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            found = self._plans[partitions] = self._remembered(partitions)
        return found

    def _remembered(self, partitions: bytes) -> _Plan:
        if not self._layout or len(partitions) > _KNOWN_BYTES:
            return self._made(partitions)
        key = partitions, self._layout
        found = _known.get(key)
        if found is None:
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            found = _known[key] = self._made(partitions)
        return found

    def _made(self, partitions: bytes) -> _Plan:
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


def _plan(partitions: bytes, owned: dict[tuple[str, int], tuple[int, int]]) -> _Plan:
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


def _places(member: int, run: list[int], own: list[int]) -> _Places:
    slices = _slice(run), _slice(own)
    if None in slices:
        return _Places(member, _NONE, _NONE, len(own), tuple(zip(run, own, strict=True)))
    return _Places(member, slices[0] or _NONE, slices[1] or _NONE, len(own))


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
    gap = at - state.last_commit
    if gap > _SILENCE_MS and gap > state.members[0].session_timeout and state.last_commit >= 0:
        _resumed(state, at)
    state.last_commit = max(state.last_commit, at)
    form, shares = owned.plan(partitions)
    values, members, begun = list(form.unpack(offsets)), state.members, []
    for share in shares:
        member = members[share.member]
        if at > member.last_commit:
            _begin(state, member, at)
            begun.append(member)
        _take(member, share, values, at)
    return begun


def _resumed(state: GroupState, at: int) -> None:
    """Note that the whole group had been silent for longer than any deadline of a member: all begin anew."""
    longest = max((member.session_timeout + max(member.cadence, 0) for member in state.members), default=0)
    if at - state.last_commit > longest:
        state.resumed_at, state.wake = at, 0


def commits_when_idle(state: GroupState, member: Member) -> bool:
    """Whether silence of this member means something even without traffic.

    A client that commits only what is new repeats itself where an answer is late: that is no trait.
    """
    if FAMILIES[member.family].commits_idle is False and 2 * member.idle < member.commits:
        return False
    return _repeats(member) or (member.family in state.idle_families and member.idle != _TOLD_NOTHING)


def keep_idle_families(state: GroupState) -> None:
    """Forget families that no member of a new generation proves: others may be configured otherwise."""
    proven = {member.family for member in state.members if _repeats(member)}
    state.idle_families = [family for family in state.idle_families if family in proven]


def _repeats(member: Member) -> bool:
    """Whether so many of its own commits moved nothing that it is no accident."""
    if FAMILIES[member.family].commits_idle is False:
        often = 2 * member.idle >= member.commits
    else:
        often = _ONE_IN * member.idle >= min(member.commits, _ONE_IN * _ONE_IN)
    return often and member.idle >= IDLE_TRAIT


def is_steady(member: Member, commits: int) -> bool:
    """Whether it has committed so often in its generation, and usually twice in a session timeout."""
    return member.commits >= commits and 0 < member.cadence <= member.session_timeout // 2


def goes_on(member: Member, now: int) -> bool:
    """Whether it has committed as usual until `now` (ms)."""
    return member.commits > 0 and member.last_commit + 2 * max(member.cadence, 1_000) + 1_000 >= now


def _take(member: Member, share: _Places, values: list[int], at: int) -> None:
    """Take a member's share of the offsets of a run."""
    _, run, own, width, each = share
    if each:
        _take_each(member, each, values, at)
        return
    offsets, after = member.offsets, values[run]
    before = offsets if width == len(offsets) else offsets[own]
    if before == after:
        return
    if before is offsets:
        member.offsets = after
    else:
        offsets[own] = after
    if at == member.last_commit:
        member.moved = True
        member.fresh |= min(before) < 0


def _take_each(member: Member, each: Iterable[tuple[int, int]], values: Sequence[int], at: int) -> None:
    """Take one partition after the other: the same one may come twice in a run."""
    for place, index in each:
        before = member.offsets[index]
        member.offsets[index] = values[place]
        if at == member.last_commit:
            member.fresh |= before < 0
            member.moved |= before != values[place]


def _begin(state: GroupState, member: Member, at: int) -> None:
    """Begin the member's commit at `at`, and judge the one before, which is complete now.

    A commit moves deadlines away, so the group need not be looked at for it, unless the member may be watched
    from now on or commits so much faster than before that its deadline comes nearer.
    """
    if member.commits:
        # Whoever commits by hand does so once more as a generation ends.
        if not member.moved and not member.fresh and member.last_commit > state.cst:
            _idle(state, member)
        gap, cadence = at - member.last_commit, member.cadence
        change = (gap - cadence) // _SMOOTHING
        member.gap = gap
        if gap >= member.rebalance_timeout > 0:
            member.stalled_at = at
        if gap > member.session_timeout and _told_nothing(state, member):
            member.idle = _TOLD_NOTHING
        half = member.session_timeout // 2
        if gap > half or cadence > half or member.fresh or member.commits + 1 == STEADY_COMMITS:
            # Its traffic may have become steady, or be so again after a lull.
            state.wake = 0
        if cadence < 0:
            member.cadence = gap
        else:
            member.cadence = cadence + change
            if gap + change < 0:
                state.wake = 0
    else:
        member.first_commit = at
        state.wake = 0
    member.last_commit = at
    member.commits += 1
    member.moved = member.fresh = False


def _told_nothing(state: GroupState, member: Member) -> bool:
    """Whether it lived, busy before, through a silence that was no barrier, nor one of the whole group."""
    busy = member.idle == 0 and member.commits >= STEADY_COMMITS
    return busy and member.last_commit > max(state.cst, state.resumed_at - 1)


def _idle(state: GroupState, member: Member) -> None:
    """Note a commit of unchanged offsets: enough are the idle trait, of the member and of its family."""
    had = _repeats(member)
    member.idle += 1
    if had or not _repeats(member):
        return
    state.wake = 0
    known = state.idle_families
    if member.family not in known and member.family != "unknown":
        known[_MAX_IDLE_FAMILIES - 1 :] = []
        known.append(member.family)
