"""`replay` judges a departure with the ends that a capture has: whether records waited for the member."""

from __future__ import annotations

from itertools import groupby

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MEASURED, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.replay.replaying import Replay, Samples
from rebalance_monitor.engine.replay.timeline import Tick
from tests.coordinator.support.timeline import T0, Client, Topic

S, P = 45_000, 300_000
DIED, GONE = 120_000, 167_000


def died() -> Topic:
    """B commits what is new, after pauses of any length, and is gone a session and two seconds later."""
    one, other = (
        Client(f"rdkafka-{n}", (n,), "rdkafka", f"/10.0.0.{n}", session=S, rebalance=P) for n in range(2)
    )
    topic = Topic()
    topic.generation(0, 1, [one, other])
    for number, at in enumerate(range(5_000, GONE - 1_000, 5_000)):
        topic.commit(at, {0: 100 + number})
    for number, at in enumerate((5_000, 10_000, 35_000, 40_000, 70_000, 75_000, 115_000, DIED)):
        topic.commit(at, {1: 10 * number})
    topic = topic.sorted()
    topic.generation(GONE, 2, [one])
    return topic


def replayed(waits_from: int) -> Finding:
    """The rebalance; records wait for B from that time (ms) on, -1 for never."""
    rows = groupby(died().rows, key=lambda row: (row.record_ts // 1_000 + 1) * 1_000)
    ticks = [Tick(now, {7: list(found)}) for now, found in rows]
    samples = [
        EndsSample(
            T0 + at,
            T0 + at,
            {"orders": (1_000, 70 + (at - waits_from) // 1_000 if 0 <= waits_from <= at else 70)},
        )
        for at in range(0, GONE, 5_000)
    ]
    told = Replay(DetectionSettings(), "c1").run(iter(ticks), Samples(iter(())), Samples(iter(samples)))
    return next(one for one in told if one.kind is Kind.REBALANCE and one.previous_generation == 1)


def share(found: Finding) -> float:
    return max((one.confidence for one in found.causes if one.cause is Cause.SESSION_TIMEOUT), default=0.0)


def test_the_same_records_say_more_or_less_with_the_ends() -> None:
    waited, idle = replayed(DIED), replayed(-1)
    assert share(waited) >= DetectionSettings().attribution_confidence > share(idle)
    assert any("records waited for it" in one.why for one in waited.causes)
    assert MEASURED not in waited.details
