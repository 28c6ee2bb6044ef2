"""Groups that become empty again and again: jobs that are started, do their work and stop."""

import pytest

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.timeline import Client, Topic, findings


def of(found: list[Finding], *kinds: Kind) -> list[Finding]:
    return [one for one in found if one.kind in kinds and one.phase != "resolved"]


def job(*, runs: int, every: int, members: int = 1, pods: bool) -> Topic:
    """A job that runs `every` so many ms; its members commit, and leave one after the other."""
    topic, number = Topic(), 1
    for run in range(runs):
        at = run * every
        names = [
            Client(f"m{place}-{run}", (place,), host=f"/10.0.{run * pods}.{place}", session=45_000)
            for place in range(members)
        ]
        topic.generation(at, number, names)
        for place, one in enumerate(names):
            end = at + every * 3 // 4 + place * 2_000
            topic.commits(at + 500 + place, end - 1_000, one, every=5_000, moving=5)
            topic.commit(end - 3, {place: 10_000})
            topic.generation(end, number + 1 + place, names[place + 1 :])
        number += 1 + members
    return topic.sorted()


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize(("every", "pods"), [(120_000, False), (60_000, True), (60_000, False)])
def test_a_job_that_runs_again_and_again_and_says_goodbye_is_neither_a_storm_nor_a_restart(
    members: int, every: int, *, pods: bool
) -> None:
    found = findings(job(runs=10, every=every, members=members, pods=pods), until=400_000)
    assert len(of(found, Kind.GROUP_EMPTY)) == 10
    assert not of(found, Kind.STORM, Kind.ROLLING_RESTART)


def test_a_group_that_was_empty_meanwhile_was_not_restarted_member_by_member() -> None:
    first = [Client(f"m{place}-0", (place,), f"c{place}") for place in range(2)]
    again = [Client(f"m{place}-1", (place,), f"c{place}") for place in range(2)]
    for empty in (True, False):
        topic = Topic()
        topic.generation(0, 1, first)
        topic.generation(60_000, 2, first[1:])
        topic.generation(62_000, 3, [] if empty else [first[1], again[0]])
        topic.generation(64_000, 4, again[:1])
        topic.generation(66_000, 5, again)
        assert bool(of(findings(topic), Kind.ROLLING_RESTART)) is not empty


@pytest.mark.parametrize("members", [1, 2])
def test_an_application_that_ends_as_soon_as_it_has_begun_on_and_on_is_a_storm(members: int) -> None:
    """It says goodbye each time, as a client does that is closed on the way out."""
    assert len(of(findings(job(runs=12, every=12_000, members=members, pods=False)), Kind.STORM)) >= 1


def test_a_group_that_was_stopped_early_twice_and_is_restarted_later_was_restarted() -> None:
    topic, number, at = Topic(), 0, 0
    names = [Client(f"m{place}-0", (place,), f"c{place}") for place in range(6)]
    for _ in range(2):
        topic.generation(at, number + 1, names)
        for gone in range(1, 7):
            topic.generation(at + 15_000 + 500 * gone, number + 1 + gone, names[gone:])
        number, at = number + 7, at + 28_000
    topic.generation(at, number + 1, names)
    for place in range(6):
        for run, rest in ((0, names[:place] + names[place + 1 :]), (1, names)):
            names[place] = Client(f"m{place}-{1 + run}", (place,), f"c{place}")
            at += 10_000
            topic.generation(at, number + 2 + 2 * place + run, rest if run == 0 else names)
    found = findings(topic)
    assert not of(found, Kind.STORM)
    assert of(found, Kind.ROLLING_RESTART)


def test_a_check_that_joins_for_two_seconds_every_twenty_is_a_job() -> None:
    topic = Topic()
    for run in range(30):
        one = Client(f"check-{run}", (0,), "health")
        topic.generation(run * 20_000, 2 * run + 1, [one])
        topic.commit(run * 20_000 + 1_990, {0: 5})
        topic.generation(run * 20_000 + 2_000, 2 * run + 2, [])
    assert not of(findings(topic), Kind.STORM)


@pytest.mark.parametrize(
    ("session", "work", "idle"), [(10_000, 20_000, 25_000), (30_000, 15_000, 35_000), (45_000, 5_000, 50_000)]
)
def test_a_job_that_waits_for_more_work_for_longer_than_its_session_is_no_storm_either(
    session: int, work: int, idle: int
) -> None:
    """Its end may as well have been an expiry, which is a guess; it is no fault that was published."""
    topic = Topic()
    for run in range(12):
        at = run * 60_000
        one = Client(f"rdkafka-{run}", (0,), "rdkafka", session=session, rebalance=300_000)
        topic.generation(at, 2 * run + 1, [one])
        for number, commit in enumerate(range(at + 1_000, at + work, 1_000)):
            topic.commit(commit, {0: 1_000 * run + number})
        topic.generation(at + work + idle, 2 * run + 2, [])
    found = findings(topic, until=400_000)
    assert len(of(found, Kind.GROUP_EMPTY)) == 12
    assert not of(found, Kind.STORM)
