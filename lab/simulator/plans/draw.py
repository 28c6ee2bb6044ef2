"""Draws plans at random: timers by profile, families, commit modes, traffic, and a life with faults.

Profiles: `fast` (session 6 s, poll interval 8 s, heartbeat and commits 1 s, as in the lab's matrix),
`production` (the timing classes of the exam), `healthy` (the same timers, no fault at all), `shaken` (the
same timers, and an outage of the broker about the time of a fault).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.plans.life import Life
from rebalance_monitor.lab.simulator.plans.plan import Act, BrokerPlan, Outage, Plan
from rebalance_monitor.lab.simulator.plans.setup import (
    PROFILES,
    SECOND,
    SHAKEN,
    Server,
    Timing,
    chance,
    draw_client,
)

if TYPE_CHECKING:
    from random import Random

    from rebalance_monitor.lab.simulator.plans.plan import Mode, Step

_DAY_MS = 86_400_000
# Shares of plans with an outage of the broker, and of brokers with the Java coordinator.
_SHAKEN, _HEALTHY_SHAKEN, _JAVA = 0.05, 0.15, 0.6
_OUTAGES_S = (1, 4, 9, 24, 60)
_FAULTS = frozenset({Act.KILL, Act.STALL, Act.CUT, Act.FREEZE, Act.DEAF})
# How long after a fault an outage begins at most, and after the beginning of all at least.
_AFTER_MS, _BEGUN_MS = 45 * SECOND, 20 * SECOND


def draw_plan(
    rng: Random,
    profile: str | Timing = "production",
    *,
    groups: int = 1,
    faults: int = 4,
    family: str | None = None,
    mode: Mode | None = None,
    steady: bool = False,
) -> Plan:
    """Draw a plan of `groups` groups with about `faults` faults each. KeyError: no such profile.

    `profile` may be timers. `family` and `mode` are for all clients, if given. `steady`: there
    is always something to commit, and nothing happens to the broker.
    """
    healthy, fast = profile == "healthy", profile == "fast"
    server = Server(6 * SECOND, SECOND) if fast else Server(rng.choice((45, 45, 60)) * SECOND, 5 * SECOND)
    made = []
    for _ in range(groups):
        timing = profile if isinstance(profile, Timing) else PROFILES[profile](rng)
        life = Life(rng, timing, server, draw_client(rng, timing, family, mode), steady=steady)
        made.append(life.group(0 if healthy else faults))
    length = max(end for _, end in made)
    shaken = not steady and chance(rng, _HEALTHY_SHAKEN if healthy else _SHAKEN)
    delay = 0 if fast else 3 * SECOND
    outages = _outages(rng, length) if shaken else ()
    if profile == SHAKEN:
        outages = _amid_faults(rng, [step for plan, _ in made for step in plan.steps])
    broker = BrokerPlan(
        outages=outages,
        initial_delay=rng.choice((0, delay, delay)),
        java=chance(rng, _JAVA) or any(plan.modern for plan, _ in made),
        session=server.session,
        busy=True,
    )
    epoch = 1_700_000_000_000 + rng.randrange(100 * _DAY_MS)
    return Plan(tuple(plan for plan, _ in made), length, broker, epoch, shard=rng.randrange(50))


def _outages(rng: Random, length: float) -> tuple[tuple[float, float, Outage], ...]:
    kind = rng.choice((Outage.PAUSE, Outage.MOVE, Outage.MOVE))
    lasts = rng.choice(_OUTAGES_S) * SECOND * rng.uniform(0.6, 1.2)
    return ((rng.uniform(0.3, 0.8) * length, lasts, kind),)


def _amid_faults(rng: Random, steps: list[Step]) -> tuple[tuple[float, float, Outage], ...]:
    """Draw an outage that begins a while before or after a client died or stalled, if one did."""
    faults = [step.at for step in steps if step.act in _FAULTS] or [step.at for step in steps]
    lasts = rng.choice(_OUTAGES_S[2:]) * SECOND * rng.uniform(0.6, 1.2)
    begins = rng.choice(faults) + rng.uniform(-lasts, _AFTER_MS)
    return ((max(begins, _BEGUN_MS), lasts, rng.choice(list(Outage))),)
