"""Groups too small for a rolling restart: who takes all the places, and deployments over many of these."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.rollup.rollup import RollUp
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.epochs import SETTINGS, A, B, Epochs
from tests.coordinator.support.timeline import T0, Client, Topic, findings, of

OLD, YOUNG = Client("old", (0, 1), host="/10.0.0.1"), Client("young", (0, 1), host="/10.0.0.2")
WORKED = 300_000
MINUTE = 60_000


def classic(*steps: tuple[int, list[Client]], left_at: int = WORKED, worked: int = WORKED) -> list[Finding]:
    """A member that commits until it goes at `left_at`, and these generations after it."""
    topic = Topic()
    topic.generation(left_at - worked, 1, [OLD])
    topic.commits(left_at - worked + 500, left_at - 500, OLD)
    for number, (at, members) in enumerate(steps, 2):
        topic.generation(at, number, members)
    return findings(topic.sorted())


def renewed(found: list[Finding]) -> list[Finding]:
    return [one for one in of(found, Kind.REBALANCE) if one.details.get("renewed")]


@pytest.mark.parametrize(
    "steps",
    [
        # The old one goes before the new one comes.
        [(WORKED, []), (WORKED + 20_000, [YOUNG])],
        # The new one comes before the old one goes.
        [(WORKED - 20_000, [OLD, replace(YOUNG, partitions=())]), (WORKED, [YOUNG])],
        # Both in one barrier.
        [(WORKED, [YOUNG])],
    ],
)
def test_a_lone_member_that_another_one_replaces_renews_its_group(
    steps: list[tuple[int, list[Client]]],
) -> None:
    found = classic(*steps)
    assert [one.generation for one in renewed(found)] == [1 + len(steps)]
    assert of(found, Kind.ROLLING_RESTART) == []


@pytest.mark.parametrize(
    ("steps", "worked"),
    [
        # A scheduled job that begins again an hour later.
        ([(WORKED, []), (WORKED + 3_600_000, [YOUNG])], WORKED),
        # One that had only just begun.
        ([(WORKED, []), (WORKED + 20_000, [YOUNG])], MINUTE),
        # Somebody stays.
        ([(WORKED - 2 * MINUTE, [OLD, YOUNG]), (WORKED, [YOUNG])], WORKED),
        # It went by a fault: silent for its session.
        ([(WORKED + 6_050, []), (WORKED + 20_000, [YOUNG])], WORKED),
        ([(WORKED - 20_000, [OLD, replace(YOUNG, partitions=())]), (WORKED + 6_050, [YOUNG])], WORKED),
    ],
)
def test_jobs_faults_and_members_that_stay_renew_nothing(
    steps: list[tuple[int, list[Client]]], worked: int
) -> None:
    assert renewed(classic(*steps, worked=worked)) == []


@pytest.mark.parametrize("ahead", [True, False])
def test_a_lone_member_of_an_epoch_based_group_renews_it_as_well(*, ahead: bool) -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    for at in range(1_000, WORKED, 1_000):
        topic.commit(at, {0: 100})
    if ahead:
        topic.join(WORKED - 20_000, B, 2, ())
        topic.leave(WORKED, A, 3)
        topic.target(WORKED, 3)
        topic.ack(WORKED + 100, B, 3, (0,))
    else:
        topic.leave(WORKED, A, 2)
        topic.join(WORKED + 20_000, B, 3, (0,))
    assert [one.generation for one in renewed(findings(topic.sorted(), SETTINGS))] == [3]


def test_lone_members_of_many_groups_that_are_replaced_at_once_are_one_deployment() -> None:
    (one,) = renewed(classic((WORKED, []), (WORKED + 20_000, [YOUNG])))
    rollup = RollUp(DetectionSettings(), "c1")
    batch = [replace(one, group=f"g{n}", id=f"{n:016x}", at=one.at + n * 1_000) for n in range(6)]
    assert rollup.on_batch(batch, [], T0 + WORKED + 30_000) == []
    (told,) = rollup.on_batch([], [], batch[-1].at + 61_000)
    assert (told.kind, told.scope, told.severity) == (Kind.ROLLING_RESTART, Scope.CLUSTER, Severity.INFO)
    assert told.groups == tuple(f"g{n}" for n in range(6))
