"""What a topic shows of departures, measured the same way on recorded and simulated rows.

Of each removed member: the time from its last commit to its removal, and when its generation was stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.decoders import Decoded, GroupMetadataValue, decode_record, rows
from rebalance_monitor.decoders.embedded.consumer import Assignment, decode_assignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rebalance_monitor.decoders import GroupMember, Row


@dataclass(frozen=True, slots=True)
class Fact:
    """One member removed at `at` (ms): `cause` in the words of `truth.Removed`."""

    group: str
    member: str
    cause: str
    at: float


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


@dataclass(slots=True)
class _Seen:
    stored: int
    member: GroupMember
    last_commit: int = -1


@dataclass(slots=True)
class _Group:
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
        member = seen.member
        static = member.group_instance_id is not None
        timers = (member.session_timeout, member.rebalance_timeout)
        yield Departure(fact, seen.stored, seen.last_commit, *timers, static)


def _commit(group: _Group | None, row: Row) -> None:
    if group is None:
        return
    run = rows.commit_run(row)
    for place in run.partitions():
        seen = group.members.get(group.owner.get(place, ""))
        if seen is not None:
            seen.last_commit = row.commit_ts


def _record(groups: dict[str, _Group], row: Row) -> None:
    found = decode_record(*rows.record(row))
    if not isinstance(found, Decoded) or not isinstance(found.value, GroupMetadataValue):
        return
    group = groups[row.group] = _Group()
    for member in found.value.members:
        group.members[member.member_id] = _Seen(row.record_ts, member)
        given = decode_assignment(member.assignment)
        if found.value.protocol_type == "consumer" and isinstance(given, Assignment):
            for topic, numbers in given.partitions:
                group.owner.update(((topic, number), member.member_id) for number in numbers)
