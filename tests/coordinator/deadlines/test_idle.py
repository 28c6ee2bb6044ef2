"""Who commits when idle: learned from commits that move nothing, and only from enough of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits.trace import commits_when_idle
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.group_state import GroupState
from tests.coordinator.support.epochs import SETTINGS, Epochs
from tests.coordinator.support.epochs import A as ONE
from tests.coordinator.support.timeline import Client, Topic, findings

A, B = Client("a-1", (0,)), Client("b-1", (2,), host="/10.0.0.2")


def state_after(topic: Topic, settings: DetectionSettings | None = None) -> GroupState:
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, None), settings or DetectionSettings(), "c1")
    for row in topic.rows:
        shard.on_row(row)
    return shard.state.groups["g"]


def idle(topic: Topic) -> dict[str, bool]:
    state = state_after(topic)
    return {member.member_id: commits_when_idle(state, member) for member in state.members}


def by_hand(generations: int) -> Topic:
    """A and B commit what they have processed, and the same once more as a generation ends."""
    topic = Topic()
    for number in range(generations):
        start = 30_000 * number
        topic.generation(start, number + 1, [A, B])
        for member, shift in ((A, 500), (B, 550)):
            for second in (*range(1, 21), 28):
                done = {partition: 100 * number + min(second, 20) for partition in member.partitions}
                topic.commit(start + 1_000 * second + shift, done)
    return topic.sorted()


@given(st.integers(2, 12))
def test_offsets_that_are_committed_again_as_a_generation_ends_are_no_trait(generations: int) -> None:
    assert not any(idle(by_hand(generations)).values())


def test_a_lull_of_members_that_commit_by_hand_is_no_silence() -> None:
    topic = by_hand(3)
    topic.generation(90_000, 4, [A, B])
    topic.commits(91_500, 100_500, A, moving=1)
    topic.commits(91_550, 160_550, B, moving=1)
    assert not [one for one in findings(topic.sorted()) if one.kind is Kind.MEMBER_SILENT]


@pytest.mark.parametrize(
    ("moved", "unmoved", "trait"), [(0, 3, True), (17, 3, True), (40, 3, False), (400, 12, True)]
)
def test_one_commit_in_ten_or_ten_of_them_that_move_nothing_are_the_trait(
    moved: int, unmoved: int, *, trait: bool
) -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commits(1_000, 1_000 * moved, A, moving=1)
    for again in range(unmoved + 1):
        topic.commit(1_000 * (moved + again + 1), {0: 100 + max(moved - 1, 0)})
    topic.commit(1_000 * (moved + unmoved + 5), {0: 10_000})
    assert idle(topic) == {"a-1": trait}


ROLLED = [Client(f"{name}-1", (2 * i, 2 * i + 1), host=f"/10.0.1.{i}") for i, name in enumerate("klm")]


def rolled() -> Topic:
    """Members that commit when idle are replaced, one by one, by those that commit what they processed."""
    topic = Topic()
    old = [Client(f"old-{i}", (2 * i, 2 * i + 1), host=f"/10.0.0.{i}") for i in range(3)]
    topic.generation(0, 1, old)
    for index, one in enumerate(old):
        topic.commits(1_000 + 200 * index, 20_000, one)
    for number in range(1, 4):
        topic.generation(20_000 + 1_000 * number, number + 1, [*ROLLED[:number], *old[number:]])
    return topic


def test_a_lull_is_no_join_phase_without_members_that_commit_when_idle() -> None:
    """K had nothing to commit for longer than P, and M closed: nobody had waited for M."""
    topic = rolled()
    for one, end in zip(ROLLED, (40_000, 51_500, 50_400), strict=True):
        topic.commits(24_000 + 100 * one.partitions[0], end, one, moving=3)
    topic.generation(52_000, 5, ROLLED[:2])
    found = findings(topic.sorted())
    last = [one for one in found if one.kind is Kind.REBALANCE][-1]
    assert [entry.cause for entry in last.causes] == [Cause.MEMBER_LEFT]
    assert last.join_ms_min == 0
    silent = [
        one.details["basis"] for one in found if one.kind is Kind.MEMBER_SILENT and one.phase == "opened"
    ]
    assert "idle" not in silent


def test_a_family_keeps_its_trait_while_a_member_is_there_that_proves_it() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.commits(500, 20_500, A)
    topic.commits(700, 20_700, B)
    topic = topic.sorted()
    topic.generation(21_000, 2, [A, Client("new", (2,))])
    assert idle(topic) == {"a-1": True, "new": True}
    topic.generation(22_000, 3, [Client("other", (0,)), Client("new", (2,))])
    assert idle(topic) == {"other": False, "new": False}


@pytest.mark.parametrize(
    ("commits", "lull", "trait"), [(20, 7_000, False), (20, 5_000, True), (5, 7_000, True)]
)
def test_a_lull_longer_than_its_session_shows_that_a_busy_member_does_not_commit_when_idle(
    commits: int, lull: int, *, trait: bool
) -> None:
    """Though others of its family do, in the same group: the trait is theirs alone."""
    topic = Topic()
    topic.generation(0, 1, [A, B])
    end = 1_000 * commits
    topic.commits(1_000, end, A, moving=1)
    topic.commit(end + lull, {0: 10_000})
    topic.commits(500, end + lull, B)
    assert idle(topic.sorted()) == {"a-1": trait, "b-1": True}


def test_a_silence_of_the_whole_group_is_no_evidence_of_which_members_commit_when_idle() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    for start in (0, 60_000):
        topic.commits(start + 1_000, start + 20_000, A, moving=1)
        topic.commits(start + 1_500, start + 20_500, B)
    assert idle(topic.sorted()) == {"a-1": True, "b-1": True}


def test_what_a_family_did_before_the_group_was_empty_is_forgotten() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commits(500, 20_500, A)
    topic.generation(21_000, 2, [])
    topic.generation(40_000, 3, [B])
    assert idle(topic) == {"b-1": False}
    epochs = Epochs()
    epochs.join(0, ONE, 1, (0,))
    epochs.commits(500, 20_500, Client(ONE, (0,)))
    assert state_after(epochs, SETTINGS).learned.idle_families == ["java-848"]
    epochs.leave(21_000, ONE, 2)
    assert state_after(epochs, SETTINGS).learned.idle_families == []
