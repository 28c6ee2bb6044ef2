"""Commits within transactions: the coordinator takes them, but they do not keep the session (to Kafka 4.x).

So the session of a classic member that commits so ends a session timeout after its last heartbeat, which may
have come before its last commit. No record says who commits so. Kafka Streams does with exactly-once, every
100 ms, else every 30 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import heartbeat_of
from rebalance_monitor.coordinator.departure.windows import SLACK_MS, arrival

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.departure.measured import Silence

_RARELY = 0.03
_STREAMS = 0.8
_OFTEN_MS = 1_000
_CAP = 0.55


def mixed(seen: Silence, usual: float, late: int, spread: int) -> float:
    """Mix into the `usual` likelihood of an expiry, `late` ms after its session, that of one that does so."""
    # Of classic clients only those of Kafka Streams never say goodbye.
    streams = not seen.goodbye and 0 < seen.cadence < _OFTEN_MS
    share = _STREAMS if streams else _RARELY
    beat = heartbeat_of(seen.session)
    return (1 - share) * usual + share * arrival(seen, late + beat, spread + beat)


def cap(seen: Silence) -> float:
    """Return the most that a timeout may claim of one whose silence nothing else but this explains.

    A clean close that the others took long to answer may look the same.
    """
    beat, cadence = heartbeat_of(seen.session), max(seen.cadence, 0)
    early = -beat <= seen.silence - seen.session + SLACK_MS < 0
    breach = -cadence - SLACK_MS <= seen.silence - seen.rebalance <= cadence + 2 * beat
    plain = seen.committed and seen.goodbye and not seen.session_early
    return _CAP if plain and early and not breach else 1.0
