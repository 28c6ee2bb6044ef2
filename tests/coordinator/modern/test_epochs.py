"""Epoch-based groups (KIP-848): a convergence is one rebalance with a cause; only departures are a storm."""

from struct import pack

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import GroupOut
from tests.coordinator.support.epochs import SETTINGS, A, B, C, Epochs, compact, pair
from tests.coordinator.support.timeline import T0, P, S, findings, of, outputs


def test_two_joins_that_converge_are_one_rebalance_each() -> None:
    first, second = of(findings(pair(), SETTINGS), Kind.REBALANCE)
    assert [entry.cause for entry in first.causes] == [Cause.FIRST_START]
    assert (second.generation, second.previous_generation) == (2, 1)
    assert second.started_at_min == T0 + 1_000
    assert second.join_ms_min == second.join_ms_max == 1_000
    assert [entry.cause for entry in second.causes] == [Cause.MEMBER_JOINED]


def test_a_group_that_starts_again_on_another_topic_is_not_said_to_read_the_one_before() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.leave(60_000, A, 2)
    topic.metadata(90_000, B, topic="payments")
    topic.bump(90_000, 3)
    topic.target(90_000, 3)
    topic.ack(90_000, B, 3, (0, 1))
    first, second = of(findings(topic, SETTINGS), Kind.REBALANCE)
    assert (first.topics, second.topics) == (("orders",), ("payments",))


def test_epoch_bumps_of_one_convergence_are_one_rebalance() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.metadata(1_000, B)
    topic.bump(1_000, 2)
    topic.bump(1_100, 3)
    topic.target(1_200, 3)
    topic.ack(1_300, B, 3, (1,), state=2)
    topic.ack(1_400, A, 3, (0,))
    topic.ack(1_500, B, 3, (1,))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    assert (last.generation, last.details["bumps"]) == (3, 2)


def test_the_last_member_leaves_an_empty_group_and_the_next_one_resolves_it() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    topic.leave(10_000, A, 2)
    topic.join(60_000, B, 3, (0,))
    opened, resolved = of(findings(topic, SETTINGS), Kind.GROUP_EMPTY)
    assert (opened.phase, resolved.phase) == ("opened", "resolved")
    assert resolved.incident == opened.id


def test_the_tombstone_of_the_group_removes_it() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    topic.leave(10_000, A, 2)
    topic.put(60_000, 3, None)
    assert len(of(findings(topic, SETTINGS, until=5_000), Kind.GROUP_REMOVED)) == 1


def test_a_classic_member_without_a_session_of_its_own_has_the_groups() -> None:
    topic = pair()
    topic.metadata(3_000, A, classic=-1)
    topic.leave(20_000, A, 3)
    topic.target(20_000, 3)
    topic.ack(20_500, B, 3, (0, 1))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    assert [one.session_timeout_ms for one in last.members if one.role == "left"] == [S]


def test_the_summary_names_state_and_epoch() -> None:
    last = [out for out in outputs(pair(), SETTINGS, until=10_000) if isinstance(out, GroupOut)][-1]
    assert (last.summary["state"], last.summary["generation"], last.summary["members"]) == ("Stable", 2, 2)


def hashed(topic: Epochs, at: int, epoch: int, digest: int) -> None:
    topic.put(at, 3, b"\0\0" + pack(">i", epoch) + b"\1\0\x08" + pack(">q", digest))


def settle(topic: Epochs, at: int, epoch: int) -> Finding:
    topic.target(at, epoch)
    topic.ack(at, A, epoch, (0,))
    topic.ack(at, B, epoch, (1,))
    return of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]


def test_a_convergence_of_the_same_members_is_explained_by_hash_and_subscription() -> None:
    topic = pair()
    hashed(topic, 60_000, 3, 77)
    settle(topic, 60_100, 3)
    hashed(topic, 90_000, 4, 78)
    assert settle(topic, 90_100, 4).causes[0].cause is Cause.PARTITIONS_CHANGED
    value = (
        b"\0\0\0\0" + compact("c-zg") + compact("/10.0.0.1") + b"\3" + compact("orders") + compact("bills")
    )
    topic.put(120_000, 5, value + b"\0" + pack(">i", P) + b"\0\0", A)
    hashed(topic, 120_000, 5, 79)
    found = settle(topic, 120_100, 5)
    assert [(entry.cause, entry.member_id) for entry in found.causes] == [(Cause.SUBSCRIPTION_CHANGED, A)]


def test_topics_that_are_noted_anew_show_why_up_to_kafka_4_0_where_no_hash_does() -> None:
    topic = pair()
    topic.put(90_000, 4, b"\0\0\1\0")
    topic.bump(90_000, 3)
    cause = settle(topic, 90_100, 3).causes[0]
    assert (cause.cause, cause.confidence) == (Cause.PARTITIONS_CHANGED, 0.85)


def test_members_that_only_join_are_never_a_storm() -> None:
    topic = Epochs()
    for epoch in range(1, 12):
        topic.join(5_000 * epoch, f"member-{epoch}", epoch, (epoch,))
        for other in range(1, epoch):
            topic.ack(5_000 * epoch + 500, f"member-{other}", epoch, (other,))
    found = findings(topic, SETTINGS)
    assert len(of(found, Kind.REBALANCE)) == 11
    assert not of(found, Kind.STORM)


def test_departures_from_a_group_that_never_converges_are_a_storm() -> None:
    topic, epoch = pair(), 2
    topic.join(10_000, C, 3, ())
    topic.ack(10_100, A, 2, (0,), state=1)
    for loop in range(20):
        epoch += 2
        topic.leave(15_000 + 8_000 * loop, B, epoch)
        topic.join(18_000 + 8_000 * loop, B, epoch + 1, (1,))
    opened = of(findings(topic, SETTINGS), Kind.STORM)[0]
    assert (opened.phase, opened.details["worst_member"]) == ("opened", B)
    assert opened.at <= T0 + 15_000 + 5 * 8_000


def test_convergences_in_which_a_member_leaves_and_returns_count_twice_towards_a_storm() -> None:
    topic, epoch = pair(), 2
    for loop in range(3):
        at = 40_000 + 20_000 * loop
        topic.leave(at, B, epoch + 1)
        topic.join(at + 2_000, B, epoch + 2, (1,))
        topic.ack(at + 3_000, A, epoch + 2, (0,))
        epoch += 2
    storm = of(findings(topic, SETTINGS), Kind.STORM)
    assert storm[0].details["count"] == 5
    assert storm[0].at == T0 + 80_000
    assert storm[0].details["worst_member"] == B
