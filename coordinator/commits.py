"""Commit runs as a trace of life: which member wrote them, how often, and whether it commits when idle.

An OffsetCommit record names no member, so a commit belongs to the member that the current assignment gives
the partition to. The fold takes one partition at a time and knows a commit by its timestamp, so a run that
was cut anywhere gives the same state as the whole run. Only whether an offset moved is used, never its
value: it may belong to an aborted transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state import GroupState, Member
    from rebalance_monitor.decoders.rows import CommitRun

IDLE_TRAIT = 2
"""Commits without any progress from which a member counts as one that commits when idle."""

_SMOOTHING = 4
_MAX_IDLE_FAMILIES = 8

Owners = dict[tuple[str, int], tuple["Member", int]]


def owners(state: GroupState) -> Owners:
    """(topic, partition) -> (member, index into its offsets) under the current assignment."""
    found: Owners = {}
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


def fold(state: GroupState, run: CommitRun, owned: Owners) -> list[Member]:
    """Take one run into `state`; returns the members it is the first commit of at this timestamp."""
    at = run.commit_ts
    state.last_commit = max(state.last_commit, at)
    new: list[Member] = []
    for (topic, partition), offset in zip(run.partitions(), run.offsets(), strict=True):
        found = owned.get((topic, partition))
        if found is not None and _take(state, found[0], found[1], offset, at):
            new.append(found[0])
    return new


def commits_when_idle(state: GroupState, member: Member) -> bool:
    """Whether silence of this member means something even without traffic."""
    return member.idle >= IDLE_TRAIT or member.family in state.idle_families


def _take(state: GroupState, member: Member, index: int, offset: int, at: int) -> bool:
    """Take one partition's commit; True where it begins a new commit of the member."""
    begins = at > member.last_commit
    if begins:
        _close(state, member)
        _begin(member, at)
    before = member.offsets[index]
    member.offsets[index] = offset
    if at == member.last_commit:
        member.fresh |= before < 0
        member.moved |= before != offset
    return begins


def _close(state: GroupState, member: Member) -> None:
    """Judge the commit before, now complete: unchanged offsets in it are the idle trait."""
    if member.commits and not member.moved and not member.fresh:
        member.idle += 1
        known = state.idle_families
        if member.idle == IDLE_TRAIT and member.family not in known and member.family != "unknown":
            known[_MAX_IDLE_FAMILIES - 1 :] = []
            known.append(member.family)


def _begin(member: Member, at: int) -> None:
    gap = at - member.last_commit
    if member.commits:
        member.cadence = gap if member.cadence < 0 else member.cadence + (gap - member.cadence) // _SMOOTHING
    else:
        member.first_commit = at
    member.last_commit = at
    member.commits += 1
    member.moved = member.fresh = False
