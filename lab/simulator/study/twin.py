"""The plan that repeats a scenario of the lab: the same members, timers and steps, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.lab.cluster.properties import SESSION_TIMEOUT_848_MS
from rebalance_monitor.lab.simulator.plans.families import FAMILIES
from rebalance_monitor.lab.simulator.plans.plan import (
    Act,
    BrokerPlan,
    ClientPlan,
    GroupPlan,
    Mode,
    Plan,
    Step,
    Traffic,
)

if TYPE_CHECKING:
    from random import Random

    from rebalance_monitor.lab.simulator.study.recorded import Run

# The lab's family -> the simulator's, and the protocol of its groups.
_NAMES = {
    "confluent": ("librdkafka", "range"),
    "confluent-cooperative": ("librdkafka-cooperative", "cooperative-sticky"),
    "kafka-python": ("kafka-python", "range"),
    "aiokafka": ("aiokafka", "roundrobin"),
    "sarama": ("sarama", "range"),
    "franz-go": ("franz-go", "cooperative-sticky"),
    "kafka-go": ("kafka-go", "range"),
    "kafkajs": ("kafkajs", "RoundRobinAssigner"),
    "java-range": ("java", "range"),
    "java-sticky": ("java", "sticky"),
    "java-cooperative": ("java-cooperative", "cooperative-sticky"),
    "streams": ("streams", "stream"),
    "confluent-848": ("librdkafka-848", ""),
    "java-848": ("java-848", ""),
}
_ACTS = {
    "start": Act.START,
    "close": Act.CLOSE,
    "kill": Act.KILL,
    "freeze": Act.FREEZE,
    "stall": Act.STALL,
    "remove_members": Act.REMOVE,
    "move": Act.START,
    "cut_network": Act.CUT,
    "stall_network": Act.CUT,
}
# What ends another step: that step's length says when.
_ENDS = {"freeze": "thaw", "cut_network": "mend_network", "stall_network": "mend_network"}
_LEAK = "leak"
_SETTINGS = frozenset(
    ("session_ms", "poll_ms", "heartbeat_ms", "commit", "commit_ms", "processing_s", "fetch_ms", "mode")
)
_WAYS = {"manual": Mode.PER_POLL, "record": Mode.PER_RECORD, "timer": Mode.OWN_TIMER}
# Clients whose own timer is not that of their family: the lab has these commit by themselves, too.
_AUTO = {"kafka-go": Mode.BACKGROUND, "kafkajs": Mode.IN_POLL}
# The lab's workers wait in poll nearly all the time.
# From a process's start to its JoinGroup: least, most, and from the first of several to the last; ms.
_JVM_START, _PYTHON_START, _GO_START = (
    (2_300.0, 7_000.0, 1_500.0),
    (200.0, 2_400.0, 200.0),
    (50.0, 400.0, 60.0),
)
_ON_JVM = ("java", "streams")
_GO = frozenset({"sarama", "franz-go", "kafka-go"})
# Until so long (ms) after the start of a run at production timings, with three brokers, a group's record
# takes so long to be replicated. JVMs take the whole machine while they start, Go clients all join at once.
_STARTING_MS = 10_000.0
_JVM_STORED_MS, _GO_STORED_MS, _STORED_MS = 600.0, 20.0, 3.0
_GAP, _WORK, _BUSY = 150.0, 0.02, 0.98
_SECOND = 1_000.0


def twin(run: Run, rng: Random) -> Plan | None:
    """Make the plan; None for a scenario whose steps or family the simulator does not play."""
    if run.family not in _NAMES or not _playable(run):
        return None
    family, protocol = _NAMES[run.family]
    clients = [_client(run, family, number, name) for number, name in enumerate(run.members)]
    # A leaking process goes on with another client: from then on its number is that one's.
    numbers = {name: number for number, name in enumerate(run.members)}
    steps: list[Step] = []
    for raw in run.steps:
        if raw["verb"] == "command":
            steps += _leaked(raw, numbers, clients, rng)
        else:
            steps += _steps(raw, run, numbers, rng)
    closes = [Step(run.end + rng.random() * 190, Act.CLOSE, number) for number in numbers.values()]
    group = GroupPlan(
        f"{run.scenario}.{run.family}",
        tuple(clients),
        tuple(steps + closes),
        topics=tuple(run.topics),
        partitions=next(iter(run.topics.values())),
        protocol=protocol,
        traffic=Traffic(1 / run.every, even=True),
        modern=FAMILIES[family].keeps_id,
    )
    # The lab's broker has no initial rebalance delay: a group's first join phase waits for no further member.
    broker = BrokerPlan(
        initial_delay=0,
        session=SESSION_TIMEOUT_848_MS,
        busy=True,
        starting=(_STARTING_MS, _stored(run.family)) if run.many else (0.0, 1.0),
    )
    return Plan((group,), run.end + 3_000, broker)


def _stored(family: str) -> float:
    if family.startswith(_ON_JVM):
        return _JVM_STORED_MS
    return _GO_STORED_MS if family in _GO else _STORED_MS


def _playable(run: Run) -> bool:
    known = all(step["verb"] in {*_ACTS, *_ENDS.values()} or _leaks(step) for step in run.steps)
    odd = set(run.settings) - _SETTINGS
    named = all(set(step["who"]) <= {*run.members, "leader"} for step in run.steps)
    return known and named and not odd and len(set(run.topics.values())) == 1


def _leaks(raw: dict[str, Any]) -> bool:
    return bool(raw["verb"] == "command" and raw["options"].get("text") == _LEAK)


def _client(run: Run, family: str, number: int, name: str) -> ClientPlan:
    known, settings = FAMILIES[family], run.settings
    session, poll = int(settings.get("session_ms", run.session)), int(settings.get("poll_ms", run.poll))
    auto = known.auto or _AUTO.get(family, Mode.PER_POLL)
    # The lab's sarama clients wait for no longer than a tenth of their session.
    fetch = float(settings.get("fetch_ms", 0)) or 500.0
    batch = float(settings.get("processing_s", 0)) * _SECOND
    return ClientPlan(
        family=family,
        session=session,
        poll=poll,
        rebalance=session if family == "aiokafka" else poll,
        heartbeat=int(settings.get("heartbeat_ms", 1_000)),
        interval=int(settings.get("commit_ms", 1_000)),
        mode=_WAYS.get(str(settings.get("commit")), auto),
        gap=batch or _GAP,
        work=_BUSY if batch else _WORK,
        client_id=f"{run.scenario}-{name}",
        host=f"/127.0.0.{number + 1}",
        instance=f"{run.scenario}-{name}" if run.static else None,
        rejoins_in_poll=known.polls_to_rejoin,
        fetch=min(fetch, session / 10) if family == "sarama" else fetch,
    )


def _steps(raw: dict[str, Any], run: Run, numbers: dict[str, int], rng: Random) -> list[Step]:
    if raw["verb"] in _ENDS.values():
        return []
    at, act = float(raw["at"]) * 1000, _ACTS[raw["verb"]]
    if act is Act.STALL and run.settings.get("mode") == "deaf":
        act = Act.DEAF
    lasts = float(raw["options"].get("seconds", 0)) * 1000 or float("inf")
    if raw["verb"] in _ENDS:
        lasts = min((after - at for after in _ended(raw, run) if after > at), default=lasts)
    who = [rng.choice(run.members) if name == "leader" else name for name in raw["who"]]
    together = rng.random()
    return [Step(at + _late(act, run.family, together, rng), act, numbers[name], lasts) for name in who]


def _ended(raw: dict[str, Any], run: Run) -> list[float]:
    """Return when (ms) the effect of a step on one of its members was taken back."""
    ends = (step for step in run.steps if step["verb"] == _ENDS[raw["verb"]])
    return [float(step["at"]) * 1000 for step in ends if set(step["who"]) & set(raw["who"])]


def _leaked(
    raw: dict[str, Any], numbers: dict[str, int], clients: list[ClientPlan], rng: Random
) -> list[Step]:
    """Let a process go on with a new client: its old one is never polled again."""
    steps = []
    for name in raw["who"]:
        at = float(raw["at"]) * 1000 + rng.random() * 190
        old, numbers[name] = numbers[name], len(clients)
        clients.append(clients[old])
        steps += [Step(at, Act.STALL, old), Step(at + rng.random() * 50, Act.START, numbers[name])]
    return steps


def _late(act: Act, family: str, together: float, rng: Random) -> float:
    """Draw how long (ms) a step takes to reach a process.

    Processes that are started together share most of the delay; a signal needs none, a command waits for the
    end of the poll.
    """
    if act is Act.START:
        jvm = family.startswith(_ON_JVM)
        least, most, apart = _JVM_START if jvm else _GO_START if family in _GO else _PYTHON_START
        return least + together * (most - least) + rng.random() * apart
    return rng.random() * (5.0 if act in {Act.KILL, Act.FREEZE} else 190.0)
