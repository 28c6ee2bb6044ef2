"""How far apart a run's session timeout and max.poll.interval are: windows must hold at both ends.

A silence that is too long for the one may still be too short for the other, so where they are close the two
are hard to tell apart; at the clients' defaults everything takes so long that something else happens. Where
they are nearer to each other than 6 s and 8 s nothing is asked: no silence tells them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.lab.cluster.properties import SESSION_TIMEOUT_848_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.lab.workers.flags import Flags

CLOSE, DEFAULTS = "limits like 6 s and 8 s", "limits like 45 s and 300 s"
NEARER = "limits nearer than 6 s and 8 s"
_CLOSE, _NEAREST = 1.5, 1.3
# Groups of a herd have up to 15 % less.
_SESSION_MS, _POLL_MS = 38_000, 250_000


def limits_of(session_ms: int, poll_ms: int) -> str:
    """Name the kind of limits that a run's members have; "" for what lies between."""
    if session_ms >= _SESSION_MS and poll_ms >= _POLL_MS:
        return DEFAULTS
    if poll_ms < _NEAREST * session_ms:
        return NEARER
    return CLOSE if poll_ms <= _CLOSE * session_ms else ""


def limits_in(flags: Flags) -> dict[str, list[int]]:
    """Give session timeout and max.poll.interval (ms) of each group that a worker with these flags is in."""
    # Timings that were drawn have the broker's session where that counts.
    drawn = bool(flags.timings)
    return {one.group: [one.session_ms if drawn else _session(one), one.poll_ms] for one in flags.each()}


def overrides(intervals: Mapping[str, int]) -> list[dict[str, str]]:
    """Give `detection.groups` that tell the monitor the max.poll.interval (ms) of these groups."""
    return [{"pattern": group, "max_poll_interval": f"{poll}ms"} for group, poll in intervals.items()]


def _session(flags: Flags) -> int:
    return SESSION_TIMEOUT_848_MS if flags.protocol == "consumer" else flags.session_ms
