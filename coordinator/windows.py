"""Windows of silence: how likely it is (per ms) that a barrier ended so late after what may have begun it.

Each wait is uniform up to its most, so the sum of two is a trapezoid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.measured import MAX_HEARTBEAT_MS

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.measured import Silence

SLACK_MS = 60
CLOSE_MS = 300
"""A client that closes is gone within so long of its last commit, ms."""


def arrival(seen: Silence, late: int, spread: int) -> float:
    """Likelihood (per ms) that the barrier ended `late` ms after the earliest moment it allows.

    The removal either started the barrier, which took at least `held` and up to a heartbeat more, or ended
    one that others had begun. A short heartbeat is the likelier one: short session timeouts come with it.
    """
    if seen.wait >= 0:
        return trapezoid(late, spread, seen.wait)
    beat = heartbeat(seen)
    short, begun = min(beat, 1_000), late - seen.held
    likely = 0.65 * trapezoid(begun, spread, short) + 0.35 * trapezoid(begun, spread, beat)
    if seen.held > CLOSE_MS:
        likely = 0.7 * likely + 0.3 * trapezoid(late, spread, 0)
    return likely


def heartbeat(seen: Silence) -> int:
    """Return the most (ms) that survivors take to learn of a rebalance, summed over those that failed."""
    return min(MAX_HEARTBEAT_MS, max(seen.session // 3, 1)) * (1 + seen.aborted)


def trapezoid(at: int, first: int, second: int) -> float:
    """Density (per ms) at `at` of the sum of two uniform waits of up to `first` and `second` ms."""
    short, wide = sorted((first + SLACK_MS, second + SLACK_MS))
    x = at + SLACK_MS
    if x < 0 or x > short + wide:
        return 0.0
    rising = min(x, short, short + wide - x)
    return rising / (short * wide)
