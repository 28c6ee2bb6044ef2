"""What commits suggest of a held barrier, and what records say of a group that does not converge."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.deadlines.stuck_limits import MOST_MS
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.epochs import SETTINGS as EPOCHS
from tests.coordinator.support.epochs import A, B, C, Epochs, pair
from tests.coordinator.support.timeline import T0, Client, Topic, findings, in_batches, of

MEMBERS = [Client(f"m{i}-1", (i,), f"consumer-{i}", f"/10.0.0.{i}", session=10_000) for i in range(3)]
MINUTE = replace(EPOCHS, stuck_after_ms=60_000)
BARRIER = {Kind.REBALANCE_IN_PROGRESS, Kind.REBALANCE_STUCK}


def held(*, stalled: int = -1, others: bool = True, protocol: str = "range", until: int = 130_000) -> Topic:
    """Members commit idly until 30 s and then no more; one may have stopped at 20 s."""
    topic = Topic()
    topic.generation(0, 1, MEMBERS, protocol=protocol)
    for index, member in enumerate(MEMBERS):
        topic.commits(1_000 + index, 20_000 if index == stalled else 30_000, member)
    if others:
        for at in range(1_000, until, 1_000):
            topic.record(at + 500, b"\0\2\0\5other", None, "other")
    return topic.sorted()


def barrier(topic: Topic, until: int = 0) -> list[Finding]:
    return [found for found in findings(topic, until=until) if found.kind in BARRIER]


def test_members_that_stop_together_suggest_a_rebalance_that_becomes_stuck() -> None:
    progress, stuck = barrier(held())
    assert (progress.kind, progress.evidence, progress.phase) == (
        Kind.REBALANCE_IN_PROGRESS,
        "suspected",
        "opened",
    )
    assert T0 + 29_000 < (progress.started_at_min or 0) <= T0 + 30_000
    assert (stuck.kind, stuck.severity) == (Kind.REBALANCE_STUCK, Severity.WARNING)
    assert stuck.details["duration_ms"] >= MOST_MS


def test_the_member_that_the_others_wait_for_is_named() -> None:
    topic = held(stalled=1)
    named = [found for found in barrier(topic) if found.members]
    assert named
    assert {member.client_id for found in named for member in found.members} == {"consumer-1"}


def test_the_next_generation_completes_it_and_a_commit_withdraws_it() -> None:
    topic = held(until=50_000)
    topic.generation(60_000, 2, MEMBERS)
    assert [(found.phase, found.resolution) for found in barrier(topic)] == [
        ("opened", None),
        ("resolved", "completed"),
    ]
    topic = held(until=50_000)
    topic.commit(60_000, {0: 100})
    assert barrier(topic)[-1].resolution == "withdrawn"


def test_a_group_alone_in_its_shard_may_only_have_lost_its_coordinator() -> None:
    assert barrier(held(others=False), until=120_000) == []


def test_cooperative_members_keep_committing_in_a_join_phase_so_nothing_is_said() -> None:
    assert barrier(held(protocol="cooperative-sticky")) == []


def test_members_that_commit_only_progress_say_nothing_by_stopping() -> None:
    topic = Topic()
    clients = [Client(f"r{i}-1", (i,), "rdkafka", session=10_000) for i in range(2)]
    topic.generation(0, 1, clients)
    for index, client in enumerate(clients):
        topic.commits(1_000 + index, 30_000, client, moving=5)
    for at in range(1_000, 130_000, 1_000):
        topic.record(at + 500, b"\0\2\0\5other", None, "other")
    assert barrier(topic.sorted()) == []


def test_the_probe_that_sees_the_group_knows_better() -> None:
    suspected = barrier(held())
    live = Live(DetectionSettings(), "c1")
    live.on_samples([ProbeSample(suspected[0].at - 500, (), (), ((1, True),))])
    assert live.refine(suspected[:1]) == []
    assert Live(DetectionSettings(), "c1").refine(suspected) == suspected


def test_a_probe_that_gets_no_answer_does_not_overrule_what_commits_suggest() -> None:
    suspected = barrier(held())
    live = Live(DetectionSettings(), "c1")
    live.on_samples([ProbeSample(suspected[0].at - 500, (), (), ((1, True), (2, False)))])
    assert live.refine(suspected[:1]) == suspected[:1]


def test_partitions_given_up_before_any_bump_begin_a_convergence_of_their_own_and_end_it() -> None:
    """From 4.2 on a member that asks for another pattern revokes at once; the bump waits for its topics."""
    topic = pair()
    topic.metadata(700_000, A, topic="payments")
    topic.ack(700_000, A, 2, (), state=1)
    assert not of(findings(topic, MINUTE, until=60_000), Kind.REBALANCE_STUCK)
    opened = of(findings(topic, MINUTE, until=65_000), Kind.REBALANCE_STUCK)
    assert [found.started_at_min for found in opened] == [T0 + 700_000]
    topic.ack(770_000, A, 2, ())
    resolved = of(findings(topic, MINUTE), Kind.REBALANCE_STUCK)[-1]
    assert (resolved.phase, resolved.details["duration_ms"]) == ("resolved", 70_000)


def test_a_clock_amid_the_first_write_of_a_group_shows_no_join_phase() -> None:
    topic = pair()
    for cut in range(1, 4):
        told = in_batches(topic, [cut])
        assert not of(told, Kind.REBALANCE_STUCK)


def test_a_stuck_convergence_does_not_wait_for_a_static_member_that_has_said_that_it_goes() -> None:
    topic = pair()
    topic.join(10_000, C, 3, (), instance="s")
    topic.ack(10_500, C, -2)
    topic.ack(11_000, B, 3, (1,))
    (stuck,) = of(findings(topic, EPOCHS, until=70_000), Kind.REBALANCE_STUCK)
    assert [member.member_id for member in stuck.members] == [A]


def test_a_group_that_grows_and_acknowledges_each_epoch_is_not_stuck() -> None:
    """One member more every three seconds for three minutes, each at the newest epoch within five."""
    topic, members = pair(), [A, B]
    for number in range(3, 63):
        at = number * 3_000
        members.append(f"member-{number}")
        topic.join(at, members[-1], number, ())
        topic.ack(at + 1_000, members[number % (number - 1)], number, ())
        for place, member in enumerate(members):
            if place % 2 == number % 2:
                topic.ack(at + 2_000, member, number, ())
    assert not of(findings(topic, EPOCHS), Kind.REBALANCE_STUCK)


def test_one_that_does_not_acknowledge_is_named_however_many_come_meanwhile() -> None:
    topic = pair()
    for number in range(3, 40):
        at = number * 3_000
        topic.join(at, f"member-{number}", number, ())
        topic.ack(at + 1_000, A, number, (0,))
        topic.ack(at + 1_500, f"member-{number - 1}", number, ())
    (stuck,) = of(findings(topic, EPOCHS), Kind.REBALANCE_STUCK)
    assert stuck.started_at_min == T0 + 9_000
    assert stuck.members[0].member_id == B


def test_it_is_one_incident_from_its_warning_on_however_many_come_meanwhile() -> None:
    topic = pair()
    for number in range(3, 20):
        at = number * 3_000
        topic.join(at, f"member-{number}", number, ())
        topic.ack(at + 1_000, A, number, (0,))
    stuck = of(findings(topic, replace(EPOCHS, stuck_after_ms=5_000)), Kind.REBALANCE_STUCK)
    assert [(one.phase, one.severity) for one in stuck] == [
        ("opened", Severity.WARNING),
        ("updated", Severity.CRITICAL),
    ]
    assert {one.incident for one in stuck} == {stuck[0].id}


def test_that_waits_for_partitions_of_others_is_not_to_blame() -> None:
    topic = pair()
    topic.join(10_000, C, 3, ())
    topic.ack(10_500, C, 3, (), state=2)
    topic.ack(11_000, A, 2, (0,), state=1)
    topic.ack(11_500, B, 3, (1,))
    (stuck,) = of(findings(topic, EPOCHS, until=120_000), Kind.REBALANCE_STUCK)
    assert [member.member_id for member in stuck.members] == [A]


def test_a_group_that_grows_is_not_stuck_once_the_awaited_member_acknowledges() -> None:
    topic = pair()
    for number in range(3, 120):
        at = number * 3_000
        topic.join(at, f"member-{number}", number, ())
        for place, member in enumerate((A, *(f"member-{one}" for one in range(3, number)))):
            topic.ack(at + 1_000 + place, member, number, ())
        if not 3 <= number < 60:
            topic.ack(at + 2_000, B, number, (1,))
    stuck = of(findings(topic, EPOCHS), Kind.REBALANCE_STUCK)
    assert [found.phase for found in stuck] == ["opened", "resolved"]
    assert stuck[1].at == T0 + 60 * 3_000 + 2_000


def test_a_group_whose_target_lags_behind_its_epoch_is_not_stuck_as_long_as_members_acknowledge() -> None:
    topic = pair()
    for number in range(3, 60):
        at = number * 3_000
        topic.bump(at, number)
        topic.target(at + 500, number - 1)
        for place, member in enumerate((A, B)):
            topic.ack(at + 1_000 + place, member, number - 1, (place,))
    assert not of(findings(topic, EPOCHS), Kind.REBALANCE_STUCK)


def revoking(until: int) -> Epochs:
    """C joins at 10 s; A has partitions to give up for it, and does not until it is fenced at `until`."""
    topic = pair()
    topic.join(10_000, C, 3, ())
    topic.ack(10_500, A, 2, (0,), state=1)
    topic.ack(11_000, B, 3, (1,))
    if until > 69_000:
        topic.join(69_000, "member-4", 4, ())
        topic.ack(73_500, B, 4, (1,))
        topic.ack(73_600, C, 4, ())
    topic.leave(until, A, 5)
    return topic


def test_a_group_waits_for_no_member_before_an_epoch_is_unacknowledged() -> None:
    topic = revoking(65_000)
    topic.target(74_000, 5)
    topic.ack(76_000, B, 5, (0, 1))
    topic.ack(78_000, C, 5, (2,))
    assert not of(findings(topic, MINUTE), Kind.REBALANCE_STUCK)


def test_a_stuck_group_does_not_name_members_before_their_next_heartbeat() -> None:
    opened, resolved = of(findings(revoking(310_000), MINUTE), Kind.REBALANCE_STUCK)
    assert (opened.at - T0, opened.started_at_min) == (72_000, T0 + 10_500)
    assert [member.member_id for member in opened.members] == [A]
    assert (resolved.at, resolved.resolution) == (T0 + 310_000, "completed")


def test_a_group_is_stuck_until_each_one_that_was_named_has_acknowledged() -> None:
    topic = pair()
    topic.join(10_000, C, 3, ())
    topic.ack(10_500, A, 2, (), state=1)
    topic.ack(40_000, B, 2, (), state=1)
    topic.ack(80_000, A, 3, (0,))
    topic.ack(100_000, B, 3, (1,))
    opened, resolved = of(findings(topic, MINUTE), Kind.REBALANCE_STUCK)
    assert [member.member_id for member in opened.members] == [A, B]
    assert resolved.at == T0 + 100_000


@pytest.mark.parametrize(("rebalance", "warns"), [(30_000, 20_000), (80_000, 40_000), (300_000, 60_000)])
def test_a_convergence_is_stuck_at_half_of_the_rebalance_timeout_of_the_awaited_member(
    rebalance: int, warns: int
) -> None:
    topic, patient = pair(), replace(EPOCHS, session_timeout_848_ms=90_000)
    topic.metadata(3_000, A, rebalance=rebalance)
    topic.join(10_000, C, 3, ())
    topic.ack(10_500, A, 2, (0,), state=1)
    topic.ack(11_000, B, 3, (1,))
    early = findings(topic, patient, until=warns - 3_000)
    (stuck,) = of(findings(topic, patient, until=warns + 3_000), Kind.REBALANCE_STUCK)
    assert not of(early, Kind.REBALANCE_STUCK)
    assert (stuck.severity, stuck.details["threshold_ms"]) == (Severity.WARNING, warns)
    assert [member.member_id for member in stuck.members] == [A]
