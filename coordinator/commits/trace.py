"""Commit runs as a trace of life: which member wrote them, how often, and whether it commits when idle.

An OffsetCommit record names no member, so a commit belongs to the member that the current assignment gives
the partition to. The fold takes one partition at a time and knows a commit by its timestamp, so a run that
was cut anywhere gives the same state as the whole run. Only whether an offset moved is used, never its
value: it may belong to an aborted transaction.
"""

from __future__ import annotations

from bisect import insort
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rebalance_monitor.coordinator.commits.client_families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from struct import Struct

    from rebalance_monitor.coordinator.commits.owners import Owners, Places
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

IDLE_TRAIT = 2
"""Commits without any progress from which a member may count as one that commits when idle."""

STEADY_COMMITS = 10
"""Commits in its generation from which a member's traffic counts as steady."""

FEWEST_TOGETHER = 6
"""Of fewer runs it is cheaper to take one after the other."""

KEPT_GAPS = 8
"""So many of the last intervals between its commits are kept of a member."""

# Intervals count by powers of two, from 128 ms (of 8 bits) to some 9 minutes: a sum and a count of each.
_FIRST_PLACE, _LAST_PLACE = 2 * 8, 2 * (20 - 8)
_MOST_OF_ORDER = 1_023

# Requests for partitions of several topics may come so far apart (ms), and are one commit of the client.
_ONE_COMMIT_MS = 150
# In place of how many commits moved nothing: it was silent, though alive, for longer than its session.
_TOLD_NOTHING = -1

# A client that commits when idle repeats offsets in at least one of so many commits, or so many times in all.
_ONE_IN = 10
_SMOOTHING = 4
# So many runs of several are taken one by one at most before the others are taken at once.
_TRIES = 3
# Of so many the intervals mostly have room in the counts of their order; of more seldom.
_MOST_TOGETHER = 128
# A shorter silence of a whole group is within every deadline.
_SILENCE_MS = 5_000


Run = tuple[int, bytes, bytes, int]
"""One run of commits: when (ms), T and O of the row contract, and when its first record was written (ms)."""


def together(state: GroupState, runs: Iterable[Run]) -> Iterator[list[Run]]:
    """Yield the runs as `fold` takes them: of the same partitions, with no silence of the group between.

    Nor is any but the first written before the group resumed, as where a broker's clock is set back. Nor are
    they many.
    """
    part: list[Run] = []
    listed, newest = b"", state.last_commit
    for run in runs:
        at, partitions, _, written = run
        gap = at - newest
        if part and (
            partitions != listed
            or len(part) >= _MOST_TOGETHER
            or (gap > _SILENCE_MS and _is_silence(state, gap))
            or written < max(state.resumed_at, part[0][0])
        ):
            yield part
            part = []
        part.append(run)
        listed = partitions
        if gap > 0:
            newest = at
    if part:
        yield part


def fold(state: GroupState, runs: Sequence[Run], owned: Owners) -> list[Member]:
    """Take runs that `together` gave; returns the members that have begun a commit with one of them."""
    at, partitions, offsets, written = runs[0]
    gap = at - state.last_commit
    if state.last_commit >= 0 and _is_silence(state, gap):
        _resumed(state, at)
    if gap > 0:
        state.last_commit = at
    form, shares = owned.plan(partitions)
    values, members, begun = list(form.unpack(offsets)), owned.members, []
    several = _Several(form, values, runs) if len(runs) > 1 else None
    for share in shares:
        member = members[share.member]
        since = member.last_commit
        if several is not None:
            several.take(state, member, share)
        else:
            if at > since:
                _begin(state, member, at)
            _take(member, share, values, at)
        if member.last_commit > since:
            begun.append(member)
    if several is not None:
        state.last_commit = max(state.last_commit, *several.times)
    state.resumed_at = min(state.resumed_at, written)
    return begun


class _Beat:
    """Intervals (ms) between the commit of a member at `since` and those of runs at `times`."""

    def __init__(self, since: int, times: Sequence[int]) -> None:
        self.gaps = gaps = [after - before for before, after in pairwise((since, *times))]
        self.least, self.most = min(gaps), max(gaps)
        self.is_regular = self.least >= _ONE_COMMIT_MS and self.most <= _SMOOTHING * self.least

    @cached_property
    def orders(self) -> list[tuple[int, int, int]]:
        """Place among the orders, sum and number of the intervals of each order."""
        by_place: dict[int, list[int]] = {}
        for gap in self.gaps:
            by_place.setdefault(_place(gap), []).append(gap)
        return [(place, sum(gaps), len(gaps)) for place, gaps in by_place.items()]


