"""Commits to a group without members are judged by their topics: a reset, or another application."""

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.classic import A
from tests.coordinator.support.epochs import SETTINGS, Epochs
from tests.coordinator.support.epochs import A as EPOCHS_A
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


@pytest.mark.parametrize(
    ("silent_ms", "offset", "start_ms", "is_reset"),
    [
        (7_000, 200, 1_000, False),
        (7_000, 200, 9_000, False),
        (7_000, 200, 30_000, True),
        (7_000, 3, 1_000, True),
        (0, 200, 1_000, True),
    ],
)
def test_what_an_evicted_client_commits_before_it_joins_again_is_its_own(
    silent_ms: int, offset: int, start_ms: int, *, is_reset: bool
) -> None:
    """It was silent for so long when the group became empty, commits this 20 s later, and is back so soon.

    A commit that goes back, that comes long before anybody joins, or after a clean leave, is a reset.
    """
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commits(1_000, 60_000 - silent_ms, A)
    topic.generation(60_100, 2, [])
    topic.commit(80_000, {0: offset})
    topic.generation(80_000 + start_ms, 3, [A])
    (*_, last) = of(findings(topic), Kind.REBALANCE)
    assert (Cause.OFFSETS_RESET in {cause.cause for cause in last.causes}) is is_reset


def test_repeated_commits_for_another_topic_are_another_applications() -> None:
    often = [(at, "retry") for at in (5_000, 6_000, 7_000)]
    assert told(often) == [START, Cause.GROUP_ID_SHARED]
    assert told([*often, (30_000, "orders")]) == [START, Cause.OFFSETS_RESET, Cause.GROUP_ID_SHARED]


def test_one_commit_for_another_topic_is_published_once_it_comes_at_every_deployment() -> None:
    assert told([(5_000, "retry")], windows=2) == [START]
    assert told([(5_000, "retry")], windows=3) == [START, Cause.GROUP_ID_SHARED]


@pytest.mark.parametrize(("name", "is_reset"), [("orders", True), ("retry", False)])
@pytest.mark.parametrize("placeholder", [False, True])
def test_offsets_that_stand_ready_for_the_first_members_of_a_group_are_published(
    name: str, *, is_reset: bool, placeholder: bool
) -> None:
    """The coordinator in Java writes a record of generation 0 as the first member asks to join."""
    topic = Topic()
    topic.commit(0, {0: 5}, name)
    if placeholder:
        topic.generation(20_000, 0, [])
    topic.generation(30_000, 1, [A])
    topic.commits(31_000, 60_000, A)
    topic.generation(70_000, 2, [A])
    first, second = of(findings(topic), Kind.REBALANCE)
    assert [cause.cause for cause in first.causes] == [START, *[Cause.OFFSETS_RESET] * is_reset]
    assert Cause.OFFSETS_RESET not in {cause.cause for cause in second.causes}
    if is_reset:
        assert "30.0 s before: orders" in first.causes[1].why


def test_offsets_that_stand_ready_for_a_new_kip_848_group_are_published() -> None:
    topic = Epochs()
    topic.commit(0, {0: 5}, "orders")
    topic.join(30_000, EPOCHS_A, 1, (0,))
    (first,) = of(findings(topic, SETTINGS), Kind.REBALANCE)
    assert [cause.cause for cause in first.causes] == [START, Cause.OFFSETS_RESET]
