"""Many groups with one cause at once: the finding of all of them says what most of them say."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.rollup.rollup import RollUp
from tests.coordinator.rollup.test_rollup import SETTINGS, move, named, until_quiet
from tests.coordinator.support.timeline import T0, Client, Topic, findings


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


def test_a_burst_is_one_incident_until_nothing_was_published_for_the_quiet_time() -> None:
    def moves(at: int) -> tuple[int, list[Finding]]:
        return at, [move(f"g{n}", at) for n in range(6)]

    quiet = SETTINGS.storm_quiet_ms
    first, last, second = 1_000, 250_000, 250_000 + quiet
    found = until_quiet([moves(first), (5_000, []), moves(last), (last + 5_000, []), moves(second)])
    assert [(one.phase, one.at - T0) for one in found] == [
        ("opened", first),
        ("updated", last),
        ("resolved", last + quiet),
        ("opened", second),
        ("resolved", second + quiet),
    ]
    one, other = found[:3], found[3:]
    assert {told.incident for told in one} == {one[0].id} != {told.incident for told in other}
    assert len({told.id for told in found}) == len(found)
    assert (one[2].resolution, one[2].groups, one[2].opened_at) == ("quiet", one[1].groups, one[0].at)


def test_the_next_burst_of_a_kind_lists_the_groups_of_the_one_before_and_is_as_loud() -> None:
    def expired(name: str, count: int, at: int, severity: Severity) -> list[Finding]:
        every = named(Kind.SESSION_TIMEOUT, count, at)
        return [
            replace(one, id=f"{name}{n}", group=f"{name}{n}", at=T0 + at, severity=severity)
            for n, one in enumerate(every)
        ]

    loud = 1_000, expired("a", 20, 1_000, Severity.WARNING)
    quiet = 200_000, expired("b", 5, 200_000, Severity.INFO)
    again = 201_000, expired("a", 6, 201_000, Severity.INFO)
    found = until_quiet([loud, (6_000, []), quiet, again, (206_000, [])])
    groups = {f"a{n}" for n in range(20)} | {f"b{n}" for n in range(5)}
    assert [one.phase for one in found] == ["opened", "updated", "resolved"]
    for one in found[1:]:
        assert (set(one.groups), one.groups_total, one.severity) == (groups, 25, Severity.WARNING)
    # The second burst's own number stands beside that of both.
    assert "members of 11 groups" in found[1].causes[0].why
    assert found[1].causes[0].why.endswith("; 25 groups in all since the first of them")


def test_an_incident_is_not_over_before_its_burst_can_grow_no_more() -> None:
    rollup = RollUp(replace(SETTINGS, storm_quiet_ms=1), "c1")
    found = rollup.on_batch([move(f"g{n}", 0) for n in range(6)], [], T0)
    for at in (4_000, 8_000, 10_000):
        found += rollup.on_batch([move(f"h{at}", at)], [], T0 + at)
    found += rollup.on_batch([], [], T0 + 60_000)
    assert [one.phase for one in found] == ["opened", "updated", "updated", "resolved"]
    assert (found[2].groups_total, found[3].at) == (9, T0 + 10_000 + 10_000 + 3_000)


def test_a_burst_that_an_older_version_has_published_opens_its_incident_with_what_follows() -> None:
    memory = RollUp(SETTINGS, "c1")
    memory.on_batch([move(f"g{n}", 0) for n in range(6)], [], T0)
    memory.on_batch([], [], T0 + 4_000)
    older = memory.snapshot()
    del older["open"]
    older["bursts"][Kind.COORDINATOR_MOVED]["sequence"] = 1
    rollup = RollUp(SETTINGS, "c1", older)
    rollup.on_batch([move("h", 5_000)], [], T0 + 5_000)
    (told,) = rollup.on_batch([], [], T0 + 9_000)
    assert (told.phase, told.incident, told.groups_total) == ("opened", told.id, 7)


@pytest.mark.parametrize("kind", [Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED])
@pytest.mark.parametrize("severity", [Severity.INFO, Severity.WARNING])
def test_members_of_many_groups_that_go_at_once_are_one_finding_as_loud_as_the_loudest(
    kind: Kind, severity: Severity
) -> None:
    """Planned stops of Kafka Streams are information, however many at once."""
    gone = [replace(move(f"g{n}", 100 * n), kind=kind, severity=Severity.INFO) for n in range(6)]
    gone[3] = replace(gone[3], severity=severity)
    found = until_quiet([(1_000, gone)])[0]
    assert (found.kind, found.groups_total, found.severity) == (kind, 6, severity)
