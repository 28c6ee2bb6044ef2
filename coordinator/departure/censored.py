"""A member that never committed in its generation: only the time speaks, and most causes stay possible.

What is possible shares evenly: of every such set one is true, so that the confidences are right however often
members of a cluster close, die or stall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import MAX_HEARTBEAT_MS
from rebalance_monitor.coordinator.departure.windows import CLOSE_MS
from rebalance_monitor.coordinator.findings.causes import Cause

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.departure.measured import Silence

CAP_FITTING = 0.55
# So much rarer leaves without a commit who commits on close.
CLOSES = 3
# What nobody thought of.
_UNTOLD = 0.1
# How often one misses its sync deadline for one that goes as long after the generation began.
_RARELY = 0.2


def censored(seen: Silence) -> list[tuple[Cause, float]]:
    """Say what the elapsed time alone rules out: it never committed in the generation."""
    if seen.static and seen.elapsed >= seen.session - CLOSE_MS:
        return [(Cause.STATIC_MEMBER_EXPIRED, CAP_FITTING), (Cause.UNKNOWN, round(1 - CAP_FITTING, 2))]
    if seen.static:
        return [(Cause.MEMBER_REMOVED_BY_ADMIN, 0.5), (Cause.UNKNOWN, 0.5)]
    early = seen.elapsed < seen.session - CLOSE_MS and seen.goodbye
    if early and (seen.poll is False or seen.elapsed < seen.rebalance - CLOSE_MS):
        return [(Cause.MEMBER_LEFT, 0.9), (Cause.UNKNOWN, 0.1)]
    possible = dict.fromkeys((Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED), 1.0)
    if early:
        del possible[Cause.SESSION_TIMEOUT]
    elif seen.poll is False or seen.elapsed < seen.rebalance - CLOSE_MS:
        del possible[Cause.POLL_INTERVAL_EXCEEDED]
    if seen.closes:
        possible[Cause.MEMBER_LEFT] /= CLOSES
    # In epoch-based groups, where heartbeats alone keep the session, nobody syncs but for an upgrade.
    if not seen.session_early and seen.rebalance <= seen.elapsed <= seen.rebalance + MAX_HEARTBEAT_MS:
        possible[Cause.SYNC_DEADLINE_MISSED] = _RARELY
    total = sum(possible.values()) / (1 - _UNTOLD)
    shares = [(cause, min(CAP_FITTING, round(one / total, 2))) for cause, one in possible.items()]
    shares.append((Cause.UNKNOWN, round(1 - sum(one for _, one in shares), 2)))
    return sorted(shares, key=lambda it: -it[1])
