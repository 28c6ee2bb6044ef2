"""When a join phase is stuck: a warning first, critical once no expired session can explain it.

A join phase lasts at most the group's rebalance timeout P (KIP-62). At half of P, within 20 to 60 s, it is a
warning: the on-call engineer should learn which member it waits for. A dead member is removed a session
timeout S after its last heartbeat. So a join phase that outlasts S and a heartbeat waits for a live member
that does not rejoin, which is critical. So is a join phase that its deadline ends. A pod that is replaced
prolongs the phase until its old session ends: that is neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.settings import DetectionSettings

LEAST_MS, MOST_MS = 20_000, 60_000
USUAL_SESSION_MS = 45_000
"""Session timeout of a group of which none is known: Java's default."""

_BEATS = 3
"""Clients send at least so many heartbeats in a session timeout. If they send more, critical comes later."""


class Limits(NamedTuple):
    """Durations of one join phase, ms: it warns, and pages, from so long on."""

    warns: int
    pages: int


def limits(settings: DetectionSettings, sessions: Iterable[int], rebalances: Iterable[int]) -> Limits:
    """Return the limits of a group by the timeouts (ms) of its members; negative ones are not known.

    `sessions`: of the members that may be missing. `settings`: the group's own.
    """
    longest = max(rebalances, default=-1)
    session = max([one for one in sessions if one > 0], default=USUAL_SESSION_MS)
    warns = warns_after(settings, longest)
    outlasts = session + session // _BEATS
    return Limits(warns, max(warns, outlasts if longest <= 0 else min(outlasts, longest)))


def warns_after(settings: DetectionSettings, longest: int) -> int:
    """Return from when on a join phase warns (ms); `longest`: the longest rebalance timeout, -1 unknown."""
    if settings.stuck_after_ms is not None:
        return settings.stuck_after_ms
    return MOST_MS if longest <= 0 else min(max(longest // 2, LEAST_MS), MOST_MS)
