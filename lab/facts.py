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
    """A member came or went, at `at`, for `cause`."""

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
    unwritten: int = 0


def facts_of(events: Iterable[Truth], static_groups: Iterable[str] = ()) -> list[Fact]:
    """Derive the facts from truth events in order of time; `static_groups` have static members only."""
    every = list(events)
    fold = _Fold(_breaches(every), frozenset(static_groups), _epoch_groups(every))
    for event in every:
        fold.take(event)
    return sorted(fold.facts, key=lambda fact: fact.at)


def _epoch_groups(events: Iterable[Truth]) -> frozenset[str]:
    return frozenset(event.group for event in events if event.what == "epoch")


def _breaches(events: Iterable[Truth]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in events:
        if event.what == "poll_breach":
            found.setdefault(event.members[0], []).append(event.at)
    return found


class _Fold:
    """Folds the log of all groups into facts."""

    def __init__(
        self, breaches: Mapping[str, list[int]], static_groups: frozenset[str], epochs: frozenset[str]
    ) -> None:
        self.facts: list[Fact] = []
        self._groups: dict[str, _Group] = {}
        self._breaches = breaches
        self._static = static_groups
        self._epochs = epochs

    def take(self, event: Truth) -> None:
        """Fold one event in."""
        group = self._groups.setdefault(event.group, _Group(event.group))
        if event.group in self._epochs:
            self._take_epochs(group, event)
            return
        match event.what:
            case "joined":
                self._join(group, event)
            case "left" | "poll_left" | "expired" | "join_deadline" | "sync_deadline":
                self._remove(group, event)
            case "static_replaced":
                self._replace(group, event)
            case "completed":
                self._skipped(group)
                group.joined_phase = (event.generation, len(group.changes), set(group.members))
            case "synced":
                self._written(group, event)
            case "empty":
                self._emptied(group, event)

    def _take_epochs(self, group: _Group, event: Truth) -> None:
        """Fold an event of a KIP-848 group: every change is written as it happens."""
        match event.what:
            case "joined":
                group.members |= set(event.members)
                for member in event.members:
                    change = _Change(event.at, Cause.MEMBER_JOINED, member)
                    self._tell(group, -1, group.members, change)
                group.written = set(group.members)
            case "left" | "expired" | "join_deadline" | "sync_deadline":
                for member in event.members:
                    self._tell(group, -1, set(), _Change(event.at, self._cause(group, event, member), member))
                group.members -= set(event.members)
                group.written = set(group.members)
            case "epoch":
                empty = not group.members
                kind = Kind.GROUP_EMPTY if empty else Kind.REBALANCE
                self.facts.append(Fact(kind, group.name, event.generation, "", event.at))
                group.began_empty = empty

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
            group.unwritten += 1

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
        self._skipped(group)
        changes, group.changes = group.changes, []
        if group.written:
            self.facts.append(Fact(Kind.GROUP_EMPTY, group.name, event.generation, "", event.at))
        self._end(group, event.generation, set(), changes, event.at)
        group.began_empty = True

    def _end(
        self, group: _Group, generation: int, members: set[str], changes: list[_Change], at: int
    ) -> None:
        if group.unwritten:
            self.facts.append(Fact(Kind.REBALANCE_FAILED, group.name, generation, "", at))
        for change in changes:
            self._tell(group, generation, members, change)
        group.written, group.unwritten, group.joined_phase = members, 0, (-1, 0, set())

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
