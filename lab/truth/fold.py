"""Truth events folded: facts, and each group on the way there (facts.py, epoch_facts.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.cluster.properties import HEARTBEAT_848_MS, SESSION_TIMEOUT_848_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.lab.truth.truth import Truth


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to detect. `label` is `kind` or `cause:name`; `member` "" where the group is meant.

    `generation` is the one that a record first shows it in, or -1; `at` is the broker's log time, ms. One
    that is not `required` may be reported or not: records do not show it.
    """

    label: str
    group: str
    generation: int
    member: str
    at: int
    required: bool = True
    count: int = 1


@dataclass(slots=True)
class Change:
    """A member joined or left, at `at`, for `cause`."""

    at: int
    cause: str
    member: str


@dataclass(slots=True)
class GroupFold:
    """One group while its log is folded."""

    name: str
    members: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    maybe_written: set[str] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    joined_phase: tuple[int, int, set[str]] = (-1, 0, set())
    began_empty: bool = True
    unwritten: int = 0
    unstored: bool = False
    replaced: set[str] = field(default_factory=set)
    # Epoch-based groups only: the newest epoch that the log names, whether removals bump it without a line,
    # and whether the last that went had been silent for its session.
    epoch: int = 0
    silent_bumps: bool = False
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """What the broker sets for members of epoch-based groups, ms."""

    session_ms: int = SESSION_TIMEOUT_848_MS
    heartbeat_ms: int = HEARTBEAT_848_MS


LAB_PACE = Pace()


class Facts:
    """Facts found so far, and what both kinds of groups make facts of."""

    def __init__(
        self, breaches: Mapping[str, list[range]], static_groups: frozenset[str], pace: Pace = LAB_PACE
    ) -> None:
        self.pace = pace
        self.facts: list[Fact] = []
        self._breaches = breaches
        self._static = static_groups

    def cause_of(self, group: GroupFold, event: Truth, member: str) -> str:
        """Give the cause of a member's going."""
        plain = {"join_deadline": Cause.JOIN_DEADLINE_MISSED, "sync_deadline": Cause.SYNC_DEADLINE_MISSED}
        if event.what in plain:
            return plain[event.what]
        breached = any(event.at in span for span in self._breaches.get(member, ()))
        if event.what == "poll_left" or breached:
            return Cause.POLL_INTERVAL_EXCEEDED
        if event.what == "left":
            return Cause.MEMBER_LEFT
        return Cause.STATIC_MEMBER_EXPIRED if group.name in self._static else Cause.SESSION_TIMEOUT

    def replace_static(self, group: GroupFold, event: Truth) -> None:
        """Put a static member's new self in place of the old one."""
        old, *new = event.members
        if came_back(group, old):
            group.written.add(old)
        group.replaced.add(event.reason)
        group.members = (group.members - {old}) | set(new)
        # Outside Stable it has no record of its own.
        if old in group.written and event.what == "static_replaced":
            self.facts.append(Fact(Kind.STATIC_MEMBER_REPLACED, group.name, -1, old, event.at))
            group.written = (group.written - {old}) | set(new)

    def add_change(self, group: GroupFold, generation: int, members: set[str], change: Change) -> None:
        """Add the facts of one change, as far as records can show it."""
        arrived = change.cause == Cause.MEMBER_JOINED
        maybe = group.maybe_written - group.written
        visible = change.member in (members - group.written if arrived else group.written | maybe)
        if not visible or (arrived and group.began_empty):
            return
        label, required = f"cause:{change.cause}", change.member not in maybe
        self.facts.append(Fact(label, group.name, generation, change.member, change.at, required))
        kind = {
            Cause.SESSION_TIMEOUT: Kind.SESSION_TIMEOUT,
            Cause.STATIC_MEMBER_EXPIRED: Kind.SESSION_TIMEOUT,
            Cause.POLL_INTERVAL_EXCEEDED: Kind.POLL_INTERVAL_EXCEEDED,
            Cause.JOIN_DEADLINE_MISSED: Kind.POLL_INTERVAL_EXCEEDED,
        }.get(Cause(change.cause))
        if kind is not None:
            self.facts.append(Fact(kind, group.name, generation, change.member, change.at, required))


def came_back(group: GroupFold, member: str) -> bool:
    """Whether it replaced another: the log has no new id of a static member, only the prefix."""
    return any(member.startswith(f"{instance}-") for instance in group.replaced)
