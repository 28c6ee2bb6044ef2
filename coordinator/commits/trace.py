"""Commit runs as a trace of life: which member wrote them, how often, and whether it commits when idle.

An OffsetCommit record names no member, so a commit belongs to the member that the current assignment gives
the partition to. The fold takes one partition at a time and knows a commit by its timestamp, so a run that
was cut anywhere gives the same state as the whole run. Only whether an offset moved is used, never its
value: it may belong to an aborted transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.commits.owners import Owners, Places
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

IDLE_TRAIT = 2
"""Commits without any progress from which a member may count as one that commits when idle."""

STEADY_COMMITS = 10
"""Commits in its generation from which a member's traffic counts as steady."""

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
_MAX_IDLE_FAMILIES = 8
# A shorter silence of a whole group is within every deadline.
_SILENCE_MS = 5_000


def fold(state: GroupState, at: int, partitions: bytes, offsets: bytes, owned: Owners) -> list[Member]:
    """Take one run of commits at `at` (ms); returns the members it is the first commit of at this time.

    `partitions` and `offsets` are T and O of the row contract.
    """
    gap = at - state.last_commit
    if gap > _SILENCE_MS and gap > state.members[0].session_timeout and state.last_commit >= 0:
        _resumed(state, at)
    if gap > 0:
        state.last_commit = at
    form, shares = owned.plan(partitions)
    values, members, begun = list(form.unpack(offsets)), owned.members, []
    for share in shares:
        place, run, _, width, each = share
        member = members[place]
        if at > member.last_commit:
            _begin(state, member, at)
            begun.append(member)
        before = member.offsets
        if each or width < len(before):
            _take(member, share, values, at)
        elif before != (after := values[run]):
            # The usual, without a call: all that the member has.
            member.offsets = after
            if at == member.last_commit:
                member.moved = True
                if min(before) < 0:
                    member.fresh = True
    return begun


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
    _, run, own, _, each = share
    if each:
        _take_each(member, each, values, at)
        return
    before, after = member.offsets[own], values[run]
    if before != after:
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
            _count(member.orders, gap)
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


def _count(orders: list[int], gap: int) -> None:
    """Count an interval (ms) among all that the member has made, which `gaps` forgets."""
    place = 2 * gap.bit_length() - _FIRST_PLACE
    if place >= len(orders):
        place = min(place, _LAST_PLACE)
        orders += [0] * (place + 2 - len(orders))
    orders[place] += gap
    orders[place + 1] = count = orders[place + 1] + 1
    if count > _MOST_OF_ORDER:
        _halve(orders)


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
        known[_MAX_IDLE_FAMILIES - 1 :] = []
        known.append(member.family)
