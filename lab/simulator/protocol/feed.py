"""Production to a group's topics: the end offset of each partition at any time."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from random import Random

    import numpy.typing as npt

    from rebalance_monitor.lab.simulator.plans.plan import GroupPlan

    Owned = list[tuple[str, list[int]]]
    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

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

    def flow(self, owned: Owned, at: float) -> float:
        """Give how many records a ms come to some partitions at a time (ms)."""
        return self.rate * sum(len(some) for _, some in owned) if at < self._until else 0.0

    def of(self, owned: Owned) -> Ends:
        """Give the ends of some partitions."""
        numbers = [number for _, some in owned for number in some]
        arrivals = [self._arrivals[number] for number in numbers] if self._sparse else None
        return Ends([self._base[number] for number in numbers], arrivals, self.rate, self._until)

    def over(self, times: Floats) -> Ints:
        """Give the end offsets at each of `times` (ms, rows) of each partition (columns)."""
        base = np.array(self._base, np.int64)
        if self._sparse:
            seen = [np.searchsorted(np.array(one), times, side="right") for one in self._arrivals]
            return base + np.column_stack(seen)
        flown = (self.rate * np.minimum(times, self._until)).astype(np.int64)
        return base + flown[:, None]


class Ends:
    """The end offsets of some partitions at any time, in their order."""

    __slots__ = ("_arrivals", "_base", "_rate", "_until")

    def __init__(
        self, base: list[int], arrivals: list[list[float]] | None, rate: float, until: float
    ) -> None:
        self._base, self._arrivals, self._rate, self._until = base, arrivals, rate, until

    def at(self, at: float) -> tuple[int, ...]:
        """Give the end offsets at `at` (ms)."""
        if self._arrivals is None:
            flown = int(self._rate * min(at, self._until))
            return tuple([base + flown for base in self._base])
        arrived = zip(self._base, self._arrivals, strict=True)
        return tuple([base + bisect_right(arrivals, at) for base, arrivals in arrived])

    def next_after(self, at: float) -> float:
        """Give when the next record arrives on any of them."""
        if self._arrivals is None:
            return at if at < self._until and self._base else float("inf")
        found = float("inf")
        for arrivals in self._arrivals:
            place = bisect_right(arrivals, at)
            if place < len(arrivals):
                found = min(found, arrivals[place])
        return found
