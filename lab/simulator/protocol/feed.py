"""Production to a group's topics: the end offset of each partition at any time."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from rebalance_monitor.lab.simulator.plans.plan import GroupPlan

    Owned = list[tuple[str, list[int]]]

# Rarer arrivals are drawn one by one.
_SPARSE_PER_SECOND = 1.0


class Feed:
    """End offsets by partition: a steady flow, or single arrivals at random where there are few."""

    def __init__(self, plan: GroupPlan, length: float, rng: Random) -> None:
        self.rate = plan.traffic.per_second / 1000
        self._until = plan.traffic.until
        self._base = [rng.randrange(1_000_000) for _ in range(plan.partitions)]
        self._sparse = plan.traffic.per_second < _SPARSE_PER_SECOND
        self._arrivals: list[list[float]] = []
        if self._sparse:
            last = min(length, self._until)
            even = plan.traffic.even
            shared = self._evenly(last, rng.random()) if even else []
            self._arrivals = [shared if even else self._drawn(last, rng) for _ in range(plan.partitions)]

    def _evenly(self, last: float, phase: float) -> list[float]:
        count = int(last * self.rate - phase) + 1 if self.rate > 0 else 0
        return [(phase + place) / self.rate for place in range(count)]

    def _drawn(self, last: float, rng: Random) -> list[float]:
        found: list[float] = []
        at = rng.expovariate(self.rate) if self.rate > 0 else last + 1
        while at <= last:
            found.append(at)
            at += rng.expovariate(self.rate)
        return found

    def offsets(self, owned: Owned, at: float) -> tuple[int, ...]:
        """Give the end offsets at `at` (ms) of each partition."""
        base = self._base
        if self._sparse:
            arrivals = self._arrivals
            return tuple(base[p] + bisect_right(arrivals[p], at) for _, numbers in owned for p in numbers)
        flown = int(self.rate * min(at, self._until))
        return tuple(base[p] + flown for _, numbers in owned for p in numbers)

    def next_after(self, owned: Owned, at: float) -> float:
        """Give when the next record arrives on any of `owned`."""
        if not self._sparse:
            return at if at < self._until and owned else float("inf")
        found = float("inf")
        for _, numbers in owned:
            for p in numbers:
                arrivals = self._arrivals[p]
                place = bisect_right(arrivals, at)
                if place < len(arrivals):
                    found = min(found, arrivals[place])
        return found
