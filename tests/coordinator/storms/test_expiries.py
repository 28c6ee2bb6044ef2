"""Who expires again and again: one process, though others share its client id and host."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.state.group_state import Member, StormState
from rebalance_monitor.coordinator.storms.crash_loops import is_fault, since
from tests.coordinator.support.timeline import Client, Topic, findings, of

SESSION = 10_000


def restarted(count: int, *, shared: bool) -> list[Finding]:
    """Processes on one host are killed one after the other, and back as their old members expire."""
    ids = [f"rdkafka-{number}" for number in range(count)]
    members = [
        Client(f"{one}-0", (index,), "rdkafka" if shared else one, session=SESSION, rebalance=300_000)
        for index, one in enumerate(ids)
    ]
    topic, now = Topic(), 0
    topic.generation(0, 1, members)
    for number in range(count):
        killed = now + 17_000
        for index, one in enumerate(members):
            end = killed if index == number else killed + SESSION - 1_500
            topic.commits(now + 500 + index * 30, end, one, moving=3)
        now = killed + SESSION + 50
        members[number] = replace(members[number], member_id=f"{ids[number]}-1")
        topic.generation(now, number + 2, members)
    return findings(topic.sorted(), until=2_000)


@pytest.mark.parametrize("shared", [False, True])
def test_processes_that_share_a_client_id_and_are_each_killed_once_are_a_rolling_restart(
    *, shared: bool
) -> None:
    found = restarted(8, shared=shared)
    assert not of(found, Kind.STORM)
    (told,) = of(found, Kind.ROLLING_RESTART)
    assert told.causes[0].cause is Cause.SESSION_TIMEOUT


def expire(storm: StormState, name: str, joined: int, at: int, host: str = "/10.0.0.1") -> bool:
    told = ("rdkafka", host, False, SESSION, 300_000, "librdkafka", 1, "", joined)
    member = Member(name, None, *told)
    return is_fault(storm, [member], [CauseEntry(Cause.SESSION_TIMEOUT, 0.9, "", name)], at)


def test_one_that_expires_each_time_it_is_back_is_to_blame_from_the_third_time_on() -> None:
    storm = StormState()
    told = [expire(storm, f"m-{number}", number * 60_000, (number + 1) * 60_000) for number in range(4)]
    assert told == [False, False, True, True]


def test_one_that_is_created_anew_on_another_host_each_time_is_to_blame_as_well() -> None:
    storm = StormState()
    told = [
        expire(storm, f"m-{number}", number * 60_000, (number + 1) * 60_000, f"/10.0.0.{number}")
        for number in range(4)
    ]
    assert told == [False, False, True, True]


def test_pods_that_share_a_client_id_and_are_each_killed_twice_are_as_many_processes() -> None:
    storm = StormState()
    for rollout in range(2):
        for pod in range(6):
            at = 600_000 * (rollout + 1) + 20_000 * pod
            joined = 0 if rollout == 0 else 600_000 + 20_000 * pod + 5_000
            assert not expire(storm, f"m-{rollout}-{pod}", joined, at, f"/10.0.{rollout}.{pod}")
    assert since(storm, 0) == 6


def test_a_member_is_distinguished_from_others_of_its_client_id_that_expire_between() -> None:
    storm = StormState()
    assert not expire(storm, "old-1", 0, 500_000)
    assert not expire(storm, "loop-1", 1_000, 600_000)
    assert not expire(storm, "loop-2", 600_000, 660_000)
    assert not expire(storm, "old-2", 2_000, 670_000)
    assert expire(storm, "loop-3", 660_000, 720_000)
    assert since(storm, 0) == 3


def test_members_that_expire_together_are_as_many_processes() -> None:
    storm = StormState()
    assert not any(expire(storm, f"m-{number}", 0, 60_000) for number in range(5))
    assert since(storm, 0) == 5
