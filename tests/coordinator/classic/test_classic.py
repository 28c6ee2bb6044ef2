"""Generations of a classic group: each is a rebalance that names its causes, and the members behind them."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.storms.static_takeovers import WINDOW_MS
from tests.coordinator.support.classic import BOTH, A, B, causes, two_members
from tests.coordinator.support.timeline import Client, P, S, Topic, findings, of


def test_the_first_generation_is_a_first_start() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    (found,) = findings(topic)
    assert found.kind is Kind.REBALANCE
    assert causes(found) == {Cause.FIRST_START}
    assert (found.generation, found.sync_ms, found.leader) == (1, 20, "a-1")


@pytest.mark.parametrize("late", [0, 100, 900, 1_900])
def test_a_killed_member_is_a_session_timeout_and_named(late: int) -> None:
    topic = two_members(30_700)
    topic.generation(30_700 + S + late + 20, 2, [BOTH])
    found = findings(topic.sorted())
    (named,) = of(found, Kind.SESSION_TIMEOUT)
    assert named.members[0].member_id == "b-1"
    assert named.details["silence_ms"] == S + late
    assert named.details["rebalance"] == of(found, Kind.REBALANCE)[1].id
    assert not of(found, Kind.POLL_INTERVAL_EXCEEDED)


@pytest.mark.parametrize(("late", "claimed"), [(400, False), (1_000, True), (1_700, True)])
def test_a_stalled_member_is_a_poll_breach_even_where_both_timeouts_are_close(
    late: int, *, claimed: bool
) -> None:
    """A session that began a heartbeat later, and a join phase, reach as far as the first of them."""
    topic = two_members(30_700)
    topic.commit(30_700 + P + late - 5, dict.fromkeys(A.partitions, 100))  # as it rejoins
    topic.generation(30_700 + P + late + 20, 2, [BOTH])
    found = findings(topic.sorted())
    told = of(found, Kind.REBALANCE)[1].causes[0]
    assert (told.cause, told.member_id) == (Cause.POLL_INTERVAL_EXCEEDED, "b-1")
    assert [one.members[0].member_id for one in of(found, Kind.POLL_INTERVAL_EXCEEDED)] == ["b-1"] * claimed
    assert not of(found, Kind.SESSION_TIMEOUT)


@pytest.mark.parametrize("timeout", [-(2**31), -1, 0, 1, 2**31 - 1])
@pytest.mark.parametrize("gone", [1, 2])
def test_a_member_whose_record_has_a_senseless_timeout_departs_for_causes_too(
    timeout: int, gone: int
) -> None:
    clients = [
        Client(f"{n}-1", (n,), f"consumer-{n}", f"/10.0.0.{n}", session=timeout, rebalance=timeout)
        for n in range(4)
    ]
    topic = Topic()
    topic.generation(0, 1, clients)
    for client in clients:
        topic.commits(500, 10_500, client, moving=1)
    topic = topic.sorted()
    topic.generation(17_000, 2, clients[gone:])
    last = of(findings(topic), Kind.REBALANCE)[-1]
    assert {entry.member_id for entry in last.causes if entry.member_id} >= {"0-1"}
    assert all(0 <= entry.confidence <= 1 for entry in last.causes)


def test_a_goodbye_is_no_timeout() -> None:
    topic = two_members(30_700)
    topic.generation(30_700 + 600, 2, [BOTH])
    found = findings(topic.sorted())
    assert of(found, Kind.REBALANCE)[1].causes[0].cause is Cause.MEMBER_LEFT
    assert not of(found, Kind.SESSION_TIMEOUT)


def test_silence_of_a_member_that_never_commits_when_idle_and_has_no_traffic_is_not_a_timeout() -> None:
    quiet = Client("q-1", (2, 3), "rdkafka", "/10.0.0.2")
    topic = Topic()
    topic.generation(0, 1, [A, quiet])
    topic.commit(1_000, {2: 5})
    topic.generation(1_000 + S + 500, 2, [BOTH])
    found = findings(topic.sorted())
    assert not of(found, Kind.SESSION_TIMEOUT)
    assert not of(found, Kind.POLL_INTERVAL_EXCEEDED)


def test_of_a_member_that_never_committed_nothing_is_claimed() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, Client("n-1", (2, 3), "billing")])
    topic.generation(60_000, 2, [BOTH])
    rebalance = of(findings(topic), Kind.REBALANCE)[1]
    assert {Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT} <= causes(rebalance)
    assert all(entry.confidence < CLAIMED for entry in rebalance.causes)


def test_a_new_member_joined() -> None:
    topic = Topic()
    topic.generation(0, 1, [BOTH])
    topic.generation(60_000, 2, [A, B])
    rebalance = of(findings(topic), Kind.REBALANCE)[1]
    assert causes(rebalance) == {Cause.MEMBER_JOINED}
    assert [(m.member_id, m.role) for m in rebalance.members] == [("b-1", "joined"), ("a-1", "kept")]


def test_a_static_member_that_comes_back_in_the_same_generation_is_no_rebalance() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("s-old", (0,), instance_id="s")])
    topic.generation(60_000, 1, [Client("s-new", (0,), instance_id="s")], sync=59_000)
    found = findings(topic)
    assert len(of(found, Kind.REBALANCE)) == 1
    (replaced,) = of(found, Kind.STATIC_MEMBER_REPLACED)
    assert replaced.details == {
        "instance_id": "s",
        "previous_member_id": "s-old",
        "times": 1,
        "window_ms": WINDOW_MS,
    }
    assert replaced.members[0].host_is_stale


def test_a_static_member_that_stays_away_expired() -> None:
    static = Client("s-1", (2, 3), instance_id="s")
    topic = Topic()
    topic.generation(0, 1, [A, static])
    topic.commits(500, 60_000, A)
    topic.commits(700, 30_700, static)
    topic.generation(30_700 + S + 800, 2, [BOTH])
    found = findings(topic.sorted())
    assert Cause.STATIC_MEMBER_EXPIRED in causes(of(found, Kind.REBALANCE)[1])
    assert of(found, Kind.SESSION_TIMEOUT)[0].members[0].instance_id == "s"


def test_the_second_phase_of_a_cooperative_rebalance_is_a_follow_up() -> None:
    topic = Topic()
    topic.generation(0, 1, [BOTH], protocol="cooperative-sticky")
    topic.generation(60_000, 2, [A, Client("b-1", ())], protocol="cooperative-sticky")
    topic.generation(61_000, 3, [A, B], protocol="cooperative-sticky")
    last = of(findings(topic), Kind.REBALANCE)[-1]
    assert causes(last) == {Cause.COOPERATIVE_FOLLOW_UP}


def test_more_partitions_and_another_subscription_are_causes() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0, 1))])
    topic.generation(60_000, 2, [Client("a-1", (0, 1, 2))])
    topic.generation(120_000, 3, [Client("a-1", (0, 1, 2), topics=("orders", "bills"))])
    _, grown, changed = of(findings(topic), Kind.REBALANCE)
    assert causes(grown) == {Cause.PARTITIONS_CHANGED}
    assert causes(changed) == {Cause.SUBSCRIPTION_CHANGED}


def test_the_sentence_about_a_topic_that_grew_from_one_partition_is_singular() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(60_000, 2, [Client("a-1", (0, 1, 2))])
    assert of(findings(topic), Kind.REBALANCE)[-1].causes[0].why == "orders: 1 partition became 3"


def test_the_same_members_again_is_never_a_confident_claim() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 2, [A, B])
    rebalance = of(findings(topic), Kind.REBALANCE)[1]
    assert max(entry.confidence for entry in rebalance.causes) < 0.6


def test_members_that_lost_their_generation_hint_at_a_coordinator_that_was_reloaded() -> None:
    topic = Topic()
    topic.generation(0, 1, [replace(A, believes=-1), replace(B, believes=-1)])
    topic.generation(60_000, 2, [replace(A, believes=1), replace(B, believes=1)])
    topic.generation(120_000, 3, [replace(A, believes=-1), replace(B, believes=-1)])
    first, asked, reloaded = of(findings(topic), Kind.REBALANCE)
    assert first.causes[0].cause is Cause.FIRST_START
    assert asked.causes[0].cause is Cause.LEADER_REJOINED
    assert (reloaded.causes[0].cause, reloaded.causes[0].confidence) == (Cause.COORDINATOR_MOVED, 0.55)
    assert "2 members rejoined without" in reloaded.causes[0].why


def test_another_assignor_is_a_cause_that_names_both() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 2, [A, B], protocol="roundrobin")
    (cause,) = of(findings(topic), Kind.REBALANCE)[1].causes
    assert (cause.cause, cause.why) == (Cause.PROTOCOL_CHANGED, "assignor range became roundrobin")


def test_commits_to_an_empty_group_are_an_offset_reset() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.generation(10_000, 2, [])
    topic.commit(60_000, {0: 0, 1: 0})
    topic.generation(90_000, 3, [A])
    assert causes(of(findings(topic), Kind.REBALANCE)[1]) == {Cause.FIRST_START, Cause.OFFSETS_RESET}


def test_a_member_that_is_back_at_once_may_have_been_removed_by_an_administrator() -> None:
    topic = two_members(30_000)
    topic.generation(30_300, 2, [BOTH, Client("b-2", (2, 3), B.client_id, B.host)])
    found = of(findings(topic.sorted()), Kind.REBALANCE)[1]
    assert {Cause.MEMBER_LEFT, Cause.MEMBER_REMOVED_BY_ADMIN} <= causes(found)
