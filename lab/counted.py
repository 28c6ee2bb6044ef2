"""Storms that no scenario announces, by the broker's own count of a group's generations.

A scenario says what its faults are meant to do; on a busy machine members that stall for longer than their
limits go and return more often than it announces. A group that lost members to timeouts and had as many
generations as a storm takes did storm, so telling of it is right; who does not tell misses nothing announced.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.lab.foldstate import Fact

if TYPE_CHECKING:
    from collections.abc import Iterable

MIN_LOSSES = 2
"""So many members lost to timeouts tell a storm from a start, a scale-out or a rolling restart."""

_GENERATIONS = frozenset({Kind.REBALANCE.value, Kind.REBALANCE_FAILED.value})
_LOSSES = frozenset(f"cause:{cause}" for cause in (Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED))


def counted_storms(facts: Iterable[Fact], settings: DetectionSettings | None = None) -> list[Fact]:
    """Give a storm that may be told for each group whose facts have one; the monitor's own limits count."""
    limits = settings or DetectionSettings()
    generations: dict[str, list[int]] = defaultdict(list)
    losses: dict[str, list[int]] = defaultdict(list)
    for fact in sorted(facts, key=lambda one: one.at):
        if fact.label in _GENERATIONS:
            generations[fact.group].append(fact.at)
        elif fact.label in _LOSSES:
            losses[fact.group].append(fact.at)
    found = []
    for group, times in generations.items():
        for first, last in zip(times, times[limits.storm_threshold - 1 :], strict=False):
            lost = sum(last - limits.storm_window_ms < at <= last for at in losses[group])
            if last - first < limits.storm_window_ms and lost >= MIN_LOSSES:
                found.append(Fact(Kind.STORM, group, -1, "", last, required=False))
                break
    return found
