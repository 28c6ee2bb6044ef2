"""Groups that go as a whole, or on as a group of another protocol: what their tombstones say."""

from struct import pack

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import RemovedOut
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from tests.coordinator.classic.test_other_protocols import Streams
from tests.coordinator.support.epochs import SETTINGS, A, Epochs, compact
from tests.coordinator.support.timeline import (
    T0,
    Client,
    P,
    S,
    findings,
    in_batches,
    metadata,
    of,
    outputs,
    text,
)

MEMBERS = 8
NEW = [f"new-{number}" for number in range(MEMBERS - 1)]


def downgraded() -> Epochs:
    """Clients go back to the classic protocol one after the other; when the last one goes, the group does.

    Its tombstones are those that `ConsumerGroup.createGroupTombstoneRecords` writes, in that order.
    """
    topic, old = Epochs(), [f"old-{number}" for number in range(MEMBERS)]
    for epoch, name in enumerate(old, 1):
        topic.join(1_000 * epoch, name, epoch, (epoch,))
        for other in old[: epoch - 1]:
            topic.ack(1_000 * epoch + 100, other, epoch, ())
    epoch, at = MEMBERS, 600_000
    for gone, came in zip(old, NEW, strict=False):
        topic.leave(at, gone, epoch + 1)
        topic.metadata(at + 1_000, came, classic=S)
        epoch += 2
        topic.bump(at + 1_000, epoch)
        topic.target(at + 1_000, epoch)
        there = [*old[old.index(gone) + 1 :], *NEW[: NEW.index(came) + 1]]
        for name in there:
            topic.ack(at + 2_000, name, epoch, ())
        at += 10_000
    for kind in (8, 7, 6, 5):
        for name in there if kind != 6 else [""]:
            topic.put(at, kind, None, name)
    topic.put(at, 4, None)
    topic.put(at, 3, None)
    stayed = [Client(name, (number,)) for number, name in enumerate(NEW)]
    topic.record(at, b"\0\2" + text("g"), metadata(epoch, stayed, T0 + at))
    return topic


def test_members_that_a_downgrade_takes_along_did_not_leave_and_are_no_storm() -> None:
    found = findings(downgraded(), SETTINGS, until=5_000)
    (migrated,) = of(found, Kind.GROUP_MIGRATED)
    assert (migrated.details, migrated.members_total) == ({"from": "consumer", "to": "classic"}, MEMBERS)
    assert not of(found, Kind.STORM)
    last = of(found, Kind.REBALANCE)[-1]
    assert (last.group_type, last.members_affected) == ("classic", 0)


def test_the_rebalance_that_a_downgrade_begins_is_the_migrations_and_the_next_one_is_none() -> None:
    topic, stayed = downgraded(), [Client(name, (number,)) for number, name in enumerate(NEW)]
    at, epoch = topic.rows[-1].record_ts - T0, 3 * MEMBERS - 2
    topic.generation(at + 3_000, epoch + 1, stayed)
    topic.generation(at + 6_000, epoch + 2, stayed)
    *_, downgrade, follow, other = of(findings(topic, SETTINGS, until=5_000), Kind.REBALANCE)
    assert [one.generation for one in (downgrade, follow, other)] == [epoch, epoch + 1, epoch + 2]
    assert [one.causes[0].cause for one in (downgrade, follow)] == [Cause.GROUP_MIGRATED] * 2
    assert all(entry.cause is not Cause.COORDINATOR_MOVED for entry in follow.causes)
    assert other.causes[0].cause is Cause.LEADER_REJOINED


def test_what_comes_later_than_the_join_phase_of_a_downgrade_is_not_its_own() -> None:
    topic, stayed = downgraded(), [Client(name, (number,)) for number, name in enumerate(NEW)]
    at = topic.rows[-1].record_ts - T0
    topic.generation(at + P + 6_000, 3 * MEMBERS - 1, stayed)
    last = of(findings(topic, SETTINGS, until=5_000), Kind.REBALANCE)[-1]
    assert last.causes[0].cause is Cause.LEADER_REJOINED


def test_a_downgrade_that_is_cut_anywhere_is_published_alike() -> None:
    topic = downgraded()
    whole, end = in_batches(topic, [], clocks=False), len(topic.rows)
    assert all(in_batches(topic, [cut], clocks=False) == whole for cut in range(end - 25, end))


def streams(at: int) -> Streams:
    """A streams group that is empty from 60 s on and goes at `at`: its topology's tombstone comes last."""
    topic = Streams()
    topic.metadata(0, A)
    topic.bump(0, 1)
    topic.target(0, 1)
    topic.ack(0, A, 1)
    for kind in (22, 21, 19):
        topic.put(60_000, kind, None, A)
    topic.bump(60_000, 2)
    for kind in (20, 17, 23):
        topic.put(at, kind, None)
    return topic


def test_a_streams_group_that_goes_on_with_the_classic_protocol_was_not_removed() -> None:
    topic = streams(90_000)
    topic.record(90_000, b"\0\2" + text("g"), metadata(0, [], T0 + 90_000))
    found = findings(topic, SETTINGS, until=5_000)
    assert not of(found, Kind.GROUP_REMOVED)
    (migrated,) = of(found, Kind.GROUP_MIGRATED)
    assert migrated.details == {"from": "streams", "to": "classic"}
    assert not [out for out in outputs(topic, SETTINGS, until=5_000) if isinstance(out, RemovedOut)]


def test_a_streams_group_of_which_nothing_follows_was_removed() -> None:
    alone, follows = streams(90_000), streams(90_000)
    follows.record(90_000, b"\0\2" + text("other"), metadata(0, [], T0 + 90_000), "other")
    for topic in (alone, follows):
        assert len(of(findings(topic, SETTINGS, until=5_000), Kind.GROUP_REMOVED)) == 1


@pytest.mark.parametrize(("user_data", "family"), [(-1, "java"), (0, "librdkafka")])
def test_a_member_that_speaks_the_classic_protocol_is_known_by_how_it_joined(
    user_data: int, family: str
) -> None:
    """The broker makes its id, which looks like one that a Java client made for itself."""
    joins = pack(">hi", 3, 1) + text("orders") + pack(">iii", user_data, 0, -1) + text(None)
    protocol = compact("range") + bytes([len(joins) + 1]) + joins + b"\0"
    own = b"\1" + pack(">i", S) + b"\2" + protocol + b"\0"
    value = b"\0\0\0\0" + compact("billing") + compact("/h") + b"\2" + compact("orders") + b"\0"
    topic = Epochs()
    topic.put(
        0, 5, value + pack(">i", P) + b"\0" + b"\1\0" + bytes([len(own)]) + own, "k5AKl_XXSA2_Ho3RQc0IVw"
    )
    shard = ShardCoordinator(new_shard_state(7, 0, None), SETTINGS, "c1")
    shard.on_row(topic.rows[0])
    (member,) = shard.state.groups["g"].members
    assert (member.family, member.session_timeout) == (family, S)
