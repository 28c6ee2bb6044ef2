from dataclasses import replace
from struct import pack

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.timeline import T0, Client, Topic, blob, findings, of, text


def connect_assignment(offset: int, delay: int = 0, *, revoked: bool = False) -> bytes:
    tasks = text("sink") + pack(">ii", 1, 0)
    head = pack(">hh", 1, 0) + text("w-1") + text("http://w1") + pack(">q", offset)
    gone = pack(">i", int(revoked)) + tasks * revoked
    return head + pack(">i", 1) + tasks + gone + pack(">i", delay)


def worker_generation(topic: Topic, at: int, generation: int, workers: list[str], given: bytes) -> None:
    value = pack(">h", 3) + text("connect") + pack(">i", generation) + text("compatible") + text(workers[0])
    value += pack(">qi", T0 + at - 20, len(workers))
    for worker in workers:
        value += text(worker) + text(None) + text("connect-1") + text("/10.0.0.1")
        value += pack(">ii", 60_000, 10_000) + blob(b"") + blob(given)
    topic.record(at, b"\0\2" + text(topic.group), value)


def last_causes(topic: Topic) -> set[Cause]:
    rebalance = [found for found in findings(topic) if found.kind is Kind.REBALANCE][-1]
    return {entry.cause for entry in rebalance.causes}


def test_a_config_offset_that_moved_is_a_reconfiguration() -> None:
    topic = Topic()
    worker_generation(topic, 0, 1, ["w-1", "w-2"], connect_assignment(5))
    worker_generation(topic, 90_000, 2, ["w-1", "w-2"], connect_assignment(9))
    assert last_causes(topic) == {Cause.CONNECT_RECONFIGURED}


def test_the_first_connector_of_a_cluster_is_a_reconfiguration() -> None:
    """Until then the config offset is -1."""
    topic = Topic()
    worker_generation(topic, 0, 1, ["w-1"], connect_assignment(-1))
    assert last_causes(topic) == {Cause.FIRST_START}
    worker_generation(topic, 4_000, 2, ["w-1"], connect_assignment(2))
    assert last_causes(topic) == {Cause.CONNECT_RECONFIGURED}


def test_the_session_key_that_a_new_worker_finds_is_no_reconfiguration() -> None:
    topic = Topic()
    worker_generation(topic, 0, 1, ["w-1"], connect_assignment(-1))
    worker_generation(topic, 4_000, 2, ["w-1", "w-2"], connect_assignment(0))
    assert last_causes(topic) == {Cause.MEMBER_JOINED}


def test_a_worker_that_rejoins_right_after_the_offset_moved_catches_up_with_it() -> None:
    topic = Topic()
    worker_generation(topic, 0, 1, ["w-1"], connect_assignment(4))
    worker_generation(topic, 9_000, 2, ["w-1", "w-2"], connect_assignment(9))
    assert last_causes(topic) == {Cause.CONNECT_RECONFIGURED, Cause.MEMBER_JOINED}
    worker_generation(topic, 10_000, 3, ["w-1", "w-2"], connect_assignment(9))
    assert last_causes(topic) == {Cause.CONNECT_RECONFIGURED}
    worker_generation(topic, 11_000, 4, ["w-1", "w-2"], connect_assignment(9))
    assert Cause.LEADER_REJOINED in last_causes(topic)


def test_the_end_of_a_scheduled_delay_is_recognised() -> None:
    topic = Topic()
    worker_generation(topic, 0, 1, ["w-1", "w-2"], connect_assignment(5, 300_000))
    worker_generation(topic, 300_500, 2, ["w-1", "w-2"], connect_assignment(5))
    assert last_causes(topic) == {Cause.CONNECT_DELAYED}


def test_a_delay_between_revocations_is_no_lost_worker() -> None:
    """Two workers are added, and what is revoked for them is spaced out: 0.2 s, then 4 s."""
    topic, three, four = Topic(), ["w-1", "w-2", "w-3"], ["w-1", "w-2", "w-3", "w-4"]
    worker_generation(topic, 0, 1, three[:2], connect_assignment(5))
    worker_generation(topic, 600_000, 2, three, connect_assignment(5, revoked=True))
    worker_generation(topic, 603_000, 3, four, connect_assignment(5, 200))
    assert last_causes(topic) == {Cause.MEMBER_JOINED}
    worker_generation(topic, 606_300, 4, four, connect_assignment(5, revoked=True))
    assert last_causes(topic) == {Cause.CONNECT_DELAYED}
    worker_generation(topic, 609_000, 5, four, connect_assignment(5, 4_000))
    assert last_causes(topic) == {Cause.COOPERATIVE_FOLLOW_UP}
    worker_generation(topic, 613_100, 6, four, connect_assignment(5))
    over = [found for found in findings(topic) if found.kind is Kind.REBALANCE][-1]
    assert over.causes[0].why == "the scheduled delay of 4 s is over"


