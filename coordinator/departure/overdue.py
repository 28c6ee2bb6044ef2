"""What only a whole rebalance timeout speaks for: a barrier that lasted for it, or a sync that never came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import MAX_HEARTBEAT_MS
from rebalance_monitor.coordinator.departure.windows import CLOSE_MS, arrival
from rebalance_monitor.coordinator.findings.causes import Cause

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.departure.measured import Silence

_BARRIER_HELD = 0.85
_WENT = 4
_PRIOR_SYNC = 0.3
# So much rarer one misses its sync that has worked before, of a client that leaves when nobody polls.
_RARER = 30


def score(seen: Silence, scores: dict[Cause, float]) -> None:
    """Add the scores of missed deadlines to those of the other causes."""
    held, least = max(seen.held, seen.halted), _BARRIER_HELD * seen.rebalance
    if held >= least and seen.waited:
        # It had rejoined, or begun the barrier by going; no session ends in one.
        scores[Cause.MEMBER_LEFT] = _WENT * max(scores.values())
    elif held >= least and _went_on(seen, held, least):
        scores[Cause.JOIN_DEADLINE_MISSED] = 0.5 / CLOSE_MS
    if not seen.committed:
        scores[Cause.SYNC_DEADLINE_MISSED] = _unsynced(seen, seen.elapsed - seen.rebalance)


def _unsynced(seen: Silence, late: int) -> float:
    """Score a missed sync: a client that polls for its work syncs in the same poll, and stalls after that."""
    if seen.worked and seen.poll:
        return _PRIOR_SYNC / _RARER * arrival(seen, late, max(seen.cadence, CLOSE_MS))
    prior = _PRIOR_SYNC / (3 if seen.worked or seen.session == seen.rebalance else 1)
    return prior * arrival(seen, late, CLOSE_MS)


def _went_on(seen: Silence, held: int, least: float) -> bool:
    """Whether it committed in the barrier, which the others had joined: so it held it.

    One that never committed may have done so where the others are sure of the barrier, or had stopped as soon
    as the generation had begun.
    """
    if seen.committed:
        return seen.silence < held
    return seen.held >= least or seen.elapsed - held <= MAX_HEARTBEAT_MS