class _Several:
    """Runs that are taken together.

    A member that commits as it usually does takes them in one step, with the result of taking one by one.
    """

    def __init__(self, form: Struct, first: list[int], runs: Sequence[Run]) -> None:
        self._form, self._runs, self._first = form, runs, first
        self._last = list(form.unpack(runs[-1][2]))
        self.times = [at for at, *_ in runs]
        self._beats: dict[tuple[int, int], _Beat] = {}

    @cached_property
    def _values(self) -> list[list[int]]:
        return [list(self._form.unpack(offsets)) for _, _, offsets, _ in self._runs]

    @cached_property
    def _all_moved(self) -> bool:
        """Whether each run moved every offset on."""
        values = np.frombuffer(b"".join([offsets for _, _, offsets, _ in self._runs]), ">i8")
        values = values.reshape(len(self.times), -1)
        return bool(values[0].min() >= 0 and (values[1:] > values[:-1]).all())

    def take(self, state: GroupState, member: Member, share: Places) -> None:
        """Take a member's share of them."""
        _, run, _, width, each = share
        tries = 0 if each or width < len(member.offsets) else _TRIES
        for number, at in enumerate(self.times):
            if number < tries and self._is_usual(state, member, number, run):
                self._at_once(state, member, number, run)
                return
            if at > member.last_commit:
                _begin(state, member, at)
            _take(member, share, self._values[number] if number else self._first, at)

    def _beat(self, since: int, number: int) -> _Beat:
        found = self._beats.get((since, number))
        if found is None:
            found = self._beats[since, number] = _Beat(since, self.times[number:])
        return found

    def _is_usual(self, state: GroupState, member: Member, number: int, run: slice) -> bool:
        """Whether commits from a run on change counts alone: no deadline begins to count or comes nearer."""
        since, cadence, offsets = member.last_commit, member.cadence, member.offsets
        if not (since > state.cst and cadence >= 0 and (member.moved or member.fresh) and self._all_moved):
            return False
        if number == 0 and (min(offsets) < 0 or offsets == self._first[run]):
            return False
        beat = self._beat(since, number)
        return (
            beat.is_regular
            and cadence <= _SMOOTHING * beat.least
            and max(cadence, beat.most) <= member.session_timeout // 2
            and all(_has_room(member.orders, place, count) for place, _, count in beat.orders)
        )

    def _at_once(self, state: GroupState, member: Member, number: int, run: slice) -> None:
        beat = self._beat(member.last_commit, number)
        cadence, commits, gaps = member.cadence, member.commits, beat.gaps
        for gap in gaps:
            cadence += (gap - cadence) // _SMOOTHING
        member.cadence, member.gap, member.last_commit = cadence, gaps[-1], self.times[-1]
        member.gaps = (member.gaps + gaps)[-KEPT_GAPS:]
        for place, total, count in beat.orders:
            _count(member.orders, place, total, count)
        member.commits = commits + len(gaps)
        if member.fresh or commits < STEADY_COMMITS <= member.commits:
            state.wake = 0
        member.moved, member.fresh = True, False
        member.offsets = self._last[run]


def _is_silence(state: GroupState, gap: int) -> bool:
    """Whether a time (ms) without a commit of the group may have been longer than deadlines of members."""
    return gap > _SILENCE_MS and gap > state.members[0].session_timeout


def _resumed(state: GroupState, at: int) -> None:
    """Note that the whole group had been silent for longer than any deadline of a member: all begin anew."""
    longest = max((member.session_timeout + max(member.cadence, 0) for member in state.members), default=0)
    if at - state.last_commit > longest:
        state.resumed_at, state.wake = at, 0


def commits_when_idle(state: GroupState, member: Member) -> bool:
    """Whether silence of this member means something even without traffic.

    A client that commits only new offsets repeats them if an answer is late: that is no trait.
    """
    if FAMILIES[member.family].commits_idle is False and 2 * member.idle < member.commits:
        return False
    return _repeats(member) or (member.family in state.learned.idle_families and member.idle != _TOLD_NOTHING)


