"""Probe samples that wait until the driver takes them, bounded by number and size.

A batch may last for minutes, the first one over a long history for many. Samples are large while thousands of
groups rebalance. The oldest are dropped first, because the newest show the present state.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.probe.sample import ProbeSample

MOST_LOOKS = 600
MOST_ENTRIES = 200_000
"""Groups and members that wait; some 300 bytes each."""


class Backlog:
    """Probe samples in the order in which they came; safe for one thread that adds and one that takes."""

    def __init__(self, samples: int = MOST_LOOKS, entries: int = MOST_ENTRIES) -> None:
        self._bounds = samples, entries
        self._waiting: deque[ProbeSample] = deque()
        self._entries = 0
        self._lock = threading.Lock()
        self.dropped = 0
        """How many samples were dropped before the driver took them."""

    def add(self, sample: ProbeSample) -> None:
        """Add a sample; the newest always does, however large."""
        samples, entries = self._bounds
        with self._lock:
            self._waiting.append(sample)
            self._entries += entries_of(sample)
            while len(self._waiting) > 1 and (len(self._waiting) > samples or self._entries > entries):
                self._entries -= entries_of(self._waiting.popleft())
                self.dropped += 1

    def take(self) -> list[ProbeSample]:
        """Take all that wait, oldest first; never blocks for long."""
        with self._lock:
            found = list(self._waiting)
            self._waiting.clear()
            self._entries = 0
        return found


def entries_of(sample: ProbeSample) -> int:
    """Count the groups and members of a sample."""
    return len(sample.groups) + sum(map(len, sample.members.values())) + len(sample.listed or ())
