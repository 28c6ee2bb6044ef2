"""The windows of many groups' partitions as columns: what `windows.py` says of one, done to all at once.

One column a number, one row a partition. Groups keep their own rows packed (`tracks.py`); those of many are
laid end to end, changed here, and cut apart again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from rebalance_monitor.coordinator.lag.ends import UNKNOWN
from rebalance_monitor.coordinator.lag.packed.tracks import LONGEST
from rebalance_monitor.coordinator.lag.windows import MARKER, PUBLISHED_MS, SMOOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_NAMES = ("lag", "base", "low", "moved", "grown", "rising", "risen", "cadence")
_LAYOUT = np.dtype([(name, "i4" if name == "cadence" else "i8") for name in _NAMES])
_NONE = -1


class Columns:
    """The windows of partitions, in the order in which their packed bodies are given."""

    __slots__ = _NAMES

    def __init__(self, bodies: Iterable[bytes]) -> None:
        packed = np.frombuffer(b"".join(bodies), _LAYOUT)
        self.lag: Ints = packed["lag"].astype(np.int64)
        self.base: Ints = packed["base"].astype(np.int64)
        self.low: Ints = packed["low"].astype(np.int64)
        self.moved: Ints = packed["moved"].astype(np.int64)
        self.grown: Ints = packed["grown"].astype(np.int64)
        self.rising: Ints = packed["rising"].astype(np.int64)
        self.risen: Ints = packed["risen"].astype(np.int64)
        self.cadence: Ints = packed["cadence"].astype(np.int64)

    def packed(self) -> bytes:
        """Return the bodies, end to end."""
        out = np.empty(len(self.lag), _LAYOUT)
        for name in _NAMES:
            out[name] = getattr(self, name)
        return out.tobytes()

    def commit(self, before: Ints, now: Ints) -> Mask:
        """Take the newest positions, each an offset and a time (ms); returns where an offset went back."""
        known, offset = before[:, 0], now[:, 0]
        committed, at = before[:, 1], now[:, 1]
        moved = offset != known
        self._learn(committed, at, moved)
        # It reads again what it had read: its lag rises for that alone.
        back = offset < known
        self.rising[back] = self.low[back] = _NONE
        np.copyto(self.moved, at, where=moved)
        self.base[moved] = self.grown[moved] = _NONE
        return back

    def _learn(self, committed: Ints, at: Ints, moved: Mask) -> None:
        """Learn the commit intervals that end with the positions of `at` (ms)."""
        gap = at - committed
        since = np.where(self.grown >= 0, self.grown, self.risen)
        # Where no sample saw a record wait, it came and was committed between two.
        waited = np.maximum(np.where(since > committed, at - since, PUBLISHED_MS), 0)
        learned = np.where((self.lag >= 0) & moved, np.minimum(gap, waited), gap)
        smoothed = self.cadence + (learned - self.cadence) // SMOOTHING
        cadence = np.minimum(np.where(learned > self.cadence, learned, smoothed), LONGEST)
        self.cadence = np.where((gap > 0) & (committed >= 0), cadence, self.cadence)

    def pause(self, paused: Mask) -> None:
        """Begin the windows anew: these groups rebalance, or what became of them is not known."""
        self.grown[paused] = self.rising[paused] = self.low[paused] = self.base[paused] = _NONE

    def observe(self, lag: Ints, at: int) -> None:
        """Take the lag at a sample of `at` (ms); an unknown one says nothing and ends nothing."""
        known = lag != UNKNOWN
        # The first sample since it moved; or the log was cut.
        anew = known & ((self.base < 0) | (lag < self.base))
        np.copyto(self.base, lag, where=anew)
        self.grown[anew] = _NONE
        self.grown[known & ~anew & (lag > self.base + MARKER) & (self.grown < 0)] = at
        # A rise begins at the last sample of its low: lag that stays the same does not grow.
        lowest = known & ((lag < self.lag) | (lag <= self.low) | (self.rising < 0))
        self.rising[lowest] = at
        np.copyto(self.low, lag, where=lowest)
        self.risen[known & ~lowest & (lag > self.lag)] = at
        np.copyto(self.lag, lag, where=known)

    def suspected(self, at: int, least_ms: int, behind_ms: int) -> Mask:
        """Return where a window of at least `least_ms` may be full: of no other partition anything is said.

        `behind_ms`: for how long lag rises at least before that says something.
        """
        grown = (self.grown >= 0) & (at - self.grown >= least_ms)
        rises = (self.rising >= 0) & (at - self.rising >= max(least_ms, behind_ms))
        return grown | (rises & (self.lag > self.low + MARKER))
