"""Commits to a group without members are told by their topics: a reset, or another application."""

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.classic import A
from tests.coordinator.support.timeline import Topic, findings, of

START = Cause.FIRST_START


def told(commits: list[tuple[int, str]], windows: int = 1) -> list[Cause]:
    """Causes of the last start of a group that reads `orders`, after commits while it was empty."""
    topic = Topic()
    topic.generation(0, 1, [A])
    for number in range(windows):
        at = 100_000 * (number + 1)
        topic.generation(at, 2 * number + 2, [])
        for after, name in commits:
            topic.commit(at + after, {0: after}, name)
        topic.generation(at + 50_000, 2 * number + 3, [A])
    return [cause.cause for cause in of(findings(topic), Kind.REBALANCE)[-1].causes]


def test_a_commit_for_the_members_own_topic_is_a_reset() -> None:
    assert told([(30_000, "orders")]) == [START, Cause.OFFSETS_RESET]


def test_the_last_commits_of_members_that_went_are_theirs() -> None:
    assert told([(1_000, "orders")]) == [START]


def test_repeated_commits_for_another_topic_are_another_applications() -> None:
    often = [(at, "retry") for at in (5_000, 6_000, 7_000)]
    assert told(often) == [START, Cause.GROUP_ID_SHARED]
    assert told([*often, (30_000, "orders")]) == [START, Cause.OFFSETS_RESET, Cause.GROUP_ID_SHARED]


def test_one_commit_for_another_topic_is_told_once_it_comes_at_every_deployment() -> None:
    assert told([(5_000, "retry")], windows=2) == [START]
    assert told([(5_000, "retry")], windows=3) == [START, Cause.GROUP_ID_SHARED]
