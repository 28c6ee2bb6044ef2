"""Members that leave an epoch-based group: timed out, fenced, gone by themselves, expired or replaced."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.storms.static_takeovers import WINDOW_MS
from tests.coordinator.support.epochs import SETTINGS, A, B, C, Epochs, committing, pair
from tests.coordinator.support.timeline import P, S, findings, in_batches, of


def without_b(at: int) -> Epochs:
    topic = pair()
    committing(topic, 3_000, 40_000, 0)
    committing(topic, 3_100, 20_100, 1)
    topic.leave(at, B, 3)
    topic.target(at + 900, 3)
    topic.ack(at + 900, A, 3, (0, 1))
    sorted_topic = topic.sorted()
    return Epochs(rows=sorted_topic.rows, offset=sorted_topic.offset)


def test_a_killed_member_is_a_session_timeout() -> None:
    found = findings(without_b(20_100 + S + 50), SETTINGS)
    (named,) = of(found, Kind.SESSION_TIMEOUT)
    assert named.members[0].member_id == B


def test_a_stalled_java_member_is_a_poll_breach() -> None:
    found = findings(without_b(20_100 + P + 1_050), SETTINGS)
    (named,) = of(found, Kind.POLL_INTERVAL_EXCEEDED)
    assert named.members[0].member_id == B


def test_a_goodbye_is_no_timeout() -> None:
    found = findings(without_b(20_150), SETTINGS)
    assert of(found, Kind.REBALANCE)[-1].causes[0].cause is Cause.MEMBER_LEFT
    assert not of(found, Kind.SESSION_TIMEOUT)


def stalled(acknowledged: int, gone: int) -> Epochs:
    """B commits until 20.1 s and no more, acknowledges the epoch of C, which joins, and is gone."""
    topic = pair()
    committing(topic, 3_000, 40_000, 0)
    committing(topic, 3_100, 20_100, 1)
    topic.join(acknowledged - 300, C, 3, ())
    topic.ack(acknowledged - 200, A, 3, (0,))
    topic.ack(acknowledged, B, 3, (1,))
    topic.leave(gone, B, 4)
    topic.target(gone + 300, 4)
    topic.ack(gone + 300, A, 4, (0,))
    topic.ack(gone + 400, C, 4, (1,))
    sorted_topic = topic.sorted()
    return Epochs(rows=sorted_topic.rows, offset=sorted_topic.offset)


@pytest.mark.parametrize("acknowledged", [20_500, 22_400, 25_000, 28_400])
def test_a_stalled_member_whose_heartbeats_go_on_is_a_poll_breach_whatever_it_acknowledged(
    acknowledged: int,
) -> None:
    found = findings(stalled(acknowledged, 20_100 + P + 700), SETTINGS)
    (named,) = of(found, Kind.POLL_INTERVAL_EXCEEDED)
    assert named.members[0].member_id == B
    assert named.details["silence_ms"] == P + 700
    assert not of(found, Kind.SESSION_TIMEOUT)


def test_the_session_of_a_stalled_member_that_dies_ends_a_timeout_after_what_it_acknowledged() -> None:
    (named,) = of(findings(stalled(26_000, 26_000 + S + 100), SETTINGS), Kind.SESSION_TIMEOUT)
    assert named.members[0].member_id == B
    assert "it acknowledged an epoch 6.1 s before" in named.causes[0].why


def test_a_member_that_was_given_its_only_partitions_anew_was_at_work_until_then() -> None:
    topic = pair()
    committing(topic, 3_000, 40_000, 0)
    committing(topic, 3_100, 20_100, 1)
    topic.ack(21_000, B, 2, ())
    topic.ack(28_700, B, 2, (2,))
    topic.leave(28_800, B, 3)
    topic.target(29_000, 3)
    topic.ack(29_000, A, 3, (0, 1))
    shuffled = topic.sorted()
    found = findings(Epochs(rows=shuffled.rows, offset=shuffled.offset), SETTINGS)
    assert of(found, Kind.REBALANCE)[-1].causes[0].cause is Cause.MEMBER_LEFT


def behind(*, acknowledged: bool) -> list[CauseEntry]:
    """B, which never commits, is removed seven seconds after C's joining, which it may have acknowledged."""
    topic = pair()
    topic.join(60_000, C, 3, ())
    topic.ack(60_500, A, 3, (0,))
    if acknowledged:
        topic.ack(60_600, B, 3, (1,))
    topic.leave(67_000, B, 4)
    topic.target(67_500, 4)
    topic.ack(67_500, A, 4, (0,))
    topic.ack(67_600, C, 4, (1,))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    return [entry for entry in last.causes if entry.member_id == B]


def test_a_member_that_did_not_acknowledge_an_epoch_that_others_had_was_dead_by_then() -> None:
    dead, alive = behind(acknowledged=False), behind(acknowledged=True)
    assert dead[0].cause is Cause.SESSION_TIMEOUT
    assert dead[0].confidence >= 0.6
    assert all(entry.confidence < CLAIMED for entry in alive)


def test_a_member_that_does_not_revoke_in_time_was_fenced_for_that() -> None:
    topic = pair()
    topic.ack(10_000, A, 2, (0,), state=1)
    topic.leave(10_000 + P + 300, A, 3)
    topic.target(20_000, 3)
    topic.ack(20_000, B, 3, (0, 1))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    assert (last.causes[0].cause, last.causes[0].confidence) == (Cause.JOIN_DEADLINE_MISSED, 0.95)


