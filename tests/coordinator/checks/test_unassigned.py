"""Partitions without a reader are found from one record; what every assignor may do is no fault."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.checks.applications import apart
from rebalance_monitor.coordinator.checks.assignment import Faults, faults
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.state.group_state import GroupState, Member
from tests.coordinator.support import epochs
from tests.coordinator.support.classic import A, B
from tests.coordinator.support.timeline import Client, Topic, findings, of

TOPICS = ["a", "b", "c"]


def assigned(**given: dict[str, tuple[int, ...]]) -> GroupState:
    """A group whose members own these partitions: topic -> partitions."""
    members = [
        Member(name, None, name, "/10.0.0.1", False, 10_000, 10_000, "java", 0, "", 0)  # noqa: FBT003 - its host is its own
        for name in given
    ]
    for member in members:
        member.assigned = [[TOPICS.index(topic), *parts] for topic, parts in given[member.member_id].items()]
    return GroupState(topics=TOPICS, members=members)


def found(state: GroupState, **subscriptions: str) -> tuple[int, int, tuple[str, ...], int]:
    one: Faults = faults(state, subscriptions)
    return one.unread, one.twice, one.unowned, len(apart(subscriptions))


def test_a_leader_that_knows_its_own_topic_only_leaves_the_others_unread() -> None:
    state = assigned(tasks={"a": (3, 4, 5)}, progress={"a": (0, 1, 2)})
    assert found(state, tasks="a", progress="b") == (3, 0, ("b",), 2)


def test_a_partition_of_two_members_is_read_twice() -> None:
    assert found(assigned(x={"a": (0, 1)}, y={"a": (1, 2)}), x="a", y="a") == (0, 1, (), 1)


@given(st.lists(st.frozensets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=6))
def test_an_assignment_of_what_members_subscribe_to_has_nothing_wrong(asked: list[frozenset[str]]) -> None:
    """Each topic goes to one of its subscribers; members without a common topic are counted apart."""
    topics = sorted({topic for one in asked for topic in one})
    owner = {topic: next(place for place, one in enumerate(asked) if topic in one) for topic in topics}
    state = assigned(**{f"m{place}": {} for place in range(len(asked))})
    state.topics = topics
    for topic, place in owner.items():
        state.members[place].assigned.append([topics.index(topic), 0, 1])
    subscriptions = {f"m{place}": topics for place, topics in enumerate(asked)}
    one = faults(state, subscriptions)
    assert (one.unread, one.twice, one.unowned) == (0, 0, ())
    assert 1 <= len(apart(subscriptions)) <= len(asked)


@pytest.mark.parametrize(("asked", "count"), [(("a", "b"), 2), (("a", "ab", "b"), 1), (("ab", "cd", "d"), 2)])
def test_applications_share_no_topic(asked: tuple[str, ...], count: int) -> None:
    assert len(apart({str(place): set(topics) for place, topics in enumerate(asked)})) == count


def test_what_is_owned_twice_is_one_incident_until_the_assignment_is_right() -> None:
    topic = Topic()
    both = Client(B.member_id, (*A.partitions, *B.partitions), B.client_id, B.host)
    for at, number, members in (
        (0, 1, [A, B]),
        (60_000, 2, [A, both]),
        (120_000, 3, [A, both]),
        (180_000, 4, [A, B]),
    ):
        topic.generation(at, number, members)
    opened, resolved = of(findings(topic), Kind.PARTITIONS_UNASSIGNED)
    assert (opened.generation, opened.severity, resolved.generation) == (2, Severity.WARNING, 4)
    assert resolved.incident == opened.incident


def pair_of(a: tuple[int, ...], b: tuple[int, ...], topics: tuple[str, str] = ("orders", "orders")) -> Topic:
    """A KIP-848 group of two members that has converged on these partitions of one topic."""
    topic = epochs.Epochs()
    for member, asked in zip((epochs.A, epochs.B), topics, strict=True):
        topic.metadata(0, member, topic=asked)
    topic.bump(0, 1)
    topic.target(0, 1)
    topic.ack(0, epochs.A, 1, a)
    topic.ack(500, epochs.B, 1, b)
    return topic


@pytest.mark.parametrize(
    ("a", "b", "twice", "skipped"), [((0, 1), (1, 2), 1, 0), ((0, 1), (4,), 0, 2), ((0,), (1,), 0, 0)]
)
def test_the_target_of_a_kip_848_group_has_each_partition_once(
    a: tuple[int, ...], b: tuple[int, ...], twice: int, skipped: int
) -> None:
    topic = pair_of(a, b)
    topic.metadata(60_000, epochs.C)
    topic.bump(60_000, 2)
    topic.target(60_000, 2)
    for member, owned in ((epochs.A, (0, 1)), (epochs.B, (2,)), (epochs.C, (3,))):
        topic.ack(61_000, member, 2, owned)
    found = of(findings(topic, epochs.SETTINGS), Kind.PARTITIONS_UNASSIGNED)
    wrong = bool(twice or skipped)
    assert [one.phase for one in found] == ["opened", "resolved"] * wrong
    if wrong:
        assert found[0].details["twice"] == twice
        assert found[0].details.get("skipped", 0) == skipped


def test_an_unknown_member_may_own_what_seems_to_have_no_owner() -> None:
    """Read from the middle: who acknowledges nothing for a session was not there."""
    topic = epochs.Epochs()
    topic.offset = 1_000
    topic.ack(0, epochs.A, 7, (0,))
    topic.ack(10, epochs.B, 7, (3,))
    topic.bump(100, 8)
    topic.target(100, 8)
    topic.ack(200, epochs.A, 8, (0,))
    topic.ack(300, epochs.B, 8, (3,))
    assert not of(findings(topic, epochs.SETTINGS), Kind.PARTITIONS_UNASSIGNED)


@pytest.mark.parametrize("asked", ["orders", "refunds"])
def test_members_without_a_common_topic_are_two_applications_in_any_protocol(asked: str) -> None:
    classic = Topic()
    other = Client(B.member_id, B.partitions, B.client_id, B.host, topics=(asked,))
    classic.generation(0, 1, [A])
    classic.generation(60_000, 2, [A, other])
    modern = pair_of((0,), (1,), ("orders", asked))
    for topic in (classic, modern):
        last = of(findings(topic, epochs.SETTINGS), Kind.REBALANCE)[-1]
        named = [one for one in last.causes if one.cause is Cause.GROUP_ID_SHARED]
        assert bool(named) is (asked == "refunds")
        for one in named:
            assert "orders" in one.why
            assert "refunds" in one.why
            assert last.causes[0] is not one
