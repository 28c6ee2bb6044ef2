"""Which groups are due at a clock, without reading every group: only rows and wakes change when that is.

A coordinator that stays open asks several times a second, and few groups are due at a time. One that is
opened for a single batch, as Spark's is, asks once: then reading every group is cheaper than sorting them.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.store import GroupStore


VOID = 4
"""Entries of the heap for each group that is not due, from which on it is made anew."""


class Wakes:
    """Follows the groups of `store`.

    `touched`: groups that may be due at another time than before; the code that changes that adds it. Most
    rows are commit runs, which hardly ever do.
    """

    __slots__ = ("_heap", "_known", "_store", "_was_asked", "touched")

    def __init__(self, store: GroupStore) -> None:
        self._store = store
        self.touched: set[str] = set()
        self._was_asked = False
        self._heap: list[tuple[int, str]] = []
        # When each group is due by the heap's newest entry of it; older entries are void.
        self._known: dict[str, int] | None = None

    def forget(self) -> None:
        """Read every group again: all of them may be due at another time."""
        self._known = None
        self.touched.clear()

    def due(self, now: int) -> list[str]:
        """Return the groups that are due at a clock of `now` ms, by name."""
        if not self._was_asked:
            self._was_asked = True
            self.touched.clear()
            return self._store.due(now)
        if self._known is None or len(self._heap) > VOID * (len(self._known) + VOID):
            self._known = dict(self._store.wakes())
            self._heap = [(wake, group) for group, wake in self._known.items()]
            heapify(self._heap)
        else:
            self._learn(self._known)
        found = self._taken(self._known, now)
        # Their detectors set when they are due next; where one fails its group is due still.
        self.touched = set(found)
        return sorted(found)

    def _learn(self, known: dict[str, int]) -> None:
        for group in self.touched:
            wake = self._store.wake_of(group)
            if wake is None:
                known.pop(group, None)
            elif known.get(group) != wake:
                known[group] = wake
                heappush(self._heap, (wake, group))

    def _taken(self, known: dict[str, int], now: int) -> list[str]:
        heap, found = self._heap, []
        while heap and heap[0][0] <= now:
            wake, group = heappop(heap)
            if known.get(group) == wake:
                del known[group]
                found.append(group)
        return found
