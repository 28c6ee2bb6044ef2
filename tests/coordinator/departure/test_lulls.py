"""What looks like a timeout, or like a clean leave, and may be neither: waiting, stalls, deleted topics."""

from dataclasses import replace

import pytest
from msgspec import structs

from rebalance_monitor.coordinator.departure.evidence import HAD_WORK, Departed, Evidence, Trace
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.timeline import Client, Topic, findings, of

A = Client("a-1", (0, 1))
B = Client("b-1", (2,))
SLOW = Client("slow-1", (3,))
STALLS = [
    Client("aiokafka-1", (0, 1), "aiokafka-0.14", session=6_000, rebalance=6_000),
    Client("aiokafka-2", (2, 3), "aiokafka-0.14", session=6_000, rebalance=6_000),
]


def causes(finding: Finding, member: str) -> dict[Cause, float]:
    return {cause.cause: cause.confidence for cause in finding.causes if cause.member_id == member}


def emptied(slow_until: int) -> list[Finding]:
    """All three go at 26.5 s; two of them committed last at 20 s."""
    topic = Topic()
    for place, client in enumerate((A, B)):
        topic.commits(1_000 - 300 * place, 20_000, client, moving=1)
    topic.commits(400, slow_until, SLOW, moving=1)
    topic = topic.sorted()
    first = Topic()
    first.generation(0, 1, [A, B, SLOW])
    for row in topic.rows:
        first.rows.append(
            structs.replace(row, first_offset=row.first_offset + 1, last_offset=row.last_offset + 1)
        )
    first.offset = topic.offset + 1
    first.generation(26_500, 3, [])
    return findings(first)


def test_members_that_all_fell_silent_together_have_expired() -> None:
    found = emptied(20_000)
    (empty,) = of(found, Kind.GROUP_EMPTY)
    assert all(causes(empty, member)[Cause.SESSION_TIMEOUT] > 0.7 for member in ("a-1", "b-1", "slow-1"))


def gone_after(still: int, *, siblings_move: bool) -> Finding:
    """The second of two aiokafka members goes; its last `still` commits, a second apart, moved nothing."""
    stuck, other = STALLS
    topic = Topic()
    topic.generation(0, 1, STALLS)
    for second in range(1, 26):
        moved = 100 + second if siblings_move or second < 26 - still else 100 + 26 - still
        topic.commit(second * 1_000, dict.fromkeys(other.partitions, moved))
        mine = min(second, 25 - still)
        topic.commit(second * 1_000 + 1, dict.fromkeys(stuck.partitions, 100 + mine))
    topic.commit(25_900, dict.fromkeys(other.partitions, 200))
    topic.generation(25_920, 2, [other])
    return of(findings(topic), Kind.REBALANCE)[1]


def test_offsets_that_stood_still_while_the_siblings_moved_tell_a_stall_from_a_leave() -> None:
    found = causes(gone_after(9, siblings_move=True), "aiokafka-1")
    assert found[Cause.POLL_INTERVAL_EXCEEDED] >= 0.6
    why = gone_after(9, siblings_move=True).causes[0].why
    assert "its last commits made no progress, those of its siblings did" in why


def test_where_no_member_makes_progress_a_stall_and_a_leave_look_the_same() -> None:
    found = causes(gone_after(20, siblings_move=False), "aiokafka-1")
    assert max(found.values()) < CLAIMED
    assert {Cause.POLL_INTERVAL_EXCEEDED, Cause.MEMBER_LEFT} <= found.keys()


@pytest.mark.parametrize("commits", [6, 9, 15])
def test_the_first_commits_of_a_member_that_has_just_joined_are_no_progress(commits: int) -> None:
    """Nothing is produced; of a sibling's few commits the first, which repeat nothing, are a large share."""
    stuck, other = STALLS
    topic = Topic()
    topic.generation(0, 1, [replace(stuck, partitions=(0, 1))])
    for second in range(1, 40):
        topic.commit(second * 1_000, {0: 100, 1: 100})
    topic.generation(40_000, 2, STALLS)
    for second in range(41, 41 + commits):
        topic.commit(second * 1_000, dict.fromkeys(stuck.partitions, 100))
        topic.commit(second * 1_000 + 1, dict.fromkeys(other.partitions, 100))
    topic.generation((40 + commits) * 1_000 + 300, 3, [other])
    found = causes(of(findings(topic), Kind.REBALANCE)[-1], stuck.member_id)
    assert max(found.values()) < CLAIMED
    assert {Cause.POLL_INTERVAL_EXCEEDED, Cause.MEMBER_LEFT} <= found.keys()


