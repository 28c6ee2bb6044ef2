"""Share groups, groups of the streams protocol (KIP-932, KIP-1071), and Kafka Streams on the classic one."""

from struct import pack

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.epochs import A, B, Epochs, Share, Streams
from tests.coordinator.support.timeline import (
    T0,
    Client,
    P,
    S,
    Topic,
    blob,
    findings,
    in_batches,
    of,
    subscription,
    text,
)

SETTINGS = DetectionSettings(session_timeout_848_ms=S)


def pair(topic: Epochs) -> Epochs:
    """A and B joined one after the other and converged on epoch 2."""
    topic.join(0, A, 1, ())
    topic.join(1_000, B, 2, ())
    topic.ack(2_000, A, 2)
    return topic


def test_members_of_a_share_group_join_converge_and_leave() -> None:
    topic = pair(Share())
    topic.leave(5_000, B, 3)
    topic.target(6_000, 3)
    topic.ack(6_000, A, 3)
    topic.leave(60_000, A, 4)
    topic.put(90_000, 11, None)
    found = findings(topic, SETTINGS, until=5_000)
    assert {finding.group_type for finding in found} == {"share"}
    first, second, third = of(found, Kind.REBALANCE)
    assert [one.causes[0].cause for one in (first, second)] == [Cause.FIRST_START, Cause.MEMBER_JOINED]
    assert third.causes[0].cause is Cause.MEMBER_LEFT
    assert [one.phase for one in of(found, Kind.GROUP_EMPTY)] == ["opened", "resolved"]
    assert len(of(found, Kind.GROUP_REMOVED)) == 1


def test_why_a_share_member_went_after_its_session_could_have_expired_is_not_claimed() -> None:
    topic = pair(Share())
    topic.leave(30_000, B, 3)
    topic.target(31_000, 3)
    topic.ack(31_000, A, 3)
    found = findings(topic, SETTINGS)
    causes = {entry.cause: entry.confidence for entry in of(found, Kind.REBALANCE)[-1].causes}
    assert {Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT} <= causes.keys()
    assert max(causes.values()) < CLAIMED
    assert not of(found, Kind.SESSION_TIMEOUT)


def test_a_share_group_is_assigned_its_partitions_once_they_are_initialised() -> None:
    """The coordinator bumps the epoch for that (`initializedAssignmentPending`)."""
    topic = Share()
    topic.join(0, A, 1, ())
    topic.bump(5_000, 2)
    topic.target(5_000, 2)
    topic.ack(5_000, A, 2, (0, 1))
    cause = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1].causes[0]
    assert cause.cause is Cause.UNKNOWN
    assert "initialised" in cause.why


def test_a_share_group_that_is_gone_was_deleted_however_long_it_was_empty() -> None:
    topic = Share()
    topic.join(0, A, 1, ())
    topic.leave(60_000, A, 2)
    for kind in (12, 15, 11):
        topic.put(60_000 + 8 * 86_400_000, kind, None)
    topic.tombstone(60_000 + 8 * 86_400_000 + 5_000)
    (removed,) = of(in_batches(topic, [], clocks=False), Kind.GROUP_REMOVED)
    assert removed.causes[0].cause is Cause.GROUP_DELETED_BY_ADMIN


def test_a_streams_group_that_notes_which_description_is_stored_does_not_rebalance() -> None:
    """It stands beside the epoch, which stays (`markStoredDescriptionTopologyEpochUncertain`, 4.4)."""
    topic = pair(Streams())
    topic.bump(60_000, 2)
    topic.bump(60_100, 2)
    found = findings(topic, SETTINGS)
    assert [one.generation for one in of(found, Kind.REBALANCE)] == [1, 2]
    topic.bump(90_000, 3)
    topic.target(90_000, 3)
    topic.ack(90_000, A, 3)
    topic.ack(91_000, B, 3)
    assert of(findings(topic, SETTINGS), Kind.REBALANCE)[-1].details["bumps"] == 1


def test_the_steps_of_a_streams_group_that_warms_up_tasks_are_no_storm() -> None:
    topic = pair(Streams())
    for step in range(3, 12):
        topic.bump(step * 40_000, step)
        topic.target(step * 40_000, step)
        topic.ack(step * 40_000, A, step)
        topic.ack(step * 40_000 + 1_000, B, step)
    found = findings(topic, SETTINGS)
    assert not of(found, Kind.STORM)
    assert {cause.cause for cause in of(found, Kind.REBALANCE)[-1].causes} == {Cause.UNKNOWN}


def test_members_of_a_streams_group_converge_when_all_have_the_epoch() -> None:
    found = findings(pair(Streams()), SETTINGS)
    first, second = of(found, Kind.REBALANCE)
    assert {finding.group_type for finding in found} == {"streams"}
    assert (first.generation, second.generation, second.details["bumps"]) == (1, 2, 1)
    assert second.join_ms_min == second.join_ms_max == 1_000


