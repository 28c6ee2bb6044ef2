"""A barrier that stays shut after all that stayed have rejoined waits for one of those that went."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.timeline import Client, Topic, findings, of

SESSION, POLL, CADENCE = 45_000, 300_000, 5_000
A, B, C, D, K = (
    Client(f"{x}-1", (2 * i, 2 * i + 1), f"consumer-g-{i}", f"/10.0.0.{i}", session=SESSION, rebalance=POLL)
    for i, x in enumerate("abcdk")
)
GONE_MS = 600_000


def spread(*clients: Client) -> list[Client]:
    """The clients with all partitions dealt out among them."""
    return [
        replace(one, partitions=tuple(range(index, 10, len(clients)))) for index, one in enumerate(clients)
    ]


def rejoined(topic: Topic, opened: int, *clients: Client, moving: int = 0, every: int = CADENCE) -> None:
    """They commit as ever, and once more as they rejoin within a second after the barrier opened."""
    for index, one in enumerate(clients):
        topic.commits(1_000 + index * 1_300, opened - 200, one, every=every, moving=moving)
        topic.commit(opened + 400 + index * 350, dict.fromkeys(one.partitions, 10**6 if moving else 100))


def told(found: list[Finding], of_whom: Client) -> list[CauseEntry]:
    last = of(found, Kind.REBALANCE)[-1]
    return [entry for entry in last.causes if entry.member_id == of_whom.member_id]


def last_commit(topic: Topic, client: Client, at: int) -> None:
    topic.commits(at % CADENCE, at, client, every=CADENCE)


@pytest.mark.parametrize(("committed", "after"), [(300, 1_500), (1_500, 800), (50, 300)])
def test_one_that_stalled_before_others_began_a_barrier_breached_its_poll_interval(
    committed: int, after: int
) -> None:
    """It held the barrier of a scale-out until its client said goodbye: no clean leave holds one."""
    topic = Topic()
    topic.generation(0, 1, [A, B, C, D])
    last_commit(topic, A, GONE_MS - committed)
    rejoined(topic, GONE_MS + after, B, C, D)
    topic.generation(GONE_MS + POLL + 130, 2, spread(B, C, D, replace(K, member_id="new")))
    found = findings(topic.sorted(), until=500)
    shares = {entry.cause: entry.confidence for entry in told(found, A)}
    # It may as well not have rejoined until the deadline, which came as soon: neither is claimed alone.
    assert shares.keys() == {Cause.POLL_INTERVAL_EXCEEDED, Cause.JOIN_DEADLINE_MISSED}
    assert shares[Cause.JOIN_DEADLINE_MISSED] < CLAIMED


@pytest.mark.parametrize("back", [800, 1_500, 3_000])
def test_one_killed_and_back_at_once_expired_though_its_return_began_the_barrier(back: int) -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B, C, D])
    last_commit(topic, A, GONE_MS - 500)
    rejoined(topic, GONE_MS + back, B, C, D)
    topic.generation(GONE_MS + SESSION - 300, 2, spread(replace(A, member_id="a-2"), B, C, D))
    found = findings(topic.sorted(), until=500)
    assert told(found, A)[0].cause is Cause.SESSION_TIMEOUT
    assert len(of(found, Kind.SESSION_TIMEOUT)) == 1


def test_of_two_that_left_only_the_one_that_fits_its_end_is_said_to_have_held_the_barrier() -> None:
    """The other one said goodbye as the barrier began, which it left to its killed sibling to hold."""
    topic = Topic()
    topic.generation(0, 1, [A, B, C, D, K])
    last_commit(topic, A, GONE_MS - 20_000)
    rejoined(topic, GONE_MS, B, C, D)
    last_commit(topic, K, GONE_MS - 100)
    topic.generation(GONE_MS + SESSION - 18_000, 2, spread(B, C, D))
    found = findings(topic.sorted(), until=500)
    assert told(found, A)[0].cause is Cause.SESSION_TIMEOUT
    assert told(found, K)[0].cause is Cause.MEMBER_LEFT
    assert told(found, K)[0].confidence >= 0.6


def test_where_either_may_have_held_the_barrier_nobody_is_claimed_to_have_expired_or_left_for_sure() -> None:
    """Both fell silent as it began: one of them expired, the other may have said goodbye."""
    topic = Topic()
    topic.generation(0, 1, [A, B, C, D, K])
    rejoined(topic, GONE_MS, B, C, D)
    for one, before in ((A, 200), (K, 900)):
        last_commit(topic, one, GONE_MS - before)
    topic.generation(GONE_MS + SESSION + 1_000, 2, spread(B, C, D))
    found = findings(topic.sorted(), until=500)
    for one in (A, K):
        shares = {entry.cause: entry.confidence for entry in told(found, one)}
        assert max(shares.values()) < 0.95, shares
        assert Cause.SESSION_TIMEOUT in shares


@pytest.mark.parametrize("moving", [0, 3])
@pytest.mark.parametrize("rest", [500, 1_500, 3_000, 8_000])
def test_one_that_closed_while_another_was_in_a_long_batch_left(rest: int, moving: int) -> None:
    """K holds the barrier until it polls again, longer than a session: the others had rejoined at once."""
    topic = Topic()
    topic.generation(0, 1, [A, B, C, K])
    offset = 10**6 if moving else 100
    topic.commits(300, GONE_MS - 400, A, every=1_000, moving=moving)
    topic.commit(GONE_MS, dict.fromkeys(A.partitions, offset))
    rejoined(topic, GONE_MS + 1_400, B, C, moving=moving, every=1_000)
    topic.commits(500, GONE_MS - 15_000, K, every=1_000, moving=moving)
    end = GONE_MS + SESSION + rest
    topic.commit(end, dict.fromkeys(K.partitions, offset))
    topic.generation(end + 40, 2, spread(K, B, C))
    found = findings(topic.sorted(), until=500)
    assert told(found, A)[0].cause is Cause.MEMBER_LEFT
    assert not of(found, Kind.SESSION_TIMEOUT)
