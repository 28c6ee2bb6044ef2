"""Probe samples of a simulation, one every few seconds, and end offsets, as a live probe would take them."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.lab.simulator.plans.plan import Outage
from rebalance_monitor.lab.simulator.protocol.members import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.lab.simulator.engine import Simulation
    from rebalance_monitor.lab.simulator.protocol.coordinator import Coordinator
    from rebalance_monitor.lab.simulator.protocol.members import Member

    Seen = tuple[str, str, str, str]
    """Member id, instance id or "", client id, host."""

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


def ends(made: Simulation, group: str, at: float) -> dict[tuple[str, int], int]:
    """Give the end offsets of the topics of `group` at `at` (ms since 1970)."""
    plan = next(one for one in made.plan.groups if one.name == group)
    numbers = list(range(plan.partitions))
    places = [(topic, number) for topic in plan.topics for number in numbers]
    offsets = made.feeds[group].offsets([(topic, numbers) for topic in plan.topics], at - made.plan.epoch)
    return dict(zip(places, offsets, strict=True))


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
