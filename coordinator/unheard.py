"""Why a member went that was never heard of: nothing that it committed in its generation tells.

The time since its session began rules some things out. Members of epoch-based groups acknowledged an epoch by
a heartbeat, and heartbeats keep their interval: a session that expired ended a whole number of them and the
session timeout later, while one that left did so at any moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.measured import MAX_HEARTBEAT_MS
from rebalance_monitor.coordinator.windows import CLOSE_MS, SLACK_MS, heartbeat

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.measured import Silence

MIN_REPORTED = 0.1
"""Shares below this are not worth a line."""

_UNTOLD = 0.18
# By how much a heartbeat comes later than the interval says, ms, and how often one went for another reason.
_DRIFT_MS = 12
_OFF_BEAT = 0.1
_MOST = 0.85
PRIORS_DYNAMIC = {
    Cause.MEMBER_LEFT: 0.45,
    Cause.SESSION_TIMEOUT: 0.3,
    Cause.POLL_INTERVAL_EXCEEDED: 0.22,
    Cause.UNKNOWN: 0.03,
}
"""How often a dynamic member goes for what, before anything is known of it."""


def attribute(seen: Silence) -> list[tuple[Cause, float]]:
    """Say what the elapsed time alone rules out: it never committed in the generation."""
    if seen.static and seen.elapsed >= seen.session - CLOSE_MS:
        return [(Cause.STATIC_MEMBER_EXPIRED, 0.8), (Cause.UNKNOWN, 0.2)]
    if seen.static:
        return [(Cause.MEMBER_REMOVED_BY_ADMIN, 0.5), (Cause.UNKNOWN, 0.5)]
    if seen.elapsed < seen.session - CLOSE_MS and seen.goodbye:
        return [(Cause.MEMBER_LEFT, 0.85), (Cause.UNKNOWN, 0.15)]
    told = by_beat(seen) if seen.beat else []
    if told:
        return told
    # Of a stall nothing speaks in one that was never seen to work.
    possible = dict(PRIORS_DYNAMIC)
    del possible[Cause.POLL_INTERVAL_EXCEEDED]
    total = sum(possible.values())
    possible[Cause.UNKNOWN] += total * _UNTOLD / (1 - _UNTOLD)
    total = sum(possible.values())
    shares = sorted(
        ((cause, round(one / total, 2)) for cause, one in possible.items()), key=lambda it: -it[1]
    )
    if seen.rebalance <= seen.elapsed <= seen.rebalance + MAX_HEARTBEAT_MS:
        shares = [(Cause.SYNC_DEADLINE_MISSED, 0.3), *((cause, round(one * 0.7, 2)) for cause, one in shares)]
    return shares


def by_beat(seen: Silence) -> list[tuple[Cause, float]]:
    """Tell by the moment of its going: sessions end a whole number of heartbeats and S after one of them.

    Each heartbeat comes a little late, 1 ms at least, so after many this says nothing any more; who leaves
    does so whenever. Groups may have intervals of their own, so an expiry is never certain.
    """
    beats, after = divmod(max(0, seen.elapsed - seen.session), seen.beat)
    window = SLACK_MS + beats * _DRIFT_MS
    if 2 * window > seen.beat:
        return []
    scores = {
        Cause.MEMBER_LEFT: PRIORS_DYNAMIC[Cause.MEMBER_LEFT] / seen.beat,
        Cause.SESSION_TIMEOUT: (beats <= after <= window) * PRIORS_DYNAMIC[Cause.SESSION_TIMEOUT] / window,
        Cause.UNKNOWN: _OFF_BEAT / seen.beat,
    }
    total = sum(scores.values())
    shares = ((cause, min(_MOST, round(score / total, 2))) for cause, score in scores.items())
    return sorted((one for one in shares if one[1] >= MIN_REPORTED), key=lambda one: -one[1])


def in_time(seen: Silence) -> bool:
    """Whether it never committed but went just when its session, begun by joining, would have expired."""
    return 0 <= seen.elapsed - seen.session <= heartbeat(seen) + CLOSE_MS
