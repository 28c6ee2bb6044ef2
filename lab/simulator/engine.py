"""Runs a plan: groups, clients and one broker on one timeline. Records and truth come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.plans.plan import Act, Outage
from rebalance_monitor.lab.simulator.protocol.client import Client
from rebalance_monitor.lab.simulator.protocol.feed import Feed
from rebalance_monitor.lab.simulator.protocol.group import Group
from rebalance_monitor.lab.simulator.protocol.log import Log
from rebalance_monitor.lab.simulator.protocol.modern import ModernGroup
from rebalance_monitor.lab.simulator.protocol.timeline import Timeline
from rebalance_monitor.lab.simulator.truth import Truth

if TYPE_CHECKING:
    from rebalance_monitor.decoders.rows import Row
    from rebalance_monitor.lab.simulator.plans.plan import GroupPlan, Plan, Step
    from rebalance_monitor.lab.simulator.protocol.coordinator import Coordinator


@dataclass(frozen=True, slots=True)
class Simulation:
    """`rows`: the shard's rows in offset order; `truth`: what happened; `groups` by name, for samples."""

    plan: Plan
    rows: list[Row]
    truth: Truth
    groups: dict[str, Coordinator] = field(repr=False)
    feeds: dict[str, Feed] = field(repr=False)


def simulate(plan: Plan, seed: int) -> Simulation:
    """Run `plan`. The same plan and seed give the same simulation."""
    healthy = (one.name for one in plan.groups if all(step.act is Act.START for step in one.steps))
    rng, line, truth = Random(seed), Timeline(), Truth(healthy=frozenset(healthy))
    log = Log(plan.epoch, plan.shard)
    groups: dict[str, Coordinator] = {}
    feeds: dict[str, Feed] = {}
    for one in plan.groups:
        made = ModernGroup if one.modern else Group
        group: Coordinator = made(one, plan.broker, line, rng, log, truth)
        groups[one.name] = group
        feeds[one.name] = feed = Feed(one, plan.length, rng)
        _Cast(one, group, feed, log, rng)
    for begins, lasts, kind in plan.broker.outages:
        for shaken in groups.values() if kind is not Outage.UNSEEN else ():
            line.at(begins, shaken.pause, begins + lasts)
            line.at(begins + lasts, shaken.resume if kind is Outage.PAUSE else shaken.load)
    line.run(plan.length)
    for group in groups.values():
        for member in group.members.values():
            member.client.flush(plan.length)
    return Simulation(plan, log.rows(), truth, groups, feeds)


class _Cast:
    """The processes of one group, by number: a START makes a new one."""

    def __init__(self, plan: GroupPlan, group: Coordinator, feed: Feed, log: Log, rng: Random) -> None:
        self._plan, self._group, self._feed, self._log, self._rng = plan, group, feed, log, rng
        self._running: dict[int, Client] = {}
        for step in plan.steps:
            group.line.at(step.at, self._do, step)

    def _do(self, step: Step) -> None:
        if step.act is Act.START:
            plan = self._plan.clients[step.client]
            made = Client(plan, step.client, self._group, self._feed, self._log, self._rng)
            self._running[step.client] = made
        client = self._running.get(step.client)
        if client is not None:
            client.begin(step.act, step.lasts)
