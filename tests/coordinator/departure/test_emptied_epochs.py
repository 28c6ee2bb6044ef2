"""An epoch-based group that ends as a whole: its members are removed one by one, and judged together."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random

import pytest
from msgspec.structs import replace as changed

from rebalance_monitor.coordinator.departure.alone import alone
from rebalance_monitor.coordinator.departure.evidence import NO_WORK, Departed, Evidence, Trace
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.replay.replaying import Replay, Samples
from rebalance_monitor.lab.simulator import draw_plan, simulate
from rebalance_monitor.lab.simulator.plans.plan import Act, Plan
from rebalance_monitor.lab.simulator.samples import ends, samples, ticks

SURE, SELDOM_MS = 0.8, 30_000
SESSION_MS, BATCH_MS = 45_000, 60_000


def _closing() -> Iterator[tuple[int, Plan]]:
    """Yield plans of groups of several members, closed at the end, that commit as seldom as sessions end."""
    for seed in range(5_000_000, 5_010_000):
        plan = draw_plan(Random(seed), "healthy")  # noqa: S311 - a simulation
        (group,) = plan.groups
        several = sum(step.act is Act.CLOSE for step in group.steps) > 1
        seldom = group.clients[0].interval >= SELDOM_MS and group.traffic.per_second >= 1
        if group.modern and several and seldom and not plan.broker.outages:
            yield seed, plan


def _claims(seed: int, plan: Plan, act: Act) -> tuple[int, list[Cause]]:
    """Let all members end by `act`; return how many there were, and the causes that are claimed."""
    (group,) = plan.groups
    steps = tuple(replace(step, act=act) if step.act is Act.CLOSE else step for step in group.steps)
    ended = sum(step.act is act for step in steps)
    made = simulate(replace(plan, groups=(replace(group, steps=steps),), length=plan.length + 60_000), seed)
    replay = Replay(DetectionSettings(), "simulated")
    found = replay.run(ticks(made), Samples(samples(made)), Samples(ends(made)))
    empty = [one for one in found if one.kind is Kind.GROUP_EMPTY and one.phase == "opened"]
    return ended, [entry.cause for one in empty for entry in one.causes if entry.confidence >= SURE]


@pytest.mark.parametrize(
    ("act", "cause", "other"),
    [
        (Act.CLOSE, Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT),
        (Act.KILL, Cause.SESSION_TIMEOUT, Cause.MEMBER_LEFT),
    ],
)
def test_a_group_that_was_closed_did_not_expire_and_one_that_was_killed_did_not_leave(
    act: Act, cause: Cause, other: Cause
) -> None:
    found = [_claims(seed, plan, act) for seed, plan in islice(_closing(), 12)]
    ended, said = sum(count for count, _ in found), [one for _, claims in found for one in claims]
    assert ended > 3 * len(found)
    assert said.count(other) <= 0.05 * ended
    assert said.count(cause) >= 0.6 * ended


def _emptied(*silences: int, apart: int) -> Evidence:
    """Members of batches of a minute, removed `apart` ms after each other, so long after they committed."""
    departed = tuple(
        Departed(
            SESSION_MS,
            300_000,
            2_000_000,
            Trace(silence, tuple(BATCH_MS + step for step in range(-8_000, 8_000, 2_000)), commits=30),
            "java-848",
            rearms=False,
            heard=silence,
        )
        for silence in silences
    )
    ages = tuple(apart * place for place in reversed(range(len(departed))))
    return Evidence(2_000_000, 0, departed, (), 0, 0, 300_000, SESSION_MS, phase=(0, 500), apart=ages)


def test_who_cannot_have_expired_speaks_for_those_that_went_with_it() -> None:
    silences = (64_000, 12_000, 30_000, 50_000, 8_000)
    lonely = alone(_emptied(64_000, apart=0)).ways[0]
    assert max(alone(_emptied(*silences, apart=10)).ways[0]) > SURE > lonely[Way.LEFT]
    assert all(ways[Way.LEFT] > SURE for ways in alone(_emptied(*silences, apart=10)).ways)


def test_who_departed_long_before_is_judged_by_itself() -> None:
    silences = (64_000, 12_000, 30_000, 50_000, 8_000)
    long_before = alone(_emptied(*silences, apart=60_000)).ways[0]
    assert long_before == pytest.approx(alone(_emptied(64_000, 8_000, apart=240_000)).ways[0])
    assert long_before[Way.LEFT] < SURE


def test_one_that_has_just_acknowledged_an_epoch_may_have_had_nothing_to_commit_for_long() -> None:
    evidence = _emptied(82_000, 24_000, apart=500)
    quiet, other = (changed(one, rebalance=30_000, work=NO_WORK) for one in evidence.departed)
    acknowledged = changed(quiet, since=2_800, heard=2_800)
    ways = alone(changed(evidence, departed=(acknowledged, other))).ways[0]
    assert ways[Way.LEFT] > SURE > ways[Way.STALLED]
