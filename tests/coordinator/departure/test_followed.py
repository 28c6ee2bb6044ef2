"""A cooperative group hands over in two generations: a newcomer is there before the old client has gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence, Trace
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.timeline import Client, Topic, findings, of

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

COOPERATIVE = "cooperative-sticky"
EVERY, SESSION, POLL = 15_200, 60_000, 60_000
LAST = EVERY * 8


def client(name: str, host: str, *partitions: int) -> Client:
    return Client(
        f"rdkafka-{name}", partitions, "rdkafka", f"/10.0.0.{host}", session=SESSION, rebalance=POLL
    )


def gone(place: str) -> Finding:
    """A client commits each of its batches and polls no more; a newcomer on host `place` joins at once."""
    a, b = client("a", "1", 0, 1, 2), client("b", "2", 3, 4, 5)
    topic, commits = Topic(), Topic()
    for one in (a, b):
        commits.commits(EVERY, LAST, one, every=EVERY, moving=5)
    topic.generation(0, 1, [a, b], protocol=COOPERATIVE)
    topic.rows += commits.rows
    came, polled = client("b2", place), LAST - EVERY
    between, after = LAST + 3_600, polled + POLL + 300
    topic.generation(between, 2, [client("a", "1", 0, 1), client("b", "2", 3, 4), came], protocol=COOPERATIVE)
    now = client("b2", place, 2, 4, 5)
    topic.generation(after, 3, [client("a", "1", 0, 1, 3), now], protocol=COOPERATIVE)
    return of(findings(topic.sorted()), Kind.REBALANCE)[-1]


def share(found: Finding, cause: Cause) -> float:
    return max((one.confidence for one in found.causes if one.cause is cause), default=0.0)


def test_a_client_that_was_there_when_its_successor_had_joined_was_not_closed() -> None:
    found = gone("2")
    assert share(found, Cause.POLL_INTERVAL_EXCEEDED) > 0.8
    assert share(found, Cause.MEMBER_LEFT) == 0.0


def test_a_newcomer_elsewhere_is_no_successor() -> None:
    assert share(gone("3"), Cause.POLL_INTERVAL_EXCEEDED) < 0.8


def test_a_member_that_closes_while_another_is_in_a_long_batch_has_left() -> None:
    """All gave up their partitions as it closed; for 46 s they waited for the one that then came."""
    gaps = (5_000,) * 7
    one = Departed(30_000, 120_000, 87_000, Trace(46_900, (*gaps, 600), commits=16), "sarama", went_on=True)
    waited = [Trace(46_100 + 50 * place, (*gaps, 800 + 100 * place), commits=16) for place in range(7)]
    busy = Trace(1, (*gaps, 62_800), commits=16)
    evidence = Evidence(87_000, 0, (one,), (*waited, busy), 9, 0, 120_000, 30_000)
    assert explain(evidence).ways[0][Way.LEFT] > 0.8
