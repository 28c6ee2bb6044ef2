"""How clients are set up: timers by profile, families by share, and what an application adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.plans.families import FAMILIES
from rebalance_monitor.lab.simulator.plans.plan import ClientPlan, Mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from rebalance_monitor.lab.simulator.plans.families import Family

SECOND = 1000
SHAKEN = "shaken"
"""The profile of groups that meet an outage of the broker amid a fault."""

_S, _H, _C, _P = (10, 30, 45, 60), (3, 5, 10, 15, 20), (1, 5, 10, 15, 30, 60), (30, 60, 90, 120, 300)
FAMILY_SHARES = {
    "java": 30,
    "java-cooperative": 8,
    "kafka-python": 10,
    "librdkafka": 12,
    "librdkafka-cooperative": 6,
    "aiokafka": 6,
    "sarama": 7,
    "franz-go": 7,
    "kafka-go": 4,
    "kafkajs": 4,
    "streams": 4,
    "connect": 2,
    "java-848": 6,
    "librdkafka-848": 4,
}
"""How often a family is drawn."""

_POLL_LIMIT = frozenset({"java", "kafka", "librdkafka", "streams"})
_BY_HAND = 0.4
# How often an application keeps its offsets elsewhere.
_NO_COMMITS = 0.03
# For how long (ms) a broker may wait for records: by most libraries' defaults, and by that of kafka-go.
_MAX_WAITS = 500.0, 10_000.0
# How often a close commits what is left, and a revoke: by the library, by hand.
_FINAL, _FINAL_BY_HAND, _REVOKE, _REVOKE_BY_HAND = 0.97, 0.6, 0.95, 0.5


@dataclass(frozen=True, slots=True)
class Timing:
    """Timers of a group's clients, ms: session timeout, poll interval, heartbeat and commit interval."""

    session: int
    poll: int
    heartbeat: int
    interval: int


@dataclass(frozen=True, slots=True)
class Server:
    """Timers of KIP-848 groups, which the broker sets: session timeout and heartbeat interval, ms."""

    session: int
    heartbeat: int


def chance(rng: Random, share: float) -> bool:
    """Draw whether something happens that does so in `share` of all cases."""
    return rng.random() < share


def fast(rng: Random) -> Timing:
    """Give the timers of the lab's matrix."""
    del rng
    return Timing(6 * SECOND, 8 * SECOND, SECOND, SECOND)


def production(rng: Random) -> Timing:
    """Draw timers of the exam; a third of the session holds a heartbeat interval (Kafka's advice)."""
    session = rng.choice(_S)
    third = session // 3
    heartbeat = rng.choice((3, third, rng.choice([h for h in _H if h <= max(third, 3)])))
    return Timing(*(n * SECOND for n in (session, rng.choice(_P), heartbeat, rng.choice(_C))))


PROFILES: dict[str, Callable[[Random], Timing]] = {
    "fast": fast,
    "production": production,
    "healthy": production,
    SHAKEN: production,
}


def draw_client(
    rng: Random, timing: Timing, family: str | None = None, mode: Mode | None = None
) -> ClientPlan:
    """Draw how one client is set up; its family and commit mode too, where they are not given."""
    name = family or rng.choices(list(FAMILY_SHARES), list(FAMILY_SHARES.values()))[0]
    known = FAMILIES[name]
    if mode is None:
        mode = rng.choice(known.modes) if known.auto is None or chance(rng, _BY_HAND) else known.auto
        mode = Mode.NEVER if chance(rng, _NO_COMMITS) else mode
    auto = mode is known.auto
    return ClientPlan(
        family=name,
        session=timing.session,
        poll=timing.poll,
        rebalance=_rebalance(rng, known, timing),
        heartbeat=timing.heartbeat,
        interval=timing.interval,
        mode=mode,
        gap=_gap(rng, mode, timing),
        work=rng.choice((0.05, 0.3, 0.9)),
        final_commit=chance(rng, _FINAL if auto else _FINAL_BY_HAND),
        revoke_commit=chance(rng, _REVOKE if auto else _REVOKE_BY_HAND),
        rejoins_in_poll=known.polls_to_rejoin,
        fetch=rng.choice(_MAX_WAITS) if known.ends_fetch else _MAX_WAITS[0],
    )


def _gap(rng: Random, mode: Mode, timing: Timing) -> float:
    """Draw the mean time (ms) between two polls: with commits by hand it is that between these too."""
    if mode in {Mode.PER_POLL, Mode.TRANSACTION}:
        return min(timing.interval * rng.choice((0.2, 1.0)), timing.poll / 4)
    return rng.choice(
        (100.0, 300.0, 800.0) if mode is Mode.PER_RECORD else (20.0, 100.0, 200.0, 200.0, 500.0)
    )


def _rebalance(rng: Random, family: Family, timing: Timing) -> int:
    """Give the rebalance timeout that its JoinGroup carries."""
    if family.name == "kafka-go":
        return rng.choice((30 * SECOND, timing.session))
    if family.name == "aiokafka":
        return timing.session
    if family.name.partition("-")[0] in _POLL_LIMIT:
        return timing.poll
    return rng.choice((60 * SECOND, timing.poll))
