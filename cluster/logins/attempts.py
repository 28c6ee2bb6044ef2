"""Brokers that do not end a login's SASL exchanges: the sign of a refusal that the client does not report.

kafka-python tries a server that refuses the login until its time is over, and then reports that none
answered.
"""

from __future__ import annotations

from rebalance_monitor.cluster.errors import AccessDeniedError

REFUSED = 2
"""After so many exchanges in a row that a broker has not ended it is taken to refuse; one may be cut."""
AGAIN_S = 10.0
"""Pause before a failed login is tried again, s: many a KDC locks out a client that fails too often."""


class Attempts:
    """Counts them by host. mechanism: for the sentence."""

    def __init__(self, mechanism: str) -> None:
        self._mechanism = mechanism
        self._open: dict[str, int] = {}

    def begin(self, host: str) -> None:
        """Take note of an exchange that begins."""
        self._open[host] = self._open.get(host, 0) + 1

    def end(self, host: str) -> None:
        """Take note of one that the broker has ended well."""
        self._open.pop(host, None)

    def refusal(self) -> AccessDeniedError | None:
        """Return the error of a broker that refuses us, None where none does."""
        # A copy: other threads begin and end exchanges meanwhile.
        refusing = sorted(host for host, count in list(self._open.items()) if count >= REFUSED)
        if not refusing:
            return None
        return AccessDeniedError(
            f"The broker at {refusing[0]} refuses our login by {self._mechanism}.",
            "See the broker's log: who we are may be unknown there, a token expired, or a clock wrong.",
        )