def test_the_delay_after_a_lost_worker_says_so() -> None:
    topic = Topic()
    worker_generation(topic, 0, 1, ["w-1", "w-2"], connect_assignment(5))
    worker_generation(topic, 90_000, 2, ["w-1"], connect_assignment(5, 300_000))
    assert Cause.CONNECT_DELAYED in last_causes(topic)


def test_revoked_tasks_are_handed_on_in_a_follow_up() -> None:
    topic = Topic()
    worker_generation(topic, 0, 1, ["w-1", "w-2"], connect_assignment(5, revoked=True))
    worker_generation(topic, 2_000, 2, ["w-1", "w-2"], connect_assignment(5))
    assert last_causes(topic) == {Cause.COOPERATIVE_FOLLOW_UP}


def test_an_uneven_spread_is_opened_once_and_resolved() -> None:
    topic = Topic()
    uneven = [Client("a-1", (0, 1, 2, 3)), Client("b-1", (4,))]
    topic.generation(0, 1, uneven)
    topic.generation(60_000, 2, uneven)
    topic.generation(120_000, 3, [Client("a-1", (0, 1, 2)), Client("b-1", (3, 4))])
    opened, resolved = [found for found in findings(topic) if found.kind is Kind.ASSIGNMENT_SKEWED]
    assert opened.phase == "opened"
    assert (opened.details["most"], opened.details["least"], opened.details["idle"]) == (4, 1, 0)
    assert (resolved.phase, resolved.incident) == ("resolved", opened.id)


def test_partitions_withheld_by_a_cooperative_rebalance_are_no_skew() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0, 1, 2, 3))], protocol="cooperative-sticky")
    first_phase = [Client("a-1", (0, 1)), Client("b-1", ())]
    topic.generation(60_000, 2, first_phase, protocol="cooperative-sticky")
    assert not [found for found in findings(topic) if found.kind is Kind.ASSIGNMENT_SKEWED]


def test_connectors_that_are_deployed_one_after_the_other_are_no_storm() -> None:
    topic = Topic()
    for number in range(1, 13):
        worker_generation(topic, number * 10_000, number, ["w-1", "w-2"], connect_assignment(number))
    found = findings(topic)
    assert {one.causes[0].cause for one in of(found, Kind.REBALANCE)[1:]} == {Cause.CONNECT_RECONFIGURED}
    assert not of(found, Kind.STORM)


@pytest.mark.parametrize("apart", [5_000, 90_000, 290_000])
def test_partitions_that_are_handed_on_late_are_a_follow_up_all_the_same(apart: int) -> None:
    """A member gives up what was revoked within its rebalance timeout."""
    slow = [Client("a-1", (0, 1), rebalance=300_000), Client("b-1", (), rebalance=300_000)]
    topic = Topic()
    topic.generation(0, 1, [replace(slow[0], partitions=(0, 1, 2, 3))], protocol="cooperative-sticky")
    topic.generation(10_000, 2, slow, protocol="cooperative-sticky")
    after = [slow[0], replace(slow[1], partitions=(2, 3))]
    topic.generation(10_000 + apart, 3, after, protocol="cooperative-sticky")
    assert of(findings(topic), Kind.REBALANCE)[-1].causes[0].cause is Cause.COOPERATIVE_FOLLOW_UP


def test_how_long_consumption_stood_still_is_bounded_by_the_join_phase_and_unknown_without_traffic() -> None:
    idle, busy = Client("a-1", (0,), "rdkafka"), Client("b-1", (1,), "rdkafka")
    for moving, most in ((0, None), (5, 31_020)):
        topic = Topic()
        both = [replace(one, rebalance=30_000, session=6_000) for one in (idle, busy)]
        topic.generation(0, 1, both)
        for one in both if moving else ():
            topic.commits(1_000, 30_000, one, moving=moving)
        topic.commit(40_000, {0: 7})
        topic = topic.sorted()
        topic.generation(7_200_000, 2, both, sync=1_020)
        assert of(findings(topic), Kind.REBALANCE)[-1].stopped_ms_max == most


def test_a_worker_that_crashes_again_and_again_storms_though_configurations_move() -> None:
    topic = Topic()
    for number in range(1, 25):
        workers = ["w-1", f"w-2-{number}"] if number % 2 else ["w-1"]
        worker_generation(topic, number * 10_000, number, workers, connect_assignment(number))
    assert of(findings(topic), Kind.STORM)


def test_partitions_that_were_added_later_are_no_follow_up_of_a_group_that_had_all_there_were() -> None:
    both = [Client("a-1", (0, 1), rebalance=300_000), Client("b-1", (2, 3), rebalance=300_000)]
    topic = Topic()
    topic.generation(0, 1, both, protocol="cooperative-sticky")
    more = [both[0], replace(both[1], partitions=(2, 3, 4, 5))]
    topic.generation(240_000, 2, more, protocol="cooperative-sticky")
    causes = of(findings(topic), Kind.REBALANCE)[-1].causes
    assert Cause.COOPERATIVE_FOLLOW_UP not in {one.cause for one in causes}
