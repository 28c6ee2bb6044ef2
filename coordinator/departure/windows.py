"""Windows of silence: how likely it is (per ms) that a barrier ended so late after what may have begun it.

Each wait is uniform up to its most, so the sum of two is a trapezoid.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import heartbeat_of
from rebalance_monitor.coordinator.departure.measured import Rejoined

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.departure.measured import Silence

SLACK_MS = 60
CLOSE_MS = 300
"""A client that closes is gone within so long of its last commit, ms."""

EXACT_MS = 100
"""A barrier ends within so long of the moment from which it waits for nobody, ms."""

LATE_MS = 1_000
"""Those that poll all the time rejoin within a heartbeat and so long, ms."""

SHORT_BEAT_MS = 1_000
"""The heartbeat interval of those that chose a short one, ms."""

_LEAST_WAIT_MS, _STEPS = 500, 5
# How often a member goes while others wait in a barrier, where others came or went in it, and where not.
_IN_A_CROWD, _ALONE = 0.3, 0.1


def arrival(seen: Silence, late: int, spread: int) -> float:
    """Likelihood (per ms) that the barrier ended `late` ms after the earliest moment it allows.

    The removal either started the barrier, so no member that stayed had rejoined before it, or it came while
    others, or the end of a barrier that others had begun, waited for this member. Or nobody else was waited
    for any more: then it ended the barrier by going.
    """
    if seen.wait >= 0:
        return trapezoid(late, spread, seen.wait)
    told = seen.rejoined or Rejoined(seen.held)
    if _is_out(seen, late, spread, told):
        return 0.0
    likely = told.sure * _begun(seen, late - told.least, spread, told)
    likely += (1 - told.sure) * _begun(seen, late, spread, Rejoined())
    if seen.busy is not None:
        since = trapezoid(late - told.least, spread, seen.busy.most + heartbeat(seen))
        likely = (1 - seen.busy.sure) * likely + seen.busy.sure * since
    if told.least > SLACK_MS:
        at_its_end = 0.0 if ended_by_another(seen) else 0.5
        inside = at_its_end * trapezoid(late, spread, 0)
        inside += (1 - at_its_end) * trapezoid(late, spread, told.least)
        share = _IN_A_CROWD if seen.crowded else _ALONE
        likely = (1 - share) * likely + share * inside
    if seen.ended:
        likely = (1 - seen.ended) * likely + seen.ended * trapezoid(late, spread, _ended(seen))
    return likely


def _is_out(seen: Silence, late: int, spread: int, told: Rejoined) -> bool:
    """Whether it ended before or after all windows, as by far the most explanations would have it."""
    if late < -SLACK_MS:
        return True
    busily = 0 if seen.busy is None else seen.busy.most
    return late > told.least + spread + busily + heartbeat(seen) + CLOSE_MS + 2 * SLACK_MS


def ended_by_another(seen: Silence) -> bool:
    """Whether the barrier ended as one rejoined that had been busy: then it waited for nobody else."""
    told = seen.rejoined
    if told is None or told.least - told.apart > heartbeat(seen):
        return False
    return seen.busy is not None or told.apart > heartbeat(seen) + LATE_MS


def _ended(seen: Silence) -> int:
    """Return how long (ms) a barrier lasts that waits for nobody, or until all have rejoined once more."""
    return EXACT_MS + (heartbeat(seen) if seen.aborted else 0)


def _begun(seen: Silence, late: int, spread: int, told: Rejoined) -> float:
    """Likelihood that the first survivor rejoined `late` ms after the earliest moment of the removal.

    Each waited for its next heartbeat, and for its next poll. How long these take at most is in no record,
    but no two rejoined further apart than that, unless one of them was busy. Then the first one came in time;
    but its return began the barrier, perhaps, where it is back.
    """
    total = likely = 0.0
    waits = _waits(heartbeat(seen))
    for most in waits:
        left = most - told.apart
        if left > 0:
            weight = left * (waits[0] / most) ** told.among
            total += weight
            likely += weight * trapezoid(late, spread, left)
    if not total:
        return trapezoid(late, spread, CLOSE_MS if seen.returned else heartbeat(seen))
    return likely / total


@lru_cache(maxsize=1_024)
def _waits(most: int) -> tuple[int, ...]:
    """Return the waits (ms) that are tried, up to `most`: a short one is likelier than any longer one."""
    if most <= _LEAST_WAIT_MS:
        return (max(most, 1),)
    step = (most / _LEAST_WAIT_MS) ** (1 / _STEPS)
    return tuple(round(_LEAST_WAIT_MS * step**number) for number in range(_STEPS + 1))


def heartbeat(seen: Silence) -> int:
    """Return the most (ms) that survivors take to learn of a rebalance, summed over those that failed."""
    return heartbeat_of(seen.session) * (1 + seen.aborted)


def trapezoid(at: int, first: int, second: int) -> float:
    """Density (per ms) at `at` of the sum of two uniform waits of up to `first` and `second` ms."""
    one, other, x = first + SLACK_MS, second + SLACK_MS, at + SLACK_MS
    if x < 0 or x > one + other:
        return 0.0
    return min(x, one, other, one + other - x) / (one * other)
