"""Draws plans at random: timers by profile, families, commit modes, traffic, and a life with faults.

Profiles: `fast` (session 6 s, poll interval 8 s, heartbeat and commits 1 s, as in the lab's matrix),
`production` (the timing classes of the exam), `healthy` (the same timers, no fault at all).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.families import FAMILIES
from rebalance_monitor.lab.simulator.plan import (
    Act,
    BrokerPlan,
    ClientPlan,
    GroupPlan,
    Mode,
    Outage,
    Plan,
    Step,
    Traffic,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

SECOND = 1000
_S, _H, _C, _P = (10, 30, 45, 60), (3, 5, 10, 15, 20), (1, 5, 10, 15, 30, 60), (30, 60, 90, 120, 300)
_FAMILY_SHARES = {
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
}
_PER_SECOND = ((20.0, 60), (2.0, 15), (0.2, 8), (1 / 60, 12), (0.0, 5))
_STATIC = frozenset({"java", "java-cooperative", "librdkafka", "aiokafka", "sarama", "franz-go"})
_POLL_LIMIT = frozenset({"java", "kafka-python", "librdkafka", "streams"})
_PROTOCOLS = {
    "java": ("range", "roundrobin", "sticky"),
    "kafka": ("range", "roundrobin"),
    "librdkafka": ("range", "roundrobin"),
    "aiokafka": ("roundrobin", "range"),
    "sarama": ("range", "sticky"),
    "franz": ("cooperative-sticky", "range"),
    "kafkajs": ("RoundRobinAssigner",),
    "streams": ("stream",),
    "connect": ("sessioned",),
}
_WORDS = ("orders", "billing", "mail", "ledger", "search", "audit", "stock", "events", "fraud", "feed")


@dataclass(frozen=True, slots=True)
class Timing:
    """Timers of a group's clients, ms."""

    session: int
    poll: int
    heartbeat: int
    interval: int


def fast(rng: Random) -> Timing:
    """Timers of the lab's matrix."""
    del rng
    return Timing(6_000, 8_000, 1_000, 1_000)


def production(rng: Random) -> Timing:
    """Timers of the exam; a third of the session holds a heartbeat interval (Kafka's advice)."""
    session = rng.choice(_S)
    beats = [h for h in _H if h <= session / 3 + 0.5]
    third = session // 3
    heartbeat = rng.choice((3, third, rng.choice(beats)))
    return Timing(*(n * SECOND for n in (session, rng.choice(_P), heartbeat, rng.choice(_C))))


PROFILES: dict[str, Callable[[Random], Timing]] = {
    "fast": fast,
    "production": production,
    "healthy": production,
}


def draw_plan(rng: Random, profile: str = "production", *, groups: int = 1, faults: int = 4) -> Plan:
    """Draw a plan of `groups` groups with about `faults` faults each. Raises KeyError for a profile unknown."""
    made = [
        _Life(rng, PROFILES[profile](rng)).group(0 if profile == "healthy" else faults) for _ in range(groups)
    ]
    length = max(end for _, end in made)
    shaken = rng.random() < (0.15 if profile == "healthy" else 0.05)
    outages = _outages(rng, length) if shaken else ()
    delay = 0 if profile == "fast" else 3_000
    broker = BrokerPlan(outages, rng.choice((0, delay, delay)), java=rng.random() < 0.6)
    epoch = 1_700_000_000_000 + rng.randrange(10**10)
    return Plan(tuple(plan for plan, _ in made), length, broker, epoch, shard=rng.randrange(50))


def _outages(rng: Random, length: float) -> tuple[tuple[float, float, Outage], ...]:
    kind = rng.choice((Outage.PAUSE, Outage.MOVE, Outage.MOVE))
    return (
        (
            rng.uniform(0.3, 0.8) * length,
            rng.choice((1, 4, 9, 24, 60)) * SECOND * rng.uniform(0.6, 1.2),
            kind,
        ),
    )


def draw_client(rng: Random, timing: Timing, family: str | None = None) -> ClientPlan:
    """Draw how one client is set up."""
    name = family or rng.choices(list(_FAMILY_SHARES), list(_FAMILY_SHARES.values()))[0]
    known, base = FAMILIES[name], name.partition("-")[0]
    by_hand = known.auto is None or rng.random() < 0.4
    mode = rng.choice(known.modes) if by_hand else known.auto or Mode.PER_POLL
    gap = rng.choice((20.0, 100.0, 200.0, 200.0, 500.0))
    if mode in {Mode.PER_POLL, Mode.TRANSACTION}:
        gap = min(timing.interval * rng.choice((0.2, 1.0)), timing.poll / 4)
    elif mode is Mode.PER_RECORD:
        gap = rng.choice((100.0, 300.0, 800.0))
    return ClientPlan(
        family=name,
        session=timing.session,
        poll=timing.poll,
        rebalance=_rebalance(rng, name, base, timing),
        heartbeat=timing.heartbeat,
        interval=timing.interval,
        mode=mode,
        gap=gap,
        work=rng.choice((0.05, 0.3, 0.9)),
        final_commit=rng.random() < (0.97 if mode is known.auto else 0.6),
        revoke_commit=rng.random() < (0.95 if mode is known.auto else 0.5),
        rejoins_in_poll=known.polls_to_rejoin,
    )


