"""The life of one group, drawn at random: it starts, works, and meets faults one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from rebalance_monitor.lab.simulator.plans.families import FAMILIES
from rebalance_monitor.lab.simulator.plans.plan import Act, ClientPlan, GroupPlan, Mode, Step, Traffic
from rebalance_monitor.lab.simulator.plans.setup import SECOND, chance, draw_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.lab.simulator.plans.setup import Server, Timing

# Records a second and partition, and how often they are drawn.
_TRAFFIC = {20.0: 52, 2.0: 15, 0.2: 8, 1 / 60: 20, 0.0: 5}
_HAVE_INSTANCES = frozenset(
    {"java", "java-cooperative", "librdkafka", "aiokafka", "sarama", "franz-go", "java-848"}
)
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
_HOSTS = "/10.{}.{}.{}"
# Families that can be members of one group.
_MIXABLE, _MIXED = ("java", "kafka-python", "librdkafka", "aiokafka", "sarama"), 0.08
# Shares: groups of static members, of clients with ids of their own; pods that come back as they were; stalls
# that are longer than allowed; rollouts that start the new pod first; a second member that closes, or stalls.
_STATIC, _OWN_IDS, _SAME_POD, _TOO_LONG, _SURGE, _CLOSES, _CLOSED_BEFORE = 0.2, 0.4, 0.4, 0.85, 0.5, 0.6, 0.7
# How often a life ends with a planned close of the whole group.
_ENDS_CLOSED = 0.7
_FEW = 3
# Where the application asks for no callback, librdkafka takes what it is assigned without a poll.
_MAY_REJOIN_ALONE, _REJOINS_ALONE = frozenset({"librdkafka", "librdkafka-cooperative"}), 0.5
# How often a fault follows upon another before the group has come to rest.
_AT_ONCE = 0.12


@dataclass(slots=True)
class Life:
    """One group's clients and steps, as they are thought of."""

    rng: Random
    timing: Timing
    server: Server
    first: ClientPlan
    steady: bool = False
    clients: list[ClientPlan] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    at: float = 0.0
    name: str = ""
    static: bool = False
    own_ids: bool = False
    mixed: bool = False

    def group(self, faults: int) -> tuple[GroupPlan, float]:
        """Draw the group and when its life ends."""
        rng = self.rng
        self.name = f"{rng.choice(_WORDS)}-{rng.choice(_WORDS)}-{rng.randrange(16**5):05x}"
        first = self.first
        if FAMILIES[first.family].keeps_id:
            session, heartbeat = self.server.session, self.server.heartbeat
            self.timing = replace(self.timing, session=session, heartbeat=heartbeat)
            first = replace(first, session=session, heartbeat=heartbeat)
        if first.family in _MAY_REJOIN_ALONE and chance(Random(f"rejoins {self.name}"), _REJOINS_ALONE):
            first = replace(first, rejoins_in_poll=False)
        self.static = first.family in _HAVE_INSTANCES and chance(rng, _STATIC)
        self.own_ids = chance(rng, _OWN_IDS)
        self.mixed = first.family in _MIXABLE and not (self.static or self.steady) and chance(rng, _MIXED)
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
        self._end()
        return self._plan(first, count), self.at + 2 * SECOND

    def _plan(self, first: ClientPlan, count: int) -> GroupPlan:
        rng, base = self.rng, first.family.partition("-")[0]
        own = ("cooperative-sticky",) if first.family.endswith("-cooperative") else _PROTOCOLS[base]
        return GroupPlan(
            self.name,
            tuple(self.clients),
            tuple(sorted(self.steps, key=lambda step: step.at)),
            topics=tuple(rng.sample(_WORDS, rng.choice((1, 1, 1, 2)))),
            partitions=count * rng.choice((1, 2, 3)) + rng.choice((0, 0, 1)),
            protocol="range" if self.mixed else rng.choice(own),
            protocol_type="connect" if base == "connect" else "consumer",
            modern=FAMILIES[first.family].keeps_id,
            traffic=Traffic() if self.steady else self._traffic(),
        )

    def _traffic(self) -> Traffic:
        return Traffic(self.rng.choices(list(_TRAFFIC), list(_TRAFFIC.values()))[0])

    # Steps.

    def _start(self, like: ClientPlan, **changes: Any) -> int:  # noqa: ANN401 - fields of a ClientPlan
        """Start a process set up as `like`: a pod of its own, unless `changes` say otherwise."""
        number, rng = len(self.clients), self.rng
        plan = replace(
            self._mixed_in(like) if self.mixed else like,
            host=_HOSTS.format(rng.randrange(4), rng.randrange(250), rng.randrange(250)),
            client_id=f"{self.name}-{rng.randrange(16**5):05x}" if self.own_ids else "",
            instance=f"{self.name}-{number}" if self.static else None,
        )
        self.clients.append(replace(plan, **changes))
        self._step(Act.START, number)
        self.running.append(number)
        return number

    def _mixed_in(self, like: ClientPlan) -> ClientPlan:
        """Draw a client of another library: the application as a whole keeps its offsets in Kafka, or not."""
        plan = draw_client(self.rng, self.timing, self.rng.choice(_MIXABLE))
        if Mode.NEVER in {plan.mode, like.mode}:
            auto = FAMILIES[plan.family].auto or Mode.PER_POLL
            return replace(plan, mode=Mode.NEVER if like.mode is Mode.NEVER else auto)
        return plan

    def _step(self, act: Act, client: int, lasts: float = float("inf")) -> None:
        self.steps.append(Step(self.at, act, client, lasts))

    def _victim(self) -> int:
        return self.rng.choice(self.running)

    def _gone(self, client: int) -> ClientPlan:
        self.running.remove(client)
        return self.clients[client]

    def _settle(self) -> None:
        """Let the group live on for a few commits and heartbeats; now and then not even that."""
        timing = self.timing
        if chance(self.rng, _AT_ONCE):
            self.at += self.rng.uniform(0, 2) * timing.heartbeat
            return
        life = max(5 * timing.interval, 3 * timing.heartbeat, 10 * SECOND)
        self.at += 2 * timing.heartbeat + self.rng.uniform(0.3, 1.0) * life

    def _rest(self) -> None:
        self.at += self.rng.uniform(0.5, 1.0) * 1800 * SECOND

    def _wait(self, ms: float) -> None:
        self.at += ms

    def _end(self) -> None:
        """Close all that run at the end of most lives: by far most departures of a healthy group are such.

        Drawn apart from all else, so that a seed gives the same life before it.
        """
        apart = Random(self.name)
        silent = self.static or not all(FAMILIES[self.clients[one].family].goodbye for one in self.running)
        if silent or self.steady or not chance(apart, _ENDS_CLOSED):
            return
        within = apart.choice((0, 50, 1_000, 4_000))
        for client in list(self.running):
            self._step(Act.CLOSE, client)
            self._gone(client)
            self._wait(apart.uniform(0, 1) * within)
        self._wait(1.5 * self.timing.session)

    # Faults.

    def _fault(self) -> None:
        if not self.running:
            self._start(self.clients[-1])
            self._settle()
            return
        names = list(_FAULTS)
        _FAULTS[self.rng.choices(names, [_SHARES[name] for name in names])[0]](self)

    def kill(self) -> None:
        """Kill a process; it is not replaced for now."""
        client = self._victim()
        self._step(Act.KILL, client)
        plan = self._gone(client)
        self._wait(self.timing.session + 2 * self.timing.heartbeat)
        self._start(plan, instance=plan.instance)

    def replaced(self) -> None:
        """Kill a process, and start a new pod before its session ends, or after."""
        client = self._victim()
        self._step(Act.KILL, client)
        plan = self._gone(client)
        self._wait(self.rng.uniform(0.1, 1.2) * self.timing.session)
        if chance(self.rng, _SAME_POD):
            self._start(plan, client_id=plan.client_id, host=plan.host, instance=plan.instance)
        else:
            self._start(plan, instance=plan.instance)
        self._wait(1.2 * self.timing.session)

    def early_kill(self) -> None:
        """Kill a new pod before its first commit."""
        client = self._start(self.clients[-1])
        self._wait(self.timing.heartbeat * self.rng.uniform(0.2, 1.5) + self.rng.uniform(0, 4) * SECOND)
        self._step(Act.KILL, client)
        self._gone(client)
        self._wait(1.2 * self.timing.session)

    def stall(self) -> None:
        """Let an application process for longer than it may (or nearly so)."""
        client, poll = self._victim(), self.clients[0].poll
        long = chance(self.rng, _TOO_LONG)
        lasts = poll * (self.rng.uniform(1.05, 1.8) if long else self.rng.uniform(0.3, 0.95))
        self._step(Act.STALL, client, lasts)
        self._wait(lasts + (self.timing.session if self.static else 0))

    def close(self) -> None:
        """Close a process cleanly, and start a new pod later."""
        client = self._victim()
        self._step(Act.CLOSE, client)
        plan = self._gone(client)
        silent = self.static or not FAMILIES[plan.family].goodbye
        self._wait(self.timing.session * 1.2 if silent else self.rng.uniform(0.2, 20) * SECOND)
        self._start(plan, instance=plan.instance)

    def deaf(self) -> None:
        """Let a member that goes on with heartbeats miss a rebalance."""
        client, limit = self._victim(), max(plan.rebalance for plan in self.clients)
        if FAMILIES[self.clients[client].family].enforces_poll:
            # Such a client leaves before the deadline, a poll interval after its last poll.
            self.stall()
            return
        lasts = limit * self.rng.uniform(1.1, 1.5)
        self._step(Act.DEAF, client, lasts)
        self._wait(self.rng.uniform(0, 0.3) * limit)
        self._start(self.clients[client])
        self._wait(lasts)

    def cut(self) -> None:
        """Cut the network, for less or more than a session."""
        client = self._victim()
        lasts = self.timing.session * self.rng.choice((0.4, 1.3, 1.6, 2.5))
        self._step(self.rng.choice((Act.CUT, Act.CUT, Act.FREEZE)), client, lasts)
        self._wait(lasts)

    def rollout(self) -> None:
        """Replace every pod, one after the other."""
        surge = chance(self.rng, _SURGE)
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
        """Start new pods."""
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self._start(self.clients[0])
            self._wait(self.rng.uniform(0, 3) * SECOND)

    def scale_down(self) -> None:
        """Close some pods within seconds."""
        for _ in range(self.rng.randint(1, max(len(self.running) - 1, 1))):
            client = self._victim()
            self._step(Act.CLOSE, client)
            self._gone(client)
            self._wait(self.rng.uniform(0, 2) * SECOND)

    def crash_all(self) -> None:
        """Kill all processes of the group within moments."""
        for client in list(self.running):
            self._step(Act.KILL, client)
            self._gone(client)
            self._wait(self.rng.uniform(0, 300))
        self._wait(self.timing.session * 1.3)

    def shut_down(self) -> None:
        """Close all processes of the group within moments, and start them again later."""
        plans, apart = [], self.rng.choice((0, 50, 1_000, 4_000))
        for client in list(self.running):
            self._step(Act.CLOSE, client)
            plans.append(self._gone(client))
            self._wait(self.rng.uniform(0, 1) * apart)
        self._wait(self.timing.session * 1.3 + self.rng.uniform(0, 20) * SECOND)
        for plan in plans:
            self._start(plan, instance=plan.instance)

    def leak(self) -> None:
        """Replace a client within its process: the old one is neither polled nor closed."""
        client = self._victim()
        plan = self._gone(client)
        self._step(Act.STALL, client)
        self._wait(self.rng.uniform(0, 1) * SECOND)
        self._start(plan, client_id=plan.client_id, host=plan.host, instance=plan.instance)
        self._wait(1.3 * plan.poll)

    def busy(self) -> None:
        """Let one work on a batch that is long, but not too long, while another closes or dies."""
        if len(self.running) < _FEW - 1:
            self.close()
            return
        slow = self._victim()
        lasts = self.clients[slow].poll * self.rng.uniform(0.05, 0.9)
        self._step(Act.STALL, slow, lasts)
        began = self.at
        self._wait(self.rng.uniform(0, 0.7) * lasts)
        other = self.rng.choice([one for one in self.running if one != slow])
        self._step(Act.CLOSE if chance(self.rng, _CLOSES) else Act.KILL, other)
        plan = self._gone(other)
        self.at = max(self.at, began + lasts) + 1.2 * self.timing.session
        self._start(plan, instance=plan.instance)

    def two(self) -> None:
        """Let a crash meet a close or a stall."""
        if len(self.running) < _FEW:
            self.kill()
            return
        first = self._victim()
        self._step(Act.KILL, first)
        self._gone(first)
        self._wait(self.rng.uniform(0, 1.2) * self.timing.session)
        second = self._victim()
        if chance(self.rng, _CLOSES):
            self._step(Act.CLOSE, second)
            self._gone(second)
            self._wait(1.2 * self.timing.session)
        else:
            lasts = self.clients[0].poll * 1.3
            self._step(Act.STALL, second, lasts)
            self._wait(lasts)

    def removed(self) -> None:
        """Let an administrator remove a member, which runs or is long gone."""
        client = self._victim()
        if self.static and chance(self.rng, _CLOSED_BEFORE):
            self._step(Act.CLOSE, client)
            self._wait(self.rng.uniform(0.1, 0.8) * self.timing.session)
        self._step(Act.REMOVE, client)

    def unsynced(self) -> None:
        """Let a member join a generation and never sync."""
        client = self._victim()
        self._step(Act.UNSYNCED, client, self.clients[0].rebalance * 1.4)
        self._step(Act.REJOIN, self._victim())
        self._wait(self.clients[0].rebalance * 1.5)

    def metadata(self) -> None:
        """Let a member rejoin because its topics changed."""
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
    "shut_down": 5,
    "leak": 4,
    "busy": 8,
    "two": 5,
    "removed": 2,
    "unsynced": 0.3,
    "metadata": 1,
}
_FAULTS: dict[str, Callable[[Life], None]] = {name: getattr(Life, name) for name in _SHARES}
