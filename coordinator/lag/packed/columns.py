"""The windows of many groups' partitions as columns: what `windows.py` says of one, done to all at once.

One row a number, one column a partition. The columns of many groups lie end to end, and stay there from one
sample to the next; each group knows where its own begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from rebalance_monitor.coordinator.lag.ends import UNKNOWN
from rebalance_monitor.coordinator.lag.windows import MARKER, PUBLISHED_MS, SMOOTHING, Track

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_NUMBERS = 8
_NONE = -1

LONGEST = 2**31 - 1
"""Commit intervals are cut at 24 days: windows that follow them are ten times as long."""


class Columns:
    """`values`: lag, base, low, moved, grown, rising, risen and cadence (`Track`) of each partition."""

    __slots__ = ("values",)

    def __init__(self, values: Ints) -> None:
        self.values = values

    @classmethod
    def new(cls, count: int) -> Columns:
        """Return the windows of so many partitions that were never committed."""
        return cls(np.full((_NUMBERS, count), _NONE, np.int64))

    @classmethod
    def gathered(cls, parts: Sequence[tuple[Columns, int]], sizes: Ints) -> Columns:
        """Return a copy of windows from several places, end to end: each `sizes` long from a column on."""
        bases: dict[int, int] = {}
        sources: list[Ints] = []
        count = 0
        for columns, _ in parts:
            if id(columns) not in bases:
                bases[id(columns)] = count
                sources.append(columns.values)
                count += columns.values.shape[1]
        begins = np.array([bases[id(columns)] + begin for columns, begin in parts], np.int64)
        held = np.concatenate(sources, axis=1) if sources else cls.new(0).values
        return cls(held[:, spread(begins, sizes)])

    def track(self, place: int, offset: int, committed: int) -> Track:
        """Return the windows of a partition, whose position is `offset`, committed at `committed` (ms)."""
        lag, base, low, moved, grown, rising, risen, cadence = self.values[:, place].tolist()
        return Track(offset, committed, moved, base, grown, cadence, rising, low, lag, risen)

    def restless(self, begin: int, end: int) -> list[int]:
        """Return which partitions from `begin` to `end` have lag that has grown, or is above its low."""
        lag, _, low, _, grown, *_ = self.values[:, begin:end]
        found: list[int] = np.flatnonzero((grown >= 0) | ((lag > low) & (low >= 0))).tolist()
        return found

    def commit(self, before: Ints, now: Ints) -> Mask:
        """Take the newest positions, each an offset and a time (ms); returns where an offset went back."""
        known, offset = before[:, 0], now[:, 0]
        committed, at = before[:, 1], now[:, 1]
        is_moved = offset != known
        self._learn(committed, at, is_moved)
        _, base, low, moved, grown, rising, _, _ = self.values
        # It reads again what it had read: its lag rises for that alone.
        back = offset < known
        rising[back] = low[back] = _NONE
        np.copyto(moved, at, where=is_moved)
        base[is_moved] = grown[is_moved] = _NONE
        return back

    def _learn(self, committed: Ints, at: Ints, moved: Mask) -> None:
        """Learn the commit intervals that end with the positions of `at` (ms)."""
        lag, _, _, _, grown, _, risen, cadence = self.values
        gap = at - committed
        since = np.where(grown >= 0, grown, risen)
        # Where no sample saw a record wait, it came and was committed between two.
        waited = np.maximum(np.where(since > committed, at - since, PUBLISHED_MS), 0)
        learned = np.where((lag >= 0) & moved, np.minimum(gap, waited), gap)
        smoothed = cadence + (learned - cadence) // SMOOTHING
        now = np.minimum(np.where(learned > cadence, learned, smoothed), LONGEST)
        np.copyto(cadence, now, where=(gap > 0) & (committed >= 0))

    def pause(self, paused: Mask) -> None:
        """Begin the windows anew: these groups rebalance, or what became of them is not known."""
        _, base, low, _, grown, rising, _, _ = self.values
        grown[paused] = rising[paused] = low[paused] = base[paused] = _NONE

    def observe(self, now: Ints, at: int) -> None:
        """Take the lag at a sample of `at` (ms); an unknown one says nothing and ends nothing."""
        lag, base, low, _, grown, rising, risen, _ = self.values
        known = now != UNKNOWN
        # The first sample since it moved; or the log was cut.
        anew = known & ((base < 0) | (now < base))
        np.copyto(base, now, where=anew)
        grown[anew] = _NONE
        grown[known & ~anew & (now > base + MARKER) & (grown < 0)] = at
        # A rise begins at the last sample of its low: lag that stays the same does not grow.
        lowest = known & ((now < lag) | (now <= low) | (rising < 0))
        rising[lowest] = at
        np.copyto(low, now, where=lowest)
        risen[known & ~lowest & (now > lag)] = at
        np.copyto(lag, now, where=known)

    def suspected(self, at: int, least_ms: int, behind_ms: int) -> Mask:
        """Return where a window of at least `least_ms` may be full: of no other partition anything is said.

        `behind_ms`: for how long lag rises at least before that says something.
        """
        lag, _, low, _, grown, rising, _, _ = self.values
        has_grown = (grown >= 0) & (at - grown >= least_ms)
        rises = (rising >= 0) & (at - rising >= max(least_ms, behind_ms))
        found: Mask = has_grown | (rises & (lag > low + MARKER))
        return found


def spread(begins: Ints, sizes: Ints) -> Ints:
    """Return the numbers from each of `begins` on, `sizes` of them each, end to end."""
    numbers: Ints = np.arange(sizes.sum()) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    return numbers