def _rebalance(rng: Random, name: str, base: str, timing: Timing) -> int:
    """Give the rebalance timeout that its JoinGroup carries."""
    if base in _POLL_LIMIT and name != "kafka-go":
        return timing.poll
    if name == "aiokafka":
        return timing.session
    return rng.choice((60_000, timing.poll)) if name != "kafka-go" else rng.choice((30_000, timing.session))


@dataclass(slots=True)
class _Life:
    """One group's clients and steps, as they are thought of."""

    rng: Random
    timing: Timing
    clients: list[ClientPlan] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    at: float = 0.0
    name: str = ""
    static: bool = False
    own_ids: bool = False

    def group(self, faults: int) -> tuple[GroupPlan, float]:
        """Draw the group and when its life ends."""
        rng = self.rng
        self.name = f"{rng.choice(_WORDS)}-{rng.choice(_WORDS)}-{rng.randrange(16**5):05x}"
        first = draw_client(rng, self.timing)
        self.static = first.family in _STATIC and rng.random() < 0.2
        self.own_ids = rng.random() < 0.4
        count = rng.choice((1, 2, 2, 3, 3, 3, 4, 5, 6, 10))
        for _ in range(count):
            self._start(first)
            self.at += rng.uniform(0, 1) * rng.choice((50, 500, 3000))
        self._settle()
        for _ in range(faults):
            self._fault()
            self._settle()
        if not faults:
            self._rest()
        return self._plan(first, count), self.at + 2 * SECOND

    def _plan(self, first: ClientPlan, count: int) -> GroupPlan:
        rng, base = self.rng, first.family.partition("-")[0]
        cooperative = first.family.endswith("-cooperative")
        return GroupPlan(
            self.name,
            tuple(self.clients),
            tuple(sorted(self.steps, key=lambda step: step.at)),
            topics=tuple(rng.sample(_WORDS, rng.choice((1, 1, 1, 2)))),
            partitions=count * rng.choice((1, 2, 3)) + rng.choice((0, 0, 1)),
            protocol="cooperative-sticky" if cooperative else rng.choice(_PROTOCOLS[base]),
            protocol_type="connect" if base == "connect" else "consumer",
            traffic=Traffic(rng.choices([r for r, _ in _PER_SECOND], [w for _, w in _PER_SECOND])[0]),
        )

    # Steps.

    def _start(self, like: ClientPlan, **changes: object) -> int:
        """Start a process set up as `like`: a pod of its own, unless `changes` say otherwise."""
        number, rng = len(self.clients), self.rng
        plan = replace(
            like,
            host=f"/10.{rng.randrange(4)}.{rng.randrange(250)}.{rng.randrange(250)}",
            client_id=f"{self.name}-{rng.randrange(16**5):05x}" if self.own_ids else "",
            instance=f"{self.name}-{number}" if self.static else None,
        )
        self.clients.append(replace(plan, **changes))  # type: ignore[arg-type]
        self._step(Act.START, number)
        self.running.append(number)
        return number

    def _step(self, act: Act, client: int, lasts: float = float("inf")) -> None:
        self.steps.append(Step(self.at, act, client, lasts))

    def _victim(self) -> int:
        return self.rng.choice(self.running)

    def _gone(self, client: int) -> ClientPlan:
        self.running.remove(client)
        return self.clients[client]

    def _settle(self) -> None:
        """Let the group live on: a few commits and heartbeats."""
        timing = self.timing
        life = max(5 * timing.interval, 3 * timing.heartbeat, 10 * SECOND)
        self.at += 2 * timing.heartbeat + self.rng.uniform(0.3, 1.0) * life

    def _rest(self) -> None:
        self.at += self.rng.uniform(0.5, 1.0) * 1800 * SECOND

    def _wait(self, ms: float) -> None:
        self.at += ms

    # Faults.

    def _fault(self) -> None:
        if not self.running:
            self._start(self.clients[-1])
            self._settle()
            return
        names = list(_FAULTS)
        _FAULTS[self.rng.choices(names, [_SHARES[name] for name in names])[0]](self)

    def kill(self) -> None:
        """A process dies; nobody takes its place for now."""
        client = self._victim()
        self._step(Act.KILL, client)
        plan = self._gone(client)
        self._wait(self.timing.session + 2 * self.timing.heartbeat)
        self._start(plan, instance=plan.instance)

    def replaced(self) -> None:
        """A process dies and a new pod joins before its session ends, or after."""
        client = self._victim()
        self._step(Act.KILL, client)
        plan = self._gone(client)
        self._wait(self.rng.uniform(0.1, 1.2) * self.timing.session)
        if self.rng.random() < 0.4:
            self._start(plan, client_id=plan.client_id, host=plan.host, instance=plan.instance)
        else:
            self._start(plan, instance=plan.instance)
        self._wait(1.2 * self.timing.session)

    def early_kill(self) -> None:
        """A new pod dies before its first commit."""
        client = self._start(self.clients[-1])
        self._wait(self.timing.heartbeat * self.rng.uniform(0.2, 1.5) + self.rng.uniform(0, 4) * SECOND)
        self._step(Act.KILL, client)
        self._gone(client)
        self._wait(1.2 * self.timing.session)

    def stall(self) -> None:
        """An application processes for longer than it may (or nearly so)."""
        client, poll = self._victim(), self.clients[0].poll
        long = self.rng.random() < 0.85
        lasts = poll * (self.rng.uniform(1.05, 1.8) if long else self.rng.uniform(0.3, 0.95))
        self._step(Act.STALL, client, lasts)
        self._wait(lasts + (self.timing.session if self.static else 0))

    def close(self) -> None:
        """A clean close, and later a new pod."""
        client = self._victim()
        self._step(Act.CLOSE, client)
        plan = self._gone(client)
        silent = self.static or not FAMILIES[plan.family].goodbye
        self._wait(self.timing.session * 1.2 if silent else self.rng.uniform(0.2, 20) * SECOND)
        self._start(plan, instance=plan.instance)

    def deaf(self) -> None:
        """A member that goes on with heartbeats misses a rebalance."""
        client, limit = self._victim(), max(plan.rebalance for plan in self.clients)
        lasts = limit * self.rng.uniform(1.1, 1.5)
        self._step(Act.DEAF, client, lasts)
        self._wait(self.rng.uniform(0, 0.3) * limit)
        self._start(self.clients[client])
        self._wait(lasts)

    def cut(self) -> None:
        """The network goes away, for less or more than a session."""
        client = self._victim()
        lasts = self.timing.session * self.rng.choice((0.4, 1.3, 1.6, 2.5))
        self._step(self.rng.choice((Act.CUT, Act.CUT, Act.FREEZE)), client, lasts)
        self._wait(lasts)

    def rollout(self) -> None:
        """Every pod is replaced, one after the other."""
        surge = self.rng.random() < 0.5
        for client in list(self.running):
            if surge:
                self._start(self.clients[client], instance=self.clients[client].instance)
                self._wait(self.rng.uniform(1, 6) * SECOND)
            self._step(Act.CLOSE, client)
            plan = self._gone(client)
            if not surge:
                self._wait(self.rng.uniform(0.3, 8) * SECOND)
                self._start(plan, instance=plan.instance)
            self._wait(self.rng.uniform(1, 15) * SECOND)

    def scale_up(self) -> None:
        """New pods."""
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self._start(self.clients[0])
            self._wait(self.rng.uniform(0, 3) * SECOND)

    def scale_down(self) -> None:
        """Some pods close within seconds."""
        for _ in range(self.rng.randint(1, max(len(self.running) - 1, 1))):
            client = self._victim()
            self._step(Act.CLOSE, client)
            self._gone(client)
            self._wait(self.rng.uniform(0, 2) * SECOND)

    def crash_all(self) -> None:
        """All processes of the group die within moments."""
        for client in list(self.running):
            self._step(Act.KILL, client)
            self._gone(client)
            self._wait(self.rng.uniform(0, 300))
        self._wait(self.timing.session * 1.3)

    def two(self) -> None:
        """A crash beside a close or a stall."""
        if len(self.running) < 3:  # noqa: PLR2004 - somebody must stay
            self.kill()
            return
        first = self._victim()
        self._step(Act.KILL, first)
        self._gone(first)
        self._wait(self.rng.uniform(0, 1.2) * self.timing.session)
        second = self._victim()
        if self.rng.random() < 0.6:
            self._step(Act.CLOSE, second)
            self._gone(second)
            self._wait(1.2 * self.timing.session)
        else:
            lasts = self.clients[0].poll * 1.3
            self._step(Act.STALL, second, lasts)
            self._wait(lasts)

    def removed(self) -> None:
        """An administrator removes a member, which runs or is long gone."""
        client = self._victim()
        if self.static and self.rng.random() < 0.7:
            self._step(Act.CLOSE, client)
            self._wait(self.rng.uniform(0.1, 0.8) * self.timing.session)
        self._step(Act.REMOVE, client)

    def unsynced(self) -> None:
        """A member joins a generation and never syncs."""
        client = self._victim()
        self._step(Act.UNSYNCED, client, self.clients[0].rebalance * 1.4)
        self._step(Act.REJOIN, self._victim())
        self._wait(self.clients[0].rebalance * 1.5)

    def metadata(self) -> None:
        """A member rejoins because its topics changed."""
        self._step(Act.REJOIN, self._victim())


_SHARES = {
    "kill": 14,
    "replaced": 16,
    "early_kill": 4,
    "stall": 20,
    "close": 12,
    "deaf": 5,
    "cut": 6,
    "rollout": 5,
    "scale_up": 3,
    "scale_down": 5,
    "crash_all": 2,
    "two": 5,
    "removed": 2,
    "unsynced": 0.3,
    "metadata": 1,
}
_FAULTS: dict[str, Callable[[_Life], None]] = {name: getattr(_Life, name) for name in _SHARES}
