"""New groups, and those that only look new: what is said of the first record that was read."""

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.classic import BOTH
from tests.coordinator.support.epochs import A, B, C, Epochs
from tests.coordinator.support.timeline import Client, Topic, findings, in_batches, of


def test_a_new_group_whose_first_number_is_missing_failed_at_its_start() -> None:
    topic = Topic()
    topic.generation(0, 1, [BOTH], protocol="range")
    other = Topic("new", topic.shard)
    other.offset = topic.offset
    other.generation(5_000, 2, [BOTH])
    found = findings(Topic(rows=[*topic.rows, *other.rows]))
    (failed,) = [f for f in of(found, Kind.REBALANCE_FAILED) if f.group == "new"]
    assert failed.details == {"failed": 1, "at_start": 1}
    (first,) = [f for f in of(found, Kind.REBALANCE) if f.group == "new"]
    assert first.causes[0].cause is Cause.FIRST_START


def test_of_a_shard_that_is_read_from_its_middle_a_first_record_says_little() -> None:
    topic = Topic(offset=500)
    topic.generation(0, 2, [BOTH])
    (found,) = of(findings(topic), Kind.REBALANCE)
    assert found.causes[0].cause is Cause.UNKNOWN
    assert of(findings(topic), Kind.REBALANCE_FAILED) == []


def test_many_numbers_missing_at_a_start_are_no_normal_start() -> None:
    topic = Topic()
    topic.generation(0, 0, [])
    topic.generation(20_000, 37, [BOTH])
    (failed,) = of(findings(topic), Kind.REBALANCE_FAILED)
    assert failed.details == {"failed": 36, "at_start": 0}


def downgraded(offset: int = 0) -> Topic:
    """A KIP-848 group of two, at epoch 3 when one of them left, becomes a classic group with the other."""
    topic = Epochs(offset=offset)
    topic.join(0, "m", 1, (0,))
    topic.join(1_000, "n", 2, ())
    topic.ack(2_000, "m", 2, (0,))
    topic.ack(2_000, "n", 2, (1,))
    topic.leave(60_000, "n", 3)
    for kind in (8, 7, 6, 5, 3):
        topic.put(60_000, kind, None, "m" if kind in {5, 7, 8} else "")
    topic.generation(60_000, 3, [Client("m", (0,))])
    return topic


@pytest.mark.parametrize("offset", [0, 500])
def test_a_group_that_was_downgraded_did_not_start_and_failed_nothing(offset: int) -> None:
    found = findings(downgraded(offset), until=5_000)
    assert of(found, Kind.REBALANCE_FAILED) == []
    last = of(found, Kind.REBALANCE)[-1]
    assert [entry.cause for entry in last.causes] == [Cause.GROUP_MIGRATED]
    assert [member.role for member in last.members] == ["kept"]


def test_a_migration_changes_no_later_finding() -> None:
    topic = downgraded()
    topic.generation(90_000, 5, [Client("m", (0,)), Client("c", (1,))])
    found = findings(topic, until=5_000)
    assert [failed.details["failed"] for failed in of(found, Kind.REBALANCE_FAILED)] == [1]
    assert of(found, Kind.REBALANCE)[-1].causes[0].cause is Cause.MEMBER_JOINED


def upgraded(members: list[Client], session: int | None = 6_000) -> Topic:
    """A classic group at generation 2 becomes a KIP-848 group as C joins with the new protocol."""
    topic = Epochs()
    topic.generation(0, 1, [Client(A, (0,))])
    topic.generation(1_000, 2, members)
    topic.tombstone(60_000)
    for member in members:
        topic.metadata(60_000, member.member_id, classic=session)
    if members:
        topic.bump(60_000, 2)
        topic.target(60_000, 2)
    for member in members:
        topic.ack(60_000, member.member_id, 2, member.partitions)
    topic.join(60_000, C, 3, ())
    for member in members:
        topic.ack(61_000, member.member_id, 3, member.partitions)
    return topic


@pytest.mark.parametrize("batch", [1, 5, 1_000])
def test_the_members_of_a_group_that_is_upgraded_were_there_before(batch: int) -> None:
    topic = upgraded([Client(A, (0,)), Client(B, (1,))])
    found = in_batches(topic, list(range(0, len(topic.rows), batch)))
    moved, joined = of(found, Kind.REBALANCE)[-2:]
    assert [entry.cause for entry in moved.causes] == [Cause.GROUP_MIGRATED]
    assert {member.role for member in moved.members} == {"kept"}
    assert [(entry.cause, entry.member_id) for entry in joined.causes] == [(Cause.MEMBER_JOINED, C)]


def test_an_empty_group_that_is_upgraded_by_its_first_member_starts() -> None:
    last = of(findings(upgraded([])), Kind.REBALANCE)[-1]
    assert [entry.cause for entry in last.causes] == [Cause.FIRST_START]


def test_a_convergence_is_a_start_only_where_the_epochs_before_are_known() -> None:
    def first(topic: Topic, history: int | None = None) -> Cause:
        return of(findings(topic, history=history), Kind.REBALANCE)[0].causes[0].cause

    def at(epoch: int, offset: int) -> Topic:
        topic = Epochs(offset=offset)
        topic.join(0, A, epoch, (0,))
        return topic

    # Compacted, and read as history; in the middle of its life; from the shard's beginning.
    assert first(at(57, 1_000), history=5_000) is Cause.UNKNOWN
    assert first(at(58, 1_000)) is Cause.UNKNOWN
    assert first(at(57, 0)) is Cause.UNKNOWN
    assert {first(at(epoch, 0)) for epoch in (1, 2)} == {Cause.FIRST_START}
    assert first(at(1, 1_000)) is Cause.FIRST_START


def test_a_group_of_epochs_that_was_empty_starts_again() -> None:
    topic = Epochs(offset=1_000)
    topic.join(0, A, 58, (0,))
    topic.leave(50_000, A, 59)
    topic.join(60_000, B, 60, (0,))
    assert of(findings(topic), Kind.REBALANCE)[-1].causes[0].cause is Cause.FIRST_START


def test_a_group_is_not_empty_for_want_of_members_that_were_read() -> None:
    """Another member may have acknowledged the epoch before: it does the next one within its session."""
    topic = Epochs(offset=1_000)
    topic.join(0, A, 58, (0,))
    topic.leave(10_000, A, 59)
    topic.target(10_000, 59)
    topic.ack(12_000, B, 59, (0,))
    assert not of(findings(topic), Kind.GROUP_EMPTY)


@pytest.mark.parametrize(
    ("first", "cause"), [(5, Cause.COOPERATIVE_FOLLOW_UP), (1, Cause.PARTITIONS_CHANGED)]
)
def test_partitions_that_the_first_record_withheld_were_not_added(first: int, cause: Cause) -> None:
    """A new group withholds nothing: nobody has any partition yet that it would have to give up."""
    topic = Topic()
    a, b = Client("a-1", (0, 1)), Client("b-1", (), host="/10.0.0.2")
    topic.generation(0, first, [a, b], protocol="cooperative-sticky")
    b = Client("b-1", (2, 3), host="/10.0.0.2")
    topic.generation(1_000, first + 1, [a, b], protocol="cooperative-sticky")
    assert of(findings(topic), Kind.REBALANCE)[-1].causes[0].cause is cause


def test_a_group_that_starts_by_a_clock_that_went_back_was_empty_for_no_time() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(60_000, 2, [])
    topic.generation(50_000, 3, [Client("a-2", (0,))])
    assert of(findings(topic), Kind.REBALANCE)[-1].causes[0].why == "empty for 0.0 s; 1 now"