def test_a_streams_member_that_does_not_give_up_its_tasks_passes_its_deadline_and_is_fenced() -> None:
    topic = pair(Streams())
    topic.bump(10_000, 3)
    topic.target(10_100, 3)
    topic.ack(10_200, B, 3)
    topic.ack(10_200, A, 2, state=2)
    topic.leave(10_200 + P + 1_300, A, 4)
    topic.target(20_000, 4)
    topic.ack(20_000, B, 4)
    found = findings(topic, DetectionSettings(grace_ms=0), until=2_000)
    opened, resolved = of(found, Kind.MEMBER_SILENT)
    assert (opened.details["deadline"], opened.at) == ("rebalance", T0 + 10_200 + P)
    assert resolved.resolution == "confirmed"
    cause = of(found, Kind.REBALANCE)[-1].causes[0]
    assert (cause.cause, cause.confidence) == (Cause.JOIN_DEADLINE_MISSED, 0.95)


def streams_generation(topic: Topic, at: int, number: int, members: dict[str, int], probing: int) -> None:
    """A generation of Kafka Streams on the classic protocol; `probing`: the follow-up it announces, ms."""
    value = pack(">h", 3) + text("consumer") + pack(">i", number) + text("stream") + text(next(iter(members)))
    value += pack(">qi", T0 + at - 20, len(members))
    for name, partition in members.items():
        value += text(name) + text(None) + text(f"app-{name}-StreamThread-1-consumer") + text("/10.0.0.1")
        value += pack(">ii", 300_000, S) + blob(subscription(("orders",)))
        user = pack(">ii", 11, 11) + pack(">q", T0 + probing)
        value += blob(pack(">hi", 1, 1) + text("orders") + pack(">ii", 1, partition) + blob(user))
    topic.record(at, b"\0\2" + text(topic.group), value)


def test_a_stopped_streams_application_expires_as_information_that_says_why() -> None:
    topic = Topic()
    streams_generation(topic, 0, 1, {"a": 0, "b": 1}, 600_000)
    for at in range(1_000, 40_000, 500):
        topic.commit(at, {0: at})
        if at <= 30_000:
            topic.commit(at + 100, {1: at})
    streams_generation(topic, 30_100 + S + 400, 2, {"a": 0}, 600_000)
    found = findings(topic, until=1_000)
    (named,) = of(found, Kind.SESSION_TIMEOUT)
    assert (named.severity, named.members[0].member_id) == (Severity.INFO, "b")
    assert "a planned stop looks the same" in named.causes[0].why


def test_an_announced_follow_up_of_kafka_streams_is_a_probing_rebalance_and_no_storm() -> None:
    topic = Topic()
    for number in range(1, 9):
        streams_generation(topic, number * 40_000, number, {"a": 0, "b": 1}, number * 40_000 + 40_000)
    found = findings(topic)
    causes = [finding.causes[0].cause for finding in of(found, Kind.REBALANCE)]
    assert causes == [Cause.FIRST_START, *[Cause.STREAMS_PROBING] * 7]
    assert not of(found, Kind.STORM)


@pytest.mark.parametrize(("late", "least"), [(9_000, 0.85), (30_000, 0.8), (290_000, 0.6)])
def test_a_probing_rebalance_that_waits_for_a_slow_thread_is_the_announced_one(
    late: int, least: float
) -> None:
    topic, at = Topic(), 0
    for number in range(1, 9):
        streams_generation(topic, at, number, {"a": 0, "b": 1}, at + 60_000)
        at += 60_000 + late
    found = findings(topic)
    causes = [finding.causes[0] for finding in of(found, Kind.REBALANCE)[1:]]
    assert {cause.cause for cause in causes} == {Cause.STREAMS_PROBING}
    assert least <= causes[0].confidence <= 0.9
    assert not of(found, Kind.STORM)


def test_what_comes_later_than_any_join_phase_lasts_is_no_probing_rebalance() -> None:
    topic = Topic()
    streams_generation(topic, 0, 1, {"a": 0, "b": 1}, 60_000)
    streams_generation(topic, 361_000, 2, {"a": 0, "b": 1}, 600_000)
    assert of(findings(topic), Kind.REBALANCE)[1].causes[0].cause is Cause.LEADER_REJOINED


def test_a_streams_instance_that_was_stopped_expired_though_it_commits_once_in_half_a_minute() -> None:
    """Kafka Streams at its defaults: no goodbye, and to breach its poll interval takes five minutes."""
    members = [
        Client(
            f"s{number}",
            (number,),
            f"app-1-StreamThread-{number}-consumer",
            f"/10.0.0.{number}",
            session=45_000,
            rebalance=300_000,
        )
        for number in range(3)
    ]
    topic = Topic()
    topic.generation(0, 1, members, protocol="stream")
    for number, member in enumerate(members):
        until = 900_000 if number < 2 else 600_000
        topic.commits(10_000 + number * 200, until, member, every=30_000, moving=1)
    topic.generation(646_500, 2, members[:2], protocol="stream")
    found = findings(topic.sorted())
    (gone,) = of(found, Kind.SESSION_TIMEOUT)
    assert (gone.members[0].member_id, gone.severity) == ("s2", Severity.INFO)
    assert gone.confidence >= 0.8
