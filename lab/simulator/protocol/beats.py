"""Heartbeats of one member, drawn lazily: a heartbeat is drawn only when a caller asks for it.

Heartbeats begin with the generation and form a lattice: start + k * interval, each sent up to `lag` late, and
the next one due an interval after it was sent. Hence a removal after a crash lies at start + k * h + S.
A client may send one more, soon after the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

EARLY_LATE_MS = 300.0
"""How late an extra first heartbeat is, at most: callbacks of the application come before it."""

_FEW = 4


class Beats:
    """The heartbeats since `start`; questions must come in order of time.

    `early`: so long (ms) after the start there is one more, where that is sooner than the first.
    """

    __slots__ = ("_first", "_interval", "_lag", "_last", "_next", "_rng")

    def __init__(self, start: float, interval: float, lag: float, rng: Random, early: float = 0.0) -> None:
        self._interval, self._lag, self._rng = interval, lag, rng
        self._last = start
        self._first = self._next = start + interval + rng.random() * lag
        if 0 < early < interval:
            self._next = start + early

    def last_before(self, at: float) -> float:
        """Give the last heartbeat at or before `at`; the start counts as one."""
        random, interval, lag = self._rng.random, self._interval, self._lag
        if self._next < self._first and self._next <= at:
            self._last, self._next = self._next, self._first
        while self._next <= at:
            many = int((at - self._next) / (interval + lag))
            if many > _FEW:
                # The sum of many lags, each uniform.
                spread = (random() + random() + random() + random() - 2.0) * (many**0.5 * 0.5)
                late = min(max(many / 2 + spread, 0.0), float(many)) * lag
                self._last = self._next + many * interval + late
            else:
                self._last = self._next
            self._next = self._last + interval + random() * lag
        return self._last

    def first_after(self, at: float) -> float:
        """Give the first heartbeat after `at`."""
        self.last_before(at)
        return self._next
