"""How far apart a run's session timeout and max.poll.interval are: windows must hold at both ends.

A silence that is too long for the one may still be too short for the other, so where they are close the two
are hard to tell apart; at the clients' defaults everything takes so long that something else happens.
"""

CLOSE, DEFAULTS = "limits like 6 s and 8 s", "limits of 45 s and 300 s"
_CLOSE = 1.5
_SESSION_MS, _POLL_MS = 45_000, 300_000


def limits_of(session_ms: int, poll_ms: int) -> str:
    """Name the kind of limits that a run's members have; "" for what lies between."""
    if session_ms >= _SESSION_MS and poll_ms >= _POLL_MS:
        return DEFAULTS
    return CLOSE if poll_ms <= _CLOSE * session_ms else ""
