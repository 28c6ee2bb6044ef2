"""What a monitor sees of a simulation: rows, and samples of the probe and of the topics' ends."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from rebalance_monitor.cluster.ends.ends import DESCRIBE_S
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.engine.replay.timeline import Tick
from rebalance_monitor.lab.simulator.plans.plan import Outage
from rebalance_monitor.lab.simulator.protocol.members import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.lab.simulator.engine import Simulation
    from rebalance_monitor.lab.simulator.protocol.coordinator import Coordinator
    from rebalance_monitor.lab.simulator.protocol.members import Member

    Seen = tuple[str, str, str, str]
    """Member id, instance id or "", client id, host."""

TICK_MS, ENDS_MS = 1_000, 5_000
BROKER, FIRST_EPOCH = 1, 5
# A KRaft broker's restart steps the leader epoch by two.
_STEP = 2
_UNREST = frozenset({State.PREPARING, State.COMPLETING, State.RECONCILING})


def samples(made: Simulation, every: float = 2_500.0) -> Iterator[ProbeSample]:
    """Yield the samples of a probe, one in `every` ms: groups in a rebalance, their members, leaders."""
    views = [_View(group) for group in made.groups.values()]
    at, epoch = every, made.plan.epoch
    while at < made.plan.length:
        down, moves = _outages(made, at)
        seen = [] if down else [found for view in views if (found := view.list_group(at)) is not None]
        leaders = ((made.plan.shard, BROKER, FIRST_EPOCH + _STEP * moves),)
        yield ProbeSample(
            at=epoch + int(at),
            groups=tuple(group for group, _ in seen),
            leaders=() if down else leaders,
            brokers=((BROKER, not down),),
            members={group.group: members for group, members in seen if group.group_type == "classic"},
            failures={BROKER: "it did not answer in time"} if down else {},
        )
        at += every


def ticks(made: Simulation) -> Iterator[Tick]:
    """Yield the rows second by second, each when it has been written."""
    rows, place = made.rows, 0
    now, end = made.plan.epoch + TICK_MS, made.plan.epoch + int(made.plan.length)
    while now <= end:
        first = place
        while place < len(rows) and rows[place].record_ts < now:
            place += 1
        yield Tick(now, {made.plan.shard: rows[first:place]} if place > first else {})
        now += TICK_MS


def ends(made: Simulation, every: int = ENDS_MS, took: int = 20) -> Iterator[EndsSample]:
    """Yield samples of the ends of all topics, one in `every` ms; each `took` ms.

    As the monitor, they ask for the first offsets once in `DESCRIBE_S`.
    """
    times = range(every, int(np.ceil(made.plan.length)), every)
    at = np.array(times, float)
    columns = [
        (topic, found)
        for plan in made.plan.groups
        for found in [made.feeds[plan.name].over(at).tolist()]
        for topic in plan.topics
    ]
    begins = {topic: (0,) * len(rows[0]) for topic, rows in columns if rows}
    seldom = max(int(1_000 * DESCRIBE_S) // every, 1)
    for place, time in enumerate(times):
        now = made.plan.epoch + time
        latest = {topic: tuple(rows[place]) for topic, rows in columns}
        yield EndsSample(now - took, now, latest, {} if place % seldom else begins)


def _outages(made: Simulation, at: float) -> tuple[bool, int]:
    """Say whether the broker is away at `at`, and how often the leader has moved before."""
    outages = made.plan.broker.outages
    down = any(begins <= at < begins + lasts for begins, lasts, _ in outages)
    return down, sum(kind is Outage.MOVE and begins + lasts <= at for begins, lasts, kind in outages)


class _View:
    """The states of one group in order of time."""

    def __init__(self, group: Coordinator) -> None:
        self._group = group
        self._times = [at for at, _, _ in group.changes]

    def list_group(self, at: float) -> tuple[RebalancingGroup, tuple[Seen, ...]] | None:
        """Give the group as listed at `at`; None where it is in no rebalance."""
        place = bisect_right(self._times, at) - 1
        if place < 0:
            return None
        _, state, members = self._group.changes[place]
        if state not in _UNREST:
            return None
        plan = self._group.plan
        kind = "consumer" if plan.modern else "classic"
        return RebalancingGroup(plan.name, state.value, kind, plan.protocol_type), tuple(
            map(_identity, members)
        )


def _identity(member: Member) -> Seen:
    return (member.id, member.instance or "", *member.client.identity)