def test_one_that_made_progress_to_the_last_has_left() -> None:
    found = causes(gone_after(0, siblings_move=True), "aiokafka-1")
    assert found[Cause.MEMBER_LEFT] > 0.9


def deleted(first: Client, second: Client) -> list[Cause]:
    """Two topics are read, `refunds` by the second member; then nobody has a partition of it."""
    a, b = (
        Client("a-1", (0, 1), topics=("orders", "refunds")),
        Client("b-1", (0, 1), topics=("refunds", "orders")),
    )
    topic = Topic()
    topic.generation(0, 1, [a, b])
    topic.generation(20_000, 2, [first, second])
    return [cause.cause for cause in of(findings(topic), Kind.REBALANCE)[1].causes]


def test_a_topic_that_somebody_still_asks_for_and_nobody_gets_is_deleted() -> None:
    dropped = Client("a-1", (0,), topics=("orders",))
    asks = Client("b-1", (1,), topics=("orders", "refunds"))
    assert set(deleted(dropped, asks)) == {Cause.TOPIC_DELETED, Cause.SUBSCRIPTION_CHANGED}


def test_a_topic_that_all_running_members_drop_at_once_was_most_likely_deleted() -> None:
    dropped = [Client("a-1", (0,), topics=("orders",)), Client("b-1", (1,), topics=("orders",))]
    assert set(deleted(*dropped)) == {Cause.TOPIC_DELETED, Cause.SUBSCRIPTION_CHANGED}


CLOSED = [
    # A record in six seconds: its fetch waits for up to eight before the client leaves.
    (10_000, Trace(8_042, (5_753, 5_999, 6_019, 5_991, 6_032), orders=(671_977, 112), commits=113), 3_387),
    # A record a minute, committed by a timer of sixteen seconds, if there is one: after three or four.
    (
        45_000,
        Trace(
            59_516, (64_154, 47_811, 64_198, 64_101, 47_905, 48_201, 63_938), orders=(911_816, 16), commits=21
        ),
        49_588,
    ),
    (
        10_000,
        Trace(64_866, (60_247, 61_765, 61_843, 60_100, 51_957), orders=(1_064_123, 18), commits=19),
        56_020,
    ),
]


@pytest.mark.parametrize(("session", "trace", "lull"), CLOSED)
def test_a_client_that_closes_a_little_later_than_it_usually_commits_is_not_said_to_have_expired(
    session: int, trace: Trace, lull: int
) -> None:
    """As recorded of kafka-go, with the ends of its topic."""
    one = Departed(
        session, 90_000, 700_000, trace, "kafka-go", work=HAD_WORK, lull=lull, usual_lull=lull + 1_000
    )
    evidence = Evidence(700_000, 0, (one,), (), 0, 0, 90_000, session, phase=(0, 1_200))
    assert explain(evidence).ways[0][Way.DIED] < CLAIMED


def test_a_client_that_goes_a_session_after_its_commit_was_due_has_expired() -> None:
    session, trace, lull = CLOSED[1]
    gone = structs.replace(trace, last=session + 45_000)
    one = Departed(session, 90_000, 700_000, gone, "kafka-go", work=HAD_WORK, lull=lull, usual_lull=lull)
    evidence = Evidence(700_000, 0, (one,), (), 0, 0, 90_000, session, phase=(0, 1_200))
    assert explain(evidence).ways[0][Way.DIED] >= CLAIMED


@pytest.mark.parametrize("lull", [67_000, 94_000])
def test_a_timer_commits_what_came_after_a_lull_only_when_it_ends_again(lull: int) -> None:
    """Records came 15 to 42 s before the group was closed, and its timer of a minute ends after two."""
    minute = Trace(108_500, (60_005, 60_007, 60_002, 60_011, 60_004, 60_005, 60_008, 60_001), commits=29)
    one = Departed(
        90_000, 300_000, 2_023_000, minute, "java", work=HAD_WORK, lull=lull, usual_lull=lull - 19_000
    )
    closed = Departed(90_000, 300_000, 2_023_000, structs.replace(minute, last=48_000), "java", work=HAD_WORK)
    evidence = Evidence(2_023_000, 0, (one, closed), (), 0, 0, 300_000, 90_000, phase=(0, 2_100))
    assert explain(evidence).ways[0][Way.DIED] < CLAIMED