def test_a_static_member_that_comes_back_without_a_bump_is_replaced_and_no_rebalance() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,), instance="s")
    topic.ack(10_000, A, -2, (0,))
    topic.leave(12_000, A, None)
    topic.metadata(12_000, B, "s")
    topic.ack(12_000, B, 1, (0,))
    found = findings(topic, SETTINGS)
    assert len(of(found, Kind.REBALANCE)) == 1
    (replaced,) = of(found, Kind.STATIC_MEMBER_REPLACED)
    assert replaced.details == {
        "instance_id": "s",
        "previous_member_id": A,
        "times": 1,
        "window_ms": WINDOW_MS,
    }


def test_a_static_member_that_crashed_expired_also_where_it_is_back_before_the_group_has_converged() -> None:
    """Its next instance is refused until its session has ended (UNRELEASED_INSTANCE_ID), and then joins."""
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, (), instance="s")
    topic.ack(2_000, A, 2, (0,))
    topic.ack(2_500, B, 2, (1,))
    topic.leave(60_000 + S, B, 3)
    topic.join(60_300 + S, C, 4, (1,), instance="s")
    committing(topic, 3_100, 60_000, 1)
    topic.ack(61_000 + S, A, 4, (0,))
    shuffled = topic.sorted()
    found = findings(Epochs(rows=shuffled.rows, offset=shuffled.offset), SETTINGS)
    last = of(found, Kind.REBALANCE)[-1]
    assert [(cause.cause, cause.member_id) for cause in last.causes] == [
        (Cause.MEMBER_JOINED, C),
        (Cause.STATIC_MEMBER_EXPIRED, B),
    ]
    assert [(member.member_id, member.role) for member in last.members[:2]] == [(B, "left"), (C, "joined")]
    (named,) = of(found, Kind.SESSION_TIMEOUT)
    assert named.members[0].member_id == B


def test_a_static_member_that_is_replaced_within_a_convergence_is_still_replaced() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, (), instance="s")
    topic.ack(1_500, B, -2, ())
    topic.leave(1_800, B, None)
    topic.metadata(1_800, C, "s")
    topic.ack(1_800, C, 0, ())
    topic.ack(1_800, C, 2, (1,))
    topic.ack(2_000, A, 2, (0,))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    assert [member.role for member in last.members] == ["replaced", "kept"]


def restarting() -> Epochs:
    """C joins at 60 s, for which A is slow to give up partitions; B restarts as "s-1", and as "s-2"."""
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, (), instance="s")
    topic.ack(2_000, A, 2, (0,))
    topic.ack(2_500, B, 2, (1,))
    topic.join(60_000, C, 3, ())
    topic.ack(60_500, A, 2, (), state=1)
    topic.ack(60_600, B, 3, (1,))
    for at, old, new in ((70_000, B, "s-1"), (90_000, "s-1", "s-2")):
        topic.ack(at - S + 1_000, old, -2, (1,))
        topic.leave(at, old, None)
        topic.metadata(at, new, "s")
        topic.ack(at, new, 0, (1,))
        topic.ack(at, new, 3, (1,))
    return topic


def test_a_static_member_that_is_replaced_twice_within_a_convergence_has_not_left() -> None:
    topic = restarting()
    topic.ack(100_000, A, 3, ())
    topic.ack(100_500, C, 3, (0,))
    found = findings(topic, SETTINGS)
    last = of(found, Kind.REBALANCE)[-1]
    assert [(member.member_id, member.role) for member in last.members[:2]] == [
        (C, "joined"),
        ("s-2", "replaced"),
    ]
    assert (last.details["left"], last.members_affected) == (0, 2)
    assert not of(found, Kind.SESSION_TIMEOUT)


def test_a_group_that_empties_has_lost_a_static_member_once_however_often_it_was_replaced_before() -> None:
    topic = restarting()
    for at, member in ((100_000, A), (100_100, C), (100_200, "s-2")):
        topic.leave(at, member, 4 + (at - 100_000) // 100)
    (empty,) = of(findings(topic, SETTINGS), Kind.GROUP_EMPTY)
    assert [member.member_id for member in empty.members] == [A, C, "s-2"]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 60), max_size=6), st.sampled_from([20_150, 26_200, 29_150]))
def test_cutting_into_batches_changes_nothing(cuts: list[int], at: int) -> None:
    topic = without_b(at)
    inside = [cut for cut in cuts if cut < len(topic.rows)]
    assert in_batches(topic, inside, clocks=False) == in_batches(topic, [], clocks=False)


def test_a_static_member_that_announced_its_departure_and_stays_away_expired() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,), instance="s")
    topic.join(500, B, 2, (1,))
    topic.ack(900, A, 2, (0,))
    topic.ack(10_000, A, -2, (0,))
    topic.leave(10_000 + S, A, 3)
    topic.target(18_000, 3)
    topic.ack(18_000, B, 3, (0, 1))
    cause = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1].causes[0]
    assert (cause.cause, cause.instance_id) == (Cause.STATIC_MEMBER_EXPIRED, "s")
    assert "after it announced its departure" in cause.why


def test_a_member_of_the_new_protocol_misses_no_sync_for_it_has_none() -> None:
    """It never committed, and went just when its rebalance timeout had passed since it had acknowledged."""
    topic = pair()
    topic.leave(2_500 + P + 500, B, 3)
    topic.target(12_000, 3)
    topic.ack(12_000, A, 3, (0, 1))
    told = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1].causes
    assert {entry.cause for entry in told} >= {Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED}
    assert all(entry.cause is not Cause.SYNC_DEADLINE_MISSED for entry in told)
