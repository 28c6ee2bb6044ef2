"""Measures of departures that the topic shows, taken alike from recorded and from simulated rows.

Of each removed member: the time from its last commit to its removal, and when its generation was stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.decoders import Decoded, GroupMetadataValue, decode_record, rows
from rebalance_monitor.decoders.embedded.consumer import Assignment, decode_assignment
from rebalance_monitor.decoders.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rebalance_monitor.decoders import Row


@dataclass(frozen=True, slots=True)
class Fact:
    """One member removed at `at` (ms): `cause` in the words of `truth.Removed`.

    `stalled`: it had processed for longer than its poll interval. A static one expires then.
    """

    group: str
    member: str
    cause: str
    at: float
    stalled: bool = False


@dataclass(frozen=True, slots=True)
class Departure:
    """What the topic shows of a removed member.

    Its last commit in its generation (-1: none), when that generation was stored, and its timers; ms.
    """

    fact: Fact
    stored: int
    last_commit: int
    session: int
    rebalance: int
    static: bool


SERVER_SIDE = -1
"""The session timeout of a KIP-848 member: no record has it."""


@dataclass(slots=True)
class _Seen:
    stored: int
    session: int
    rebalance: int
    static: bool
    last_commit: int = -1


@dataclass(slots=True)
class _Group:
    """Members and owners; KIP-848 records have topic ids: there a partition's number alone is the place."""

    owner: dict[tuple[str, int], str] = field(default_factory=dict)
    members: dict[str, _Seen] = field(default_factory=dict)


def departures(stream: Iterable[Row], facts: Iterable[Fact]) -> Iterator[Departure]:
    """Yield the departures that the rows of one shard show; `facts` in any order."""
    due = sorted(facts, key=lambda fact: fact.at, reverse=True)
    groups: dict[str, _Group] = {}
    for row in stream:
        while due and due[-1].at < row.record_ts:
            fact = due.pop()
            yield from _departed(groups.get(fact.group), fact)
        if row.row_kind == rows.COMMIT_RUN:
            _commit(groups.get(row.group), row)
        elif row.row_kind == rows.RECORD:
            _record(groups, row)
    for fact in reversed(due):
        yield from _departed(groups.get(fact.group), fact)


def _departed(group: _Group | None, fact: Fact) -> Iterator[Departure]:
    seen = group.members.get(fact.member) if group else None
    if seen is not None:
        yield Departure(fact, seen.stored, seen.last_commit, seen.session, seen.rebalance, seen.static)


def _commit(group: _Group | None, row: Row) -> None:
    if group is None:
        return
    run = rows.commit_run(row)
    for topic, number in run.partitions():
        owner = group.owner.get((topic, number)) or group.owner.get(("", number), "")
        seen = group.members.get(owner)
        if seen is not None:
            seen.last_commit = row.commit_ts


def _record(groups: dict[str, _Group], row: Row) -> None:
    found = decode_record(*rows.record(row))
    if not isinstance(found, Decoded):
        return
    match found.value:
        case GroupMetadataValue():
            groups[row.group] = _generation(found.value, row.record_ts)
        case ConsumerGroupMemberMetadataValue():
            group, member = groups.setdefault(row.group, _Group()), found.value
            timers = (SERVER_SIDE, member.rebalance_timeout_ms)
            group.members[_member(found)] = _Seen(row.record_ts, *timers, member.instance_id is not None)
        case ConsumerGroupCurrentMemberAssignmentValue():
            _owns(groups.setdefault(row.group, _Group()), found.value, _member(found))
        case _:
            pass


def _member(found: Decoded) -> str:
    return str(getattr(found.key, "member_id", ""))


def _owns(group: _Group, value: ConsumerGroupCurrentMemberAssignmentValue, member: str) -> None:
    group.owner = {place: owner for place, owner in group.owner.items() if owner != member}
    for parts in value.assigned_partitions:
        group.owner.update((("", number), member) for number in parts.partitions)


def _generation(value: GroupMetadataValue, stored: int) -> _Group:
    group = _Group()
    for member in value.members:
        timers = (member.session_timeout, member.rebalance_timeout)
        group.members[member.member_id] = _Seen(stored, *timers, member.group_instance_id is not None)
        given = decode_assignment(member.assignment)
        if value.protocol_type == "consumer" and isinstance(given, Assignment):
            for topic, numbers in given.partitions:
                group.owner.update(((topic, number), member.member_id) for number in numbers)
    return group
