"""Many groups with one cause at once: what is told of all of them is what most of them say."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import CauseEntry, Finding
from rebalance_monitor.coordinator.kinds import Kind, Severity
from rebalance_monitor.coordinator.rollup import RollUp
from tests.coordinator.test_rollup import SETTINGS, named
from tests.coordinator.timeline import T0, Client, Topic, findings


def told(*batches: tuple[int, list[Finding]]) -> list[Finding]:
    """What is rolled up of these batches, each at its time (ms)."""
    rollup = RollUp(SETTINGS, "c1")
    return [one for now, batch in batches for one in rollup.on_batch(batch, [], T0 + now)]


def restarted(count: int, expired: int) -> list[Finding]:
    """Rolling restarts of so many groups, of which the members of so many expired."""
    causes = [Cause.SESSION_TIMEOUT] * expired + [Cause.MEMBER_LEFT] * (count - expired)
    found = [replace(one, severity=Severity.INFO) for one in named(Kind.ROLLING_RESTART, count, 1_000)]
    return [
        replace(one, causes=(CauseEntry(cause, 0.8, "told"),))
        for one, cause in zip(found, causes, strict=True)
    ]


@pytest.mark.parametrize(
    ("expired", "cause", "severity"),
    [
        (6, Cause.SESSION_TIMEOUT, Severity.WARNING),
        (4, Cause.SESSION_TIMEOUT, Severity.WARNING),
        (3, Cause.MEMBER_LEFT, Severity.INFO),
    ],
)
def test_groups_of_which_most_members_expired_were_not_deployed(
    expired: int, cause: Cause, severity: Severity
) -> None:
    (found,) = told((6_000, restarted(6, expired)), (70_000, []))
    assert (found.causes[0].cause, found.severity) == (cause, severity)
    assert ("a deployment" in found.causes[0].why) is (cause is Cause.MEMBER_LEFT)


def test_groups_that_expired_before_the_window_decide_nothing() -> None:
    early = [replace(one, group=f"e{n}", id=f"e{n}") for n, one in enumerate(restarted(4, 4))]
    late = [replace(one, at=one.at + 310_000) for one in restarted(6, 0)]
    (found,) = told((5_000, early), (316_000, late), (380_000, []))
    assert (found.causes[0].cause, found.groups_total) == (Cause.MEMBER_LEFT, 6)


def test_groups_that_rebalance_among_the_same_members_on_and_on_are_one_move_at_most() -> None:
    """Leaders that rejoin every 4 s: the first time looks like a move, the others do not."""
    found: list[Finding] = []
    for number in range(6):
        topic = Topic(f"g{number}", number)
        members = [Client(f"a{number}", (0, 1)), Client(f"b{number}", (2, 3))]
        topic.generation(0, 1, members)
        for again in range(20):
            topic.generation(100_000 + 4_000 * again + 500 * number, 2 + again, members)
        found += findings(topic)
    found.sort(key=lambda one: one.at)
    batches = [
        (now, [one for one in found if now - 1_000 < one.at - T0 <= now]) for now in range(0, 250_000, 1_000)
    ]
    assert [one.at - T0 for one in told(*batches)] == [100_000]
