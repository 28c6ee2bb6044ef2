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
}
# The lab produces a record to each partition every 250 ms; its workers wait in poll nearly all the time.
# From a process's start to its JoinGroup: least, most, and from the first of several to the last; ms.
_JVM_START, _PYTHON_START = (2_300.0, 7_000.0, 1_500.0), (200.0, 2_400.0, 200.0)
_PER_SECOND, _GAP, _WORK = 4.0, 150.0, 0.02


def twin(run: Run, rng: Random) -> Plan | None:
    """Make the plan; None for a scenario whose steps or family the simulator does not play."""
    if run.family not in _NAMES or not _playable(run):
        return None
    family, protocol = _NAMES[run.family]
    clients = {name: _client(run, family, number, name) for number, name in enumerate(run.members)}
    numbers = {name: number for number, name in enumerate(run.members)}
    steps = [step for raw in run.steps for step in _steps(raw, run, numbers, rng)]
    closes = [Step(run.end + rng.random() * 190, Act.CLOSE, number) for number in numbers.values()]
    group = GroupPlan(
        f"{run.scenario}.{run.family}",
        tuple(clients.values()),
        tuple(steps + closes),
        topics=tuple(run.topics),
        partitions=next(iter(run.topics.values())),
        protocol=protocol,
        traffic=Traffic(_PER_SECOND),
        modern=FAMILIES[family].keeps_id,
    )
    # The lab's broker has no initial rebalance delay: a group's first join phase waits for no further member.
    return Plan((group,), run.end + 3_000, BrokerPlan(initial_delay=0, session=SESSION_TIMEOUT_848_MS))


def _playable(run: Run) -> bool:
    known = all(step["verb"] in _ACTS or step["verb"] == "thaw" for step in run.steps)
    odd = set(run.settings) - {"session_ms", "poll_ms", "heartbeat_ms", "commit", "commit_ms"}
    named = all(set(step["who"]) <= {*run.members, "leader"} for step in run.steps)
    return known and named and not odd and len(set(run.topics.values())) == 1


def _client(run: Run, family: str, number: int, name: str) -> ClientPlan:
    known, settings = FAMILIES[family], run.settings
    session, poll = int(settings.get("session_ms", run.session)), int(settings.get("poll_ms", run.poll))
    auto = known.auto or Mode.PER_POLL
    return ClientPlan(
        family=family,
        session=session,
        poll=poll,
        rebalance=session if family == "aiokafka" else poll,
        heartbeat=int(settings.get("heartbeat_ms", 1_000)),
        interval=int(settings.get("commit_ms", 1_000)),
        mode=Mode.PER_POLL if settings.get("commit") == "manual" else auto,
        gap=_GAP,
        work=_WORK,
        client_id=f"{run.scenario}-{name}",
        host=f"/127.0.0.{number + 1}",
        instance=f"{run.scenario}-{name}" if run.static else None,
        rejoins_in_poll=known.polls_to_rejoin,
    )


def _steps(raw: dict[str, Any], run: Run, numbers: dict[str, int], rng: Random) -> list[Step]:
    if raw["verb"] == "thaw":
        return []
    at, act = float(raw["at"]) * 1000, _ACTS[raw["verb"]]
    lasts = float(raw["options"].get("seconds", 0)) * 1000 or float("inf")
    if act is Act.FREEZE:
        lasts = min((float(s["at"]) * 1000 - at for s in run.steps if s["verb"] == "thaw"), default=lasts)
    who = [rng.choice(run.members) if name == "leader" else name for name in raw["who"]]
    together = rng.random()
    return [Step(at + _late(act, run.family, together, rng), act, numbers[name], lasts) for name in who]


def _late(act: Act, family: str, together: float, rng: Random) -> float:
    """Draw how long (ms) a step takes to reach a process.

    Processes that are started together share most of the delay; a signal needs none, a command waits for the
    end of the poll.
    """
    if act is Act.START:
        least, most, apart = _JVM_START if family.startswith(("java", "streams")) else _PYTHON_START
        return least + together * (most - least) + rng.random() * apart
    return rng.random() * (5.0 if act in {Act.KILL, Act.FREEZE} else 190.0)
