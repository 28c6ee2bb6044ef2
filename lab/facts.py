"""Facts to be detected, derived from the truth of a suite.

The log is folded per group: what happened since the last generation that was written is what caused the next
one. A member that came and went between two written generations is no fact: no record ever had it. A poll
breach is a leave (or an expiry) of a member whose journal says that it processed for longer than allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.lab.truth import Truth

# A breach is told when the limit passes; the broker hears of it within a heartbeat, or at the session's end.
BREACH_MS = 12_000
STORM_GENERATIONS, STORM_WINDOW_MS = 5, 300_000


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to detect. `label` is `kind` or `cause:name`; `member` "" where the group is meant.

    `generation` is the one that a record first shows it in, or -1; `at` is the broker's log time, ms.
    """

    label: str
    group: str
    generation: int
    member: str
    at: int


@dataclass(slots=True)
class _Change:
    at: int
    cause: str
    member: str


@dataclass(slots=True)
class _Group:
    """One group while its log is folded."""

    name: str
    members: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    changes: list[_Change] = field(default_factory=list)
    joined_phase: tuple[int, int, set[str]] = (-1, 0, set())
    began_empty: bool = True
    ends: list[int] = field(default_factory=list)
    unwritten: list[tuple[int, int]] = field(default_factory=list)


def facts_of(events: Iterable[Truth], static_groups: Iterable[str] = ()) -> list[Fact]:
    """Derive the facts of classic groups from truth events in order of time."""
    every = list(events)
    fold = _Fold(_breaches(every), frozenset(static_groups))
    for event in every:
        fold.take(event)
    return sorted([*fold.facts, *fold.storms()], key=lambda fact: fact.at)


def _breaches(events: Iterable[Truth]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in events:
        if event.what == "poll_breach":
            found.setdefault(event.members[0], []).append(event.at)
    return found


class _Fold:
    """Folds the log of all groups into facts."""

    def __init__(self, breaches: Mapping[str, list[int]], static_groups: frozenset[str]) -> None:
        self.facts: list[Fact] = []
        self._groups: dict[str, _Group] = {}
        self._breaches = breaches
        self._static = static_groups

    def take(self, event: Truth) -> None:
        """Fold one event in."""
        group = self._groups.setdefault(event.group, _Group(event.group))
        match event.what:
            case "joined":
                self._join(group, event)
            case "left" | "poll_left" | "expired" | "join_deadline" | "sync_deadline":
                self._remove(group, event)
            case "static_replaced":
                self._replace(group, event)
            case "completed":
                group.ends.append(event.at)
                self._skipped(group)
                group.joined_phase = (event.generation, len(group.changes), set(group.members))
            case "synced":
                self._written(group, event)
            case "empty":
                self._emptied(group, event)

    def _join(self, group: _Group, event: Truth) -> None:
        group.members |= set(event.members)
        group.changes += [_Change(event.at, Cause.MEMBER_JOINED, member) for member in event.members]

    def _remove(self, group: _Group, event: Truth) -> None:
        for member in event.members:
            group.members.discard(member)
            group.changes.append(_Change(event.at, self._cause(group, event, member), member))

    def _cause(self, group: _Group, event: Truth, member: str) -> str:
        plain = {"join_deadline": Cause.JOIN_DEADLINE_MISSED, "sync_deadline": Cause.SYNC_DEADLINE_MISSED}
        if event.what in plain:
            return plain[event.what]
        breached = any(0 <= event.at - at + 500 <= BREACH_MS for at in self._breaches.get(member, ()))
        if event.what == "poll_left" or breached:
            return Cause.POLL_INTERVAL_EXCEEDED
        if event.what == "left":
            return Cause.MEMBER_LEFT
        return Cause.STATIC_MEMBER_EXPIRED if group.name in self._static else Cause.SESSION_TIMEOUT

    def _replace(self, group: _Group, event: Truth) -> None:
        known = set(event.members) & group.written
        group.members -= set(event.members)
        self.facts += [
            Fact(Kind.STATIC_MEMBER_REPLACED, group.name, -1, member, event.at) for member in known
        ]

    def _skipped(self, group: _Group) -> None:
        generation = group.joined_phase[0]
        if generation >= 0:
            group.unwritten.append((generation, group.ends[-1]))

    def _written(self, group: _Group, event: Truth) -> None:
        generation, count, members = group.joined_phase
        if generation != event.generation:
            return
        changes, group.changes = group.changes[:count], group.changes[count:]
        self._end(group, generation, members, changes, event.at)
        self.facts.append(Fact(Kind.REBALANCE, group.name, generation, "", event.at))
        if group.began_empty:
            self.facts.append(Fact(f"cause:{Cause.FIRST_START}", group.name, generation, "", event.at))
        group.began_empty = False

    def _emptied(self, group: _Group, event: Truth) -> None:
        group.ends.append(event.at)
        self._skipped(group)
        changes, group.changes = group.changes, []
        if group.written:
            self.facts.append(Fact(Kind.GROUP_EMPTY, group.name, event.generation, "", event.at))
        self._end(group, event.generation, set(), changes, event.at)
        group.began_empty = True

    def _end(
        self, group: _Group, generation: int, members: set[str], changes: list[_Change], at: int
    ) -> None:
        self.facts += [
            Fact(Kind.REBALANCE_FAILED, group.name, number, "", at) for number, _ in group.unwritten
        ]
        for change in changes:
            self._tell(group, generation, members, change)
        group.written, group.unwritten, group.joined_phase = members, [], (-1, 0, set())

    def _tell(self, group: _Group, generation: int, members: set[str], change: _Change) -> None:
        arrived = change.cause == Cause.MEMBER_JOINED
        visible = change.member in members - group.written if arrived else change.member in group.written
        if not visible or (arrived and group.began_empty):
            return
        label = f"cause:{change.cause}"
        self.facts.append(Fact(label, group.name, generation, change.member, change.at))
        kind = {
            Cause.SESSION_TIMEOUT: Kind.SESSION_TIMEOUT,
            Cause.STATIC_MEMBER_EXPIRED: Kind.SESSION_TIMEOUT,
            Cause.POLL_INTERVAL_EXCEEDED: Kind.POLL_INTERVAL_EXCEEDED,
        }.get(Cause(change.cause))
        if kind is not None:
            self.facts.append(Fact(kind, group.name, generation, change.member, change.at))

    def storms(self) -> list[Fact]:
        """Give one storm per group with enough generations in a window, at the time of the deciding one."""
        found = []
        for group in self._groups.values():
            ends = group.ends
            spans = zip(ends, ends[STORM_GENERATIONS - 1 :], strict=False)
            last = next((late for early, late in spans if late - early <= STORM_WINDOW_MS), None)
            if last is not None:
                found.append(Fact(Kind.STORM, group.name, -1, "", last))
        return found
