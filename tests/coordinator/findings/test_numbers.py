"""The sentence of a cause has the numbers that one would check."""

import re

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.epochs import SETTINGS, A, B, C, Epochs, pair
from tests.coordinator.support.timeline import Client, Topic, findings, of

THREE = [Client(f"m{number}", (number,), f"c{number}") for number in range(3)]


def why(found: list[Finding], cause: Cause) -> str:
    """The sentence of the newest finding that has this cause."""
    return [entry.why for one in found for entry in one.causes if entry.cause is cause][-1]


def test_a_new_member_is_reported_with_the_size_of_its_group_before_and_now() -> None:
    topic = Topic()
    topic.generation(0, 1, THREE[:2])
    topic.generation(60_000, 2, THREE)
    assert why(findings(topic), Cause.MEMBER_JOINED) == "a new member: 2 before, 3 now"


def test_a_new_member_of_an_epoch_based_group_likewise_though_another_went_meanwhile() -> None:
    topic = pair()
    topic.leave(10_000, B, 3)
    topic.join(10_100, C, 4, ())
    topic.ack(10_200, A, 4, (0,))
    topic.ack(10_300, C, 4, (1,))
    assert why(findings(topic, SETTINGS), Cause.MEMBER_JOINED) == "a new member: 2 before, 2 now"


def test_one_that_came_and_went_before_the_group_converged_is_in_neither_size() -> None:
    topic = pair()
    topic.join(10_000, C, 3, ())
    topic.leave(10_500, C, 4)
    topic.join(11_000, "other-0000000000000000", 5, ())
    for member in (A, B, "other-0000000000000000"):
        topic.ack(11_500, member, 5)
    assert why(findings(topic, SETTINGS), Cause.MEMBER_JOINED) == "a new member: 2 before, 3 now"


def test_another_subscription_is_reported_with_its_topics() -> None:
    more = Client("m0", (0,), "c0", topics=("orders", "payments", "refunds", "returns"))
    topic = Topic()
    topic.generation(0, 1, THREE)
    topic.generation(60_000, 2, [more, *THREE[1:]])
    told = why(findings(topic), Cause.SUBSCRIPTION_CHANGED)
    which = "4 now (orders, payments, refunds and 1 more)"
    assert told == f"it subscribes to other topics: {which}; the group had 1 before"
    epochs = pair()
    epochs.metadata(10_000, A, topic="payments")
    epochs.bump(10_000, 3)
    epochs.target(10_000, 3)
    epochs.ack(10_100, A, 3)
    epochs.ack(10_200, B, 3, (1,))
    told = why(findings(epochs, SETTINGS), Cause.SUBSCRIPTION_CHANGED)
    assert told == "it subscribes to other topics: 1 now (payments)"


def test_a_static_member_that_is_back_is_reported_with_how_long_it_was_away() -> None:
    topic = Topic()
    before, now = (Client(name, (0,), "s", instance_id="s") for name in ("s-1", "s-2"))
    topic.generation(0, 1, [before, THREE[1]])
    topic.commits(1_000, 50_000, before)
    topic.generation(52_500, 2, [now, *THREE[1:]])
    told = why(findings(topic), Cause.STATIC_MEMBER_REPLACED)
    assert told.endswith("under another member id 2.5 s after the process before it last committed")


@pytest.mark.parametrize("generation", [2, 4])
def test_a_rebalance_among_the_same_members_says_how_many_there_are_of_each(generation: int) -> None:
    topic = Topic()
    topic.generation(0, 1, THREE)
    topic.generation(200_000, generation, THREE)
    found = findings(topic)
    told = why(found, Cause.LEADER_REJOINED)
    assert told == (
        "same members, topics and partitions: 3, 1 and 3; a member asked for it, perhaps the leader"
    )
    for failed in of(found, Kind.REBALANCE_FAILED):
        assert failed.causes[0].why.startswith("2 generations from 2 on have no record on the topic")


def test_a_start_and_a_group_that_was_not_known_say_how_many_members_there_are() -> None:
    topic = Topic()
    topic.generation(0, 1, THREE)
    assert why(findings(topic), Cause.FIRST_START) == "the group had no members before; 3 now"
    epochs = Epochs()
    epochs.join(0, A, 9, (0,))
    assert re.search(r"monitor has read; members: 1$", why(findings(epochs, SETTINGS), Cause.UNKNOWN))
