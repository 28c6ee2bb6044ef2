from struct import pack

import pytest

from rebalance_monitor.coordinator.assignors.model import Subscriber
from rebalance_monitor.coordinator.checks.assignment import verdict
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.epochs import A, B, Epochs
from tests.coordinator.support.timeline import T0, P, S, Topic, blob, findings, subscription, text

Given = dict[str, tuple[int, ...]]
LIMIT = DetectionSettings(max_message_bytes=200)


def generation(
    topic: Topic,
    at: int,
    number: int,
    members: dict[str, Given],
    protocol: str = "range",
    **reads: tuple[str, ...],
) -> None:
    """A generation of members that are handed partitions of several topics."""
    value = pack(">h", 3) + text("consumer") + pack(">i", number) + text(protocol) + text(next(iter(members)))
    value += pack(">qi", T0 + at - 20, len(members))
    for name, given in members.items():
        topics = b"".join(text(t) + pack(f">i{len(p)}i", len(p), *p) for t, p in given.items())
        value += text(name) + text(None) + text("consumer-1") + text("/10.0.0.1") + pack(">ii", P, S)
        value += blob(subscription(reads.get(name, ("s", "t"))))
        value += blob(pack(">hi", 0, len(given)) + topics + pack(">i", -1))
    topic.record(at, b"\0\2" + text(topic.group), value)


def skewed(topic: Topic) -> list[Finding]:
    return [found for found in findings(topic) if found.kind is Kind.ASSIGNMENT_SKEWED]


def test_five_against_three_of_co_subscribed_topics_is_reported_with_what_the_best_would_give() -> None:
    topic = Topic()
    generation(topic, 0, 1, {"a": {"s": (0, 1, 2), "t": (0, 1)}, "b": {"s": (3, 4), "t": (2,)}})
    (found,) = skewed(topic)
    assert (found.phase, found.severity, found.details["rule"]) == ("opened", Severity.WARNING, "spread")
    assert (found.details["most"], found.details["least"]) == (5, 3)
    assert (found.details["best_most"], found.details["best_least"]) == (4, 4)
    assert found.members[0].member_id == "a"


def test_ten_against_five_of_five_co_subscribed_topics_is_reported() -> None:
    topics = tuple("pqrst")
    given = {"a": dict.fromkeys(topics, (0, 1)), "b": dict.fromkeys(topics, (2,))}
    topic = Topic()
    generation(topic, 0, 1, given, a=topics, b=topics)
    (found,) = skewed(topic)
    assert (found.details["most"], found.details["least"], found.details["best_most"]) == (10, 5, 8)


def test_it_is_resolved_when_the_spread_is_even_again() -> None:
    topic = Topic()
    generation(topic, 0, 1, {"a": {"s": (0, 1, 2), "t": (0, 1)}, "b": {"s": (3, 4), "t": (2,)}})
    generation(topic, 9_000, 2, {"a": {"s": (0, 1, 2), "t": (0,)}, "b": {"s": (3, 4), "t": (1, 2)}}, "sticky")
    opened, resolved = skewed(topic)
    assert (resolved.phase, resolved.incident) == ("resolved", opened.id)


UNEVEN: dict[str, Given] = {"a": {"s": (0, 1, 2), "t": (0, 1)}, "b": {"s": (3, 4), "t": (2,)}}


@pytest.mark.parametrize("turn", ["empty", "another protocol", "nothing subscribed"])
def test_what_is_open_ends_where_nothing_can_be_said_any_more(turn: str) -> None:
    topic = Topic()
    generation(topic, 0, 1, UNEVEN)
    if turn == "empty":
        topic.generation(9_000, 2, [])
    elif turn == "another protocol":
        generation(topic, 9_000, 2, UNEVEN, "my-own")
    else:
        generation(topic, 9_000, 2, UNEVEN, b=())
    opened, resolved = skewed(topic)
    assert (resolved.phase, resolved.incident) == ("resolved", opened.id)
    assert (resolved.resolution, resolved.severity) == ("withdrawn", opened.severity)
    generation(topic, 60_000, 3, UNEVEN)
    again = skewed(topic)[2:]
    assert [one.phase for one in again] == ["opened"]
    assert again[0].id != opened.id


def test_what_is_open_stays_so_while_partitions_are_withheld() -> None:
    topic = Topic()
    for number, protocol in enumerate(("range", "cooperative-sticky"), 1):
        generation(topic, 9_000 * number, number, UNEVEN, protocol)
    generation(topic, 27_000, 3, {**UNEVEN, "b": {"s": (3, 4)}}, "cooperative-sticky")
    assert [one.phase for one in skewed(topic)] == ["opened"]


