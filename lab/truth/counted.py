"""Storms that no scenario announces, by the broker's own count of a group's generations.

A scenario says what its faults are meant to do; on a busy machine members that stall for longer than their
limits go and return more often than it announces. A group did storm that, once it had lost a member to a
timeout, had as many generations within the window as a storm takes, and meanwhile lost members that had only
come since: so a start, a scale-out, a kill and a restart of everybody by turns are none. A report of it is
right; its absence misses nothing that was announced.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.lab.truth.fold import Fact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MIN_LOSSES = 2
"""So many of the members that joined since the first loss must be lost as well."""

_GENERATIONS = frozenset({Kind.REBALANCE.value, Kind.REBALANCE_FAILED.value})
_LOSSES = frozenset(f"cause:{cause}" for cause in (Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED))
_JOINED = f"cause:{Cause.MEMBER_JOINED}"


def counted_storms(facts: Iterable[Fact]) -> list[Fact]:
    """Give a storm that may be reported for each group with one in its facts, by the default limits."""
    limits = DetectionSettings()
    groups: dict[str, list[Fact]] = defaultdict(list)
    for fact in sorted(facts, key=lambda one: one.at):
        groups[fact.group].append(fact)
    found = []
    for group, own in groups.items():
        at = _stormed(own, limits.storm_threshold, limits.storm_window_ms)
        if at is not None:
            found.append(Fact(Kind.STORM, group, -1, "", at, required=False))
    return found


def _stormed(facts: Sequence[Fact], threshold: int, window_ms: int) -> int | None:
    """Give when (ms) the generations after the first loss reach the threshold, with losses of the young."""
    first = next((fact.at for fact in facts if fact.label in _LOSSES), None)
    if first is None:
        return None
    generations: dict[int, int] = {}
    came: set[str] = set()
    lost = []
    for fact in facts:
        if fact.at <= first:
            continue
        if fact.label in _GENERATIONS and fact.required:
            generations.setdefault(fact.generation, fact.at)
        elif fact.label == _JOINED:
            came.add(fact.member)
        elif fact.label in _LOSSES and fact.member in came:
            came.remove(fact.member)
            lost.append(fact.at)
    times = sorted(generations.values())
    for begin, end in zip(times, times[threshold - 1 :], strict=False):
        if end - begin < window_ms and sum(end - window_ms < at <= end for at in lost) >= MIN_LOSSES:
            return end
    return None