def keep_idle_families(state: GroupState) -> None:
    """Forget families that no member of a new generation proves: others may be configured otherwise."""
    proven = {member.family for member in state.members if _repeats(member)}
    state.learned.idle_families = [family for family in state.learned.idle_families if family in proven]


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


def _take(member: Member, share: Places, values: list[int], at: int) -> None:
    """Take a member's share of the offsets of a run."""
    _, run, own, width, each = share
    before = member.offsets
    if each:
        _take_each(member, each, values, at)
    elif width == len(before):
        # The usual: all that the member has.
        if before != (after := values[run]):
            member.offsets = after
            _moved(member, before, at)
    elif (before := before[own]) != (after := values[run]):
        member.offsets[own] = after
        _moved(member, before, at)


def _moved(member: Member, before: Iterable[int], at: int) -> None:
    """Note that offsets of a member moved, from what they were `before`."""
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

    A commit moves deadlines into the future, so the group need not be woken for it. It is woken if deadlines
    of the member begin to count, or if it commits so much faster that its deadline comes nearer.
    """
    commits = member.commits
    if commits:
        last, session = member.last_commit, member.session_timeout
        in_generation = last > state.cst
        # An application that commits by hand commits once more as a generation ends.
        if in_generation and not member.moved and not member.fresh:
            _idle(state, member)
        gap, cadence = at - last, member.cadence
        change = (gap - cadence) // _SMOOTHING
        member.gap = gap
        if in_generation and gap >= _ONE_COMMIT_MS:
            gaps = member.gaps
            if len(gaps) >= KEPT_GAPS:
                # Before it is added to: a list that has once been longer keeps twice the room.
                del gaps[0]
            gaps.append(gap)
            _count(member.orders, _place(gap), gap, 1)
        if gap > session and _survived_silence(state, member):
            member.idle = _TOLD_NOTHING
        half = session // 2
        if gap > half or cadence > half or member.fresh or commits + 1 == STEADY_COMMITS:
            # Its traffic may have become steady, or be so again after a lull.
            state.wake = 0
        if cadence < 0:
            member.cadence = gap
        else:
            member.cadence = cadence + change
            if gap + change < 0:
                state.wake = 0
    else:
        state.wake = 0
    member.last_commit = at
    member.commits = commits + 1
    member.moved = member.fresh = False


def _place(gap: int) -> int:
    """Return the place of an interval's order among the sums and counts."""
    return min(2 * gap.bit_length() - _FIRST_PLACE, _LAST_PLACE)


def _count(orders: list[int], place: int, total: int, count: int) -> None:
    """Count intervals of one order (ms in all) among all that the member has made, which `gaps` forgets."""
    if place >= len(orders):
        orders += [0] * (place + 2 - len(orders))
    orders[place] += total
    orders[place + 1] = counted = orders[place + 1] + count
    if counted > _MOST_OF_ORDER:
        _halve(orders)


def _has_room(orders: list[int], place: int, count: int) -> bool:
    """Whether so many intervals more of one order make no order count half."""
    return sum(orders[place + 1 : place + 2]) + count <= _MOST_OF_ORDER


def _halve(orders: list[int]) -> None:
    """Let all count half: what a member does now weighs more than what it did, but no order is forgotten."""
    for place in range(0, len(orders), 2):
        total, count = orders[place : place + 2]
        half = (count + 1) // 2
        orders[place : place + 2] = total * half // max(count, 1), half


def _survived_silence(state: GroupState, member: Member) -> bool:
    """Whether a busy member survived a silence that was neither a join phase nor one of the whole group."""
    busy = member.idle == 0 and member.commits >= STEADY_COMMITS
    return busy and member.last_commit > max(state.cst, state.resumed_at - 1)


def _idle(state: GroupState, member: Member) -> None:
    """Note a commit of unchanged offsets: enough are the idle trait, of the member and of its family."""
    had = _repeats(member)
    member.idle += 1
    if had or not _repeats(member):
        return
    state.wake = 0
    known = state.learned.idle_families
    if member.family not in known and member.family != "unknown":
        insort(known, member.family)
