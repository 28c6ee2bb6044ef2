"""Facts to be detected, derived from the truth of a suite.

The log is folded per group: what happened since the last generation that was written is what caused the next
one. A member that joined and left between two written generations is no fact: no record ever had it. A poll
breach is a leave (or an expiry) of a member whose journal says that it processed for longer than allowed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.truth.epoch_facts import take_epochs
from rebalance_monitor.lab.truth.fold import LAB_PACE, Change, Fact, Facts, GroupFold, Pace, came_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.lab.truth.truth import Truth

# The journal notes a breach when the limit passes; the broker hears of it within a heartbeat, or at the
# session's end.
BREACH_MS, BREACH_SLACK_MS = 12_000, 2_000
# The limit counts from the last poll; the journal notes the stall after what was polled was processed.
EARLY_MS = 1_500
LOG_ORDER_MS = 20
UNSTORED = "when storing group assignment"
# What a broker says of a record that its replicas did not have in time: its own log may hold it.
MAYBE_STORED = f"Error COORDINATOR_NOT_AVAILABLE {UNSTORED}"


def facts_of(events: Iterable[Truth], static_groups: Iterable[str] = (), pace: Pace = LAB_PACE) -> list[Fact]:
    """Derive the facts from truth events in order of time; `static_groups` have static members only."""
    every = _in_order(stored(events))
    epochs = _epoch_groups(every)
    fold = Fold(breaches(every, epochs, pace), frozenset(static_groups), epochs, pace)
    for event in every:
        fold.take(event)
    return sorted(_once(fold.facts), key=lambda fact: fact.at)


def _once(facts: Iterable[Fact]) -> list[Fact]:
    """Give each generation once, by its first line: a bump of an epoch and its assignment are two."""
    found: dict[tuple[object, ...], Fact] = {}
    for number, fact in enumerate(facts):
        generation = (fact.group, fact.generation) if fact.label == Kind.REBALANCE else (number,)
        before = found.setdefault(generation, fact)
        found[generation] = replace(before, required=before.required or fact.required)
    return list(found.values())


def migrated_groups(events: Iterable[Truth]) -> frozenset[str]:
    """Give the groups that changed between the classic and the consumer protocol: they have no facts yet."""
    every = list(events)
    return _epoch_groups(every) & frozenset(event.group for event in every if event.what == "synced")


def _epoch_groups(events: Iterable[Truth]) -> frozenset[str]:
    return frozenset(event.group for event in events if event.what == "epoch")


def breaches(
    events: Iterable[Truth], epochs: frozenset[str] = frozenset(), pace: Pace = LAB_PACE
) -> dict[str, list[range]]:
    """Give when (ms) each member that processed for too long may have been lost for that.

    In an epoch-based group librdkafka stops its heartbeats then, and its session ends later.
    """
    found: dict[str, list[range]] = {}
    for event in events:
        if event.what == "poll_breach":
            grace = int(event.reason or 0) + BREACH_SLACK_MS + pace.session_ms * (event.group in epochs)
            span = range(event.at - EARLY_MS, event.at + max(BREACH_MS, grace) + 1)
            found.setdefault(event.members[0], []).append(span)
    return found


def stored(events: Iterable[Truth]) -> list[Truth]:
    """Leave out assignments that were received and could not be stored: no record has their generation.

    One that the broker gave up waiting for may have a record: it becomes `maybe_synced`.
    """
    every = list(events)
    unstored = {
        (event.group, event.generation): MAYBE_STORED in event.reason
        for event in every
        if event.what == "started" and UNSTORED in event.reason
    }
    found = []
    for event in every:
        maybe = unstored.get((event.group, event.generation)) if event.what == "synced" else None
        if maybe is not False:
            found.append(replace(event, what="maybe_synced") if maybe else event)
    return found


def _in_order(events: Iterable[Truth]) -> list[Truth]:
    """Put leaves before the Empty that they caused: the Scala coordinator logs them the other way round."""
    ordered: list[Truth] = []
    emptied: dict[str, int] = {}
    for event in events:
        at = emptied.get(event.group)
        if (
            event.what in {"left", "poll_left"}
            and at is not None
            and event.at - ordered[at].at <= LOG_ORDER_MS
        ):
            ordered.insert(at, event)
            emptied = {group: index + (index >= at) for group, index in emptied.items()}
            continue
        if event.what == "empty":
            emptied[event.group] = len(ordered)
        ordered.append(event)
    return ordered


class Fold(Facts):
    """Folds the log of all groups into facts."""

    def __init__(
        self,
        breaches: Mapping[str, list[range]],
        static_groups: frozenset[str],
        epochs: frozenset[str],
        pace: Pace,
    ) -> None:
        super().__init__(breaches, static_groups, pace)
        self._groups: dict[str, GroupFold] = {}
        self._epochs = epochs

    def take(self, event: Truth) -> None:
        """Fold one event in."""
        group = self._groups.setdefault(event.group, GroupFold(event.group))
        if event.group in self._epochs:
            take_epochs(self, group, event)
            return
        match event.what:
            case "started" if UNSTORED in event.reason:
                group.unstored = MAYBE_STORED not in event.reason
            case "maybe_synced":
                group.maybe_written |= group.joined_phase[2]
                self.facts.append(
                    Fact(Kind.REBALANCE, group.name, event.generation, "", event.at, required=False)
                )
            case "joined":
                self._join(group, event)
            case "left" | "poll_left" | "expired" | "join_deadline" | "sync_deadline":
                self._remove(group, event)
            case "static_replaced" | "static_swapped":
                self.replace_static(group, event)
            case "completed":
                self._skipped(group)
                group.joined_phase = (event.generation, len(group.changes), set(group.members))
            case "synced":
                self._written(group, event)
            case "empty":
                self._emptied(group, event)

    def _join(self, group: GroupFold, event: Truth) -> None:
        group.members |= set(event.members)
        group.changes += [Change(event.at, Cause.MEMBER_JOINED, member) for member in event.members]

    def _remove(self, group: GroupFold, event: Truth) -> None:
        for member in event.members:
            group.members.discard(member)
            if came_back(group, member):
                group.written.add(member)
            group.changes.append(Change(event.at, self.cause_of(group, event, member), member))

    def _skipped(self, group: GroupFold) -> None:
        generation = group.joined_phase[0]
        if generation >= 0:
            group.unwritten += 1

    def _written(self, group: GroupFold, event: Truth) -> None:
        generation, count, members = group.joined_phase
        if generation != event.generation:
            return
        changes, group.changes = group.changes[:count], group.changes[count:]
        self._end(group, generation, members, changes, event.at)
        self.facts.append(Fact(Kind.REBALANCE, group.name, generation, "", event.at))
        if group.began_empty:
            self.facts.append(Fact(f"cause:{Cause.FIRST_START}", group.name, generation, "", event.at))
        group.began_empty = False

    def _emptied(self, group: GroupFold, event: Truth) -> None:
        self._skipped(group)
        changes, group.changes = group.changes, []
        if group.written:
            self.facts.append(Fact(Kind.GROUP_EMPTY, group.name, event.generation, "", event.at))
        self._end(group, event.generation, set(), changes, event.at)
        group.began_empty = True

    def _end(
        self, group: GroupFold, generation: int, members: set[str], changes: list[Change], at: int
    ) -> None:
        if group.unwritten:
            failed = Fact(Kind.REBALANCE_FAILED, group.name, generation, "", at, count=group.unwritten)
            self.facts.append(failed)
        if group.unstored:
            label = f"cause:{Cause.ASSIGNMENT_NOT_STORED}"
            self.facts.append(Fact(label, group.name, generation, "", at))
        for change in changes:
            self.add_change(group, generation, members, change)
        group.written, group.unwritten, group.joined_phase = members, 0, (-1, 0, set())
        group.maybe_written, group.unstored = set(), False
