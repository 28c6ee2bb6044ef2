"""Rebalances among the same members: who asked for them, and where nobody can say."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.rollup.rollup import RollUp
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.timeline import T0, Client, Topic, findings

A, B = Client("a-1", (0,)), Client("b-1", (1,), host="/10.0.0.2")
SEEN = (RebalancingGroup("g", "PreparingRebalance", "classic", "consumer"),)


def told(number: int, *, listed: tuple[str, ...] = (), moved_at: int = 10**6) -> tuple[CauseEntry, ...]:
    """Generation `number` follows the first at 62 s, with the same members; looks saw its last 3 s."""
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(62_000, number, [A, B])
    live = Live(DetectionSettings(), "c1")
    members = {"g": tuple((name, "", "c", "/h") for name in listed)} if listed else {}
    for at in range(50_000, 64_000, 1_000):
        epoch, barrier = 1 + (at >= moved_at), 59_000 <= at < 62_000
        groups, who = (SEEN, members) if barrier else ((), {})
        live.on_samples([ProbeSample(T0 + at, groups, ((7, 1, epoch),), ((1, True),), who)])
    return [one for one in live.refine(findings(topic)) if one.kind is Kind.REBALANCE][-1].causes


def test_without_any_sign_of_others_a_member_asked() -> None:
    assert told(2)[0].cause is Cause.LEADER_REJOINED
    assert told(2, listed=("a-1", "b-1"))[0].confidence == 0.85


@pytest.mark.parametrize("number", [3, 5])
def test_members_that_came_and_left_in_failed_generations_are_unknown(number: int) -> None:
    found = told(number)
    assert [one.cause for one in found] == [Cause.UNKNOWN, Cause.LEADER_REJOINED]
    assert all(one.confidence < 0.6 for one in found)


@pytest.mark.parametrize("number", [2, 3])
def test_one_that_was_seen_and_that_no_record_has_came_and_went(number: int) -> None:
    found = told(number, listed=("a-1", "b-1", "c-1"))
    assert [one.cause for one in found] == [Cause.UNKNOWN, Cause.LEADER_REJOINED]
    assert all(one.confidence < 0.6 for one in found)


@pytest.mark.parametrize("number", [2, 3])
def test_a_move_of_the_coordinator_is_published_whatever_failed_on_the_way(number: int) -> None:
    assert (told(number, moved_at=58_000)[0].cause) is Cause.COORDINATOR_MOVED


@pytest.mark.parametrize(("number", "listed"), [(2, ()), (3, ()), (2, ("c-1",)), (3, ("c-1",))])
def test_groups_of_which_samples_saw_that_no_coordinator_moved_are_no_burst_of_moves(
    number: int, listed: tuple[str, ...]
) -> None:
    for moved_at, bursts in ((10**6, 0), (58_000, 1)):
        causes = told(number, listed=listed, moved_at=moved_at)
        topic = Topic()
        topic.generation(0, 1, [A, B])
        one = replace(findings(topic)[0], kind=Kind.REBALANCE, at=T0, causes=causes)
        rollup = RollUp(DetectionSettings(), "c1")
        rollup.on_batch([replace(one, group=f"g{n}", id=f"{n:016x}") for n in range(8)], [], T0)
        assert len(rollup.on_batch([], [], T0 + 4_000)) == bursts