def test_the_skew_of_an_epoch_based_group_ends_with_its_last_member_and_with_equal_subscriptions() -> None:
    for turn in ("empty", "apart", "even"):
        topic = Epochs()
        topic.join(0, A, 1, (0, 1, 2))
        topic.join(1_000, B, 2, ())
        topic.ack(2_000, A, 2, (0, 1, 2))
        topic.ack(2_500, B, 2, (3,))
        if turn == "empty":
            topic.leave(60_000, A, 3)
            topic.leave(60_000, B, 4)
        else:
            topic.metadata(60_000, B, topic="orders" if turn == "even" else "bills")
            topic.bump(60_000, 3)
            topic.target(60_000, 3)
            topic.ack(60_000, A, 3, (0, 1) if turn == "even" else (0, 1, 2))
            topic.ack(60_000, B, 3, (2, 3) if turn == "even" else (3,))
        told = skewed(topic)
        assert [one.phase for one in told] == ["opened", "resolved"], turn
        assert told[1].resolution == ("completed" if turn == "even" else "withdrawn")


def test_a_group_that_is_empty_has_no_record_near_the_limit() -> None:
    topic = Topic()
    generation(topic, 0, 1, UNEVEN)
    topic.generation(9_000, 2, [])
    large = [one for one in findings(topic, LIMIT) if one.kind is Kind.GROUP_TOO_LARGE]
    assert [(one.phase, one.resolution) for one in large] == [("opened", None), ("resolved", "withdrawn")]


def test_members_beyond_the_number_of_partitions_are_named_as_information() -> None:
    topic = Topic()
    generation(topic, 0, 1, {"a": {"s": (0,)}, "b": {"t": (0,)}, "c": {}})
    (found,) = skewed(topic)
    assert (found.severity, found.details["rule"]) == (Severity.INFO, "idle")
    assert [member.member_id for member in found.members] == ["c"]


def test_a_member_that_still_joins_a_cooperative_group_is_no_skew() -> None:
    topic = Topic()
    generation(topic, 0, 1, {"a": {"s": (0, 1), "t": (0, 1)}}, "cooperative-sticky")
    generation(topic, 9_000, 2, {"a": {"s": (0, 1)}, "b": {}}, "cooperative-sticky")
    generation(topic, 9_100, 3, {"a": {"s": (0, 1)}, "b": {"t": (0, 1)}}, "cooperative-sticky")
    assert skewed(topic) == []


def test_the_first_record_of_a_cooperative_group_may_be_a_first_phase() -> None:
    topic = Topic()
    generation(topic, 0, 7, {"a": {"s": (0, 1), "t": (0, 1)}, "b": {}}, "cooperative-sticky")
    assert skewed(topic) == []


def test_unequal_subscriptions_are_held_against_the_assignors() -> None:
    apart = {"a": {"s": (0, 1, 2)}, "b": {"t": (0,)}}
    topic = Topic()
    generation(topic, 0, 1, apart, "range", a=("s",), b=("t",))
    assert skewed(topic) == []
    together = {"a": {"s": (0, 1, 2)}, "b": {"t": (0,)}, "c": {}}
    topic = Topic()
    generation(topic, 0, 1, together, "range", a=("s",), b=("t",), c=("s",))
    (found,) = skewed(topic)
    assert (found.details["best_most"], found.details["idle"]) == (2, 1)


def test_a_protocol_that_it_does_not_know_is_left_alone() -> None:
    topic = Topic()
    generation(topic, 0, 1, {"a": {"s": (0, 1, 2)}, "b": {}}, "stream")
    assert skewed(topic) == []


def test_a_group_too_large_to_try_is_left_alone() -> None:
    many = [Subscriber(f"m{i}", ("s",) if i else ("s", "t")) for i in range(300)]
    assert verdict(many, {"s": 100, "t": 100}).rule == ""


def test_of_the_new_protocol_only_the_servers_assignors_are_named() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0, 1, 2))
    topic.join(1_000, B, 2, ())
    topic.ack(2_000, A, 2, (0, 1, 2))
    topic.ack(2_500, B, 2, (3,))
    (found,) = skewed(topic)
    assert found.details["best"] == "uniform"


def test_a_topic_that_was_made_anew_with_fewer_partitions_is_judged_by_these() -> None:
    topic = Topic()
    generation(
        topic, 0, 1, {"a": {"s": tuple(range(10))}, "b": {"s": tuple(range(10, 20))}}, a=("s",), b=("s",)
    )
    generation(topic, 60_000, 2, {"a": {"s": (0, 1, 2)}, "b": {"s": (3,)}}, a=("s",), b=("s",))
    (found,) = skewed(topic)
    assert (found.details["most"], found.details["least"], found.details["best_most"]) == (3, 1, 2)


def test_idle_members_of_a_cooperative_group_are_named_from_a_first_generation_that_withholds_nothing() -> (
    None
):
    for emptied in (False, True):
        topic = Topic()
        if emptied:
            topic.generation(0, 6, [])
        generation(
            topic,
            9_000,
            7 if emptied else 1,
            {"a": {"s": (0,)}, "b": {"t": (0,)}, "c": {}},
            "cooperative-sticky",
        )
        (found,) = skewed(topic)
        assert [member.member_id for member in found.members] == ["c"]
