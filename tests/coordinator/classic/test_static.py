"""Static members that went: expired, or removed by an administrator, or nobody can say."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.storms.static_takeovers import AGAIN, WINDOW_MS
from rebalance_monitor.engine.replay.replaying import replay_capture
from tests.coordinator.support.epochs import SETTINGS, Epochs
from tests.coordinator.support.epochs import A as ONE
from tests.coordinator.support.epochs import B as OTHER
from tests.coordinator.support.timeline import T0, Client, S, Topic, findings, metadata, text

CLIENTS = ("consumer-g-1", "rdkafka", "kgo")


def pair(client_id: str, **limits: int) -> tuple[Client, Client]:
    one = Client("a-1", (0, 1), client_id, instance_id="a", **limits)
    return one, Client("b-1", (2, 3), client_id, "/10.0.0.2", instance_id="b", **limits)


def causes(found: list[Finding]) -> tuple[CauseEntry, ...]:
    return [finding for finding in found if finding.kind is Kind.REBALANCE][-1].causes


def gone(client_id: str, last: int, at: int, *, moving: int = 5, **limits: int) -> tuple[CauseEntry, ...]:
    """B committed every second until `last` and A until the end; B is missing in the generation at `at`."""
    a, b = pair(client_id, **limits)
    topic = Topic()
    topic.generation(0, 1, [a, b])
    topic.commits(500, at - 500, a, moving=moving)
    topic.commits(600, last, b, moving=moving)
    topic.generation(at, 2, [a])
    return causes(findings(topic.sorted()))


def restarted(client_id: str, at: int, *, moving: int) -> list[Finding]:
    """B committed until it came back under a new id at 100 s, never after, and is gone at `at`."""
    a, b = pair(client_id)
    topic = Topic()
    topic.generation(0, 1, [a, b])
    topic.commits(500, at - 200, a, moving=moving)
    topic.commits(600, 99_600, b, moving=moving)
    again = metadata(1, [a, replace(b, member_id="b-2")], T0 - 20)
    topic.record(100_000, b"\0\2" + text("g"), again)
    topic.generation(at, 2, [a])
    return findings(topic.sorted())


@pytest.mark.parametrize("client_id", CLIENTS)
def test_one_that_had_nothing_to_commit_before_it_crashed_was_not_removed_by_an_administrator(
    client_id: str,
) -> None:
    """Steady until 100 s, idle for two minutes, and gone a session after that."""
    found = gone(client_id, 100_600, 265_500, session=45_000, rebalance=300_000)
    assert found[0].cause in {Cause.UNKNOWN, Cause.STATIC_MEMBER_EXPIRED}
    assert all(one.cause is not Cause.MEMBER_REMOVED_BY_ADMIN or one.confidence < 0.2 for one in found)


@given(st.sampled_from(CLIENTS), st.integers(S, 60_000), st.sampled_from([0, 5]))
def test_no_silence_of_a_session_is_said_to_be_an_administrators_removal(
    client_id: str, silence: int, moving: int
) -> None:
    found = gone(client_id, 20_600, 20_600 + silence + 20, moving=moving)
    assert found[0].cause is not Cause.MEMBER_REMOVED_BY_ADMIN


@pytest.mark.parametrize("client_id", CLIENTS)
def test_one_that_goes_before_its_session_can_have_expired_was_removed(client_id: str) -> None:
    assert gone(client_id, 20_600, 22_600)[0].cause is Cause.MEMBER_REMOVED_BY_ADMIN


def test_the_session_of_one_that_came_back_begins_as_it_does() -> None:
    expired = causes(restarted("consumer-g-1", 107_000, moving=0))
    assert expired[0].cause is Cause.STATIC_MEMBER_EXPIRED
    assert expired[0].confidence >= CLAIMED


@pytest.mark.parametrize("client_id", CLIENTS)
@pytest.mark.parametrize("moving", [0, 5])
def test_one_that_came_back_cannot_have_expired_before_a_session_has_passed(
    client_id: str, moving: int
) -> None:
    found = restarted(client_id, 103_000, moving=moving)
    assert not [finding for finding in found if finding.kind is Kind.SESSION_TIMEOUT]
    assert all(one.cause is not Cause.STATIC_MEMBER_EXPIRED for one in causes(found))
    assert not any("103.0 s" in one.why for one in causes(found))


@given(st.sampled_from(CLIENTS), st.integers(S + 3_000, 10**7))
def test_of_one_that_never_committed_nothing_but_an_expiry_is_claimed_after_any_time(
    client_id: str, elapsed: int
) -> None:
    """No client sends LeaveGroup for a static member, and administrators remove few."""
    a, b = pair(client_id)
    topic = Topic()
    topic.generation(0, 1, [a, b])
    topic.generation(elapsed, 2, [a])
    claimed = {one.cause for one in causes(findings(topic)) if one.confidence >= CLAIMED}
    assert claimed <= {Cause.STATIC_MEMBER_EXPIRED}


def fenced(last: int, at: int, *, every: int = 1_000, said: bool = False) -> tuple[CauseEntry, ...]:
    """A static KIP-848 member committed until `last`, said at its end that it goes, and is fenced at `at`."""
    topic = Epochs()
    topic.join(0, ONE, 1, (0, 1))
    topic.join(1_000, OTHER, 2, (), instance="s")
    topic.ack(2_000, ONE, 2, (0,))
    topic.ack(2_500, OTHER, 2, (1,))
    for at_ in range(3_000, last + 1, every):
        topic.commit(at_, {1: at_})
    if said:
        topic.ack(last, OTHER, -2, (1,))
    topic.leave(at, OTHER, 3)
    topic.target(at + 500, 3)
    topic.ack(at + 500, ONE, 3, (0, 1))
    return causes(findings(topic, SETTINGS))


@given(st.integers(10 * S, 10**7))
def test_a_silence_that_means_nothing_is_no_expiry_in_a_group_of_epochs(silence: int) -> None:
    assert all(one.confidence < CLAIMED for one in fenced(2_999, 2_500 + silence))


def test_a_silence_that_fits_its_session_is_an_expiry_in_a_group_of_epochs() -> None:
    found = fenced(60_000, 60_000 + S + 100)
    assert found[0].cause is Cause.STATIC_MEMBER_EXPIRED
    assert found[0].confidence >= CLAIMED


@given(st.integers(S, 10**7))
def test_one_that_announced_its_departure_expired_whatever_it_committed(silence: int) -> None:
    found = fenced(60_000, 60_000 + silence, every=30_000, said=True)
    assert (found[0].cause, found[0].confidence) == (Cause.STATIC_MEMBER_EXPIRED, 0.9)


def came_back(
    at: int, *, host: str = "/10.0.0.2", others: tuple[Client, ...] = (), generation: int = 2
) -> Finding:
    """B committed until 100 s and is back under a new id, in the generation at `at`; A until then."""
    a, b = pair("consumer-g-1")
    topic = Topic()
    topic.generation(0, 1, [a, b])
    topic.commits(500, at - 200, a)
    topic.commits(600, 100_000, b)
    topic.generation(at, generation, [a, replace(b, member_id="b-2", host=host), *others])
    return [finding for finding in findings(topic.sorted()) if finding.kind is Kind.REBALANCE][-1]


def test_one_that_is_back_in_the_join_phase_that_its_expiry_began_has_expired() -> None:
    told = came_back(106_600)
    expired = next(one for one in told.causes if one.member_id == "b-1")
    assert (expired.cause, expired.confidence >= CLAIMED) == (Cause.STATIC_MEMBER_EXPIRED, True)
    assert all(one.cause is not Cause.STATIC_MEMBER_REPLACED for one in told.causes)
    assert {(one.member_id, one.role) for one in told.members if one.role != "kept"} == {
        ("b-1", "left"),
        ("b-2", "joined"),
    }


def test_one_that_may_have_come_back_before_a_generation_failed_is_not_said_to_have_expired() -> None:
    told = came_back(106_600, generation=3)
    assert all(one.cause is not Cause.STATIC_MEMBER_EXPIRED for one in told.causes)


def test_one_whose_host_is_another_had_been_removed_before_it_came_back() -> None:
    told = came_back(102_000, host="/10.0.0.9")
    assert [one.role for one in told.members if one.instance_id == "b"] == ["left", "joined"]
    assert all(one.cause is not Cause.STATIC_MEMBER_REPLACED for one in told.causes)


def test_one_that_took_its_own_place_in_a_join_phase_keeps_the_host_of_the_process_before_it() -> None:
    other = Client("c-1", (), "consumer-g-2", "/10.0.0.3")
    told = came_back(102_000, others=(other,))
    assert Cause.STATIC_MEMBER_REPLACED in {one.cause for one in told.causes}
    (back,) = (one for one in told.members if one.role == "replaced")
    assert (back.member_id, back.host_is_stale) == ("b-2", True)


def test_the_wait_of_a_join_phase_that_a_replaced_member_ended_is_not_held_to_be_none() -> None:
    """B expired; A, the only other one, was restarted meanwhile and back after three seconds."""
    a, b = pair("consumer-g-1")
    topic = Topic()
    topic.generation(0, 1, [a, b])
    topic.commits(500, 106_500, a)
    topic.commits(600, 100_600, b)
    topic.generation(109_600, 2, [replace(a, member_id="a-2")])
    first = causes(findings(topic.sorted()))
    gone_b = next(one for one in first if one.member_id == "b-1")
    assert gone_b.cause is Cause.STATIC_MEMBER_EXPIRED


def returns(times: list[int]) -> list[Finding]:
    """B comes back under another id at each of these times (ms), in the same generation."""
    a, b = pair("consumer-g-1")
    topic = Topic()
    topic.generation(0, 1, [a, b])
    for number, at in enumerate(times):
        again = metadata(1, [a, replace(b, member_id=f"b-{number + 2}")], T0 - 20)
        topic.record(at, b"\0\2" + text("g"), again)
    return [one for one in findings(topic.sorted()) if one.kind is Kind.STATIC_MEMBER_REPLACED]


@given(st.lists(st.integers(1_000, 60_000), min_size=1, max_size=8))
def test_an_instance_that_comes_back_again_and_again_is_a_warning_that_says_how_often(
    waits: list[int],
) -> None:
    found = returns([sum(waits[: number + 1]) for number in range(len(waits))])
    assert [one.details["times"] for one in found] == list(range(1, len(waits) + 1))
    assert [one.severity for one in found] == [
        Severity.WARNING if number >= AGAIN else Severity.INFO for number in range(1, len(waits) + 1)
    ]
    for number, one in enumerate(found, start=1):
        assert bool(one.causes) == (number >= AGAIN)
        assert all(f"came back {number} times" in cause.why for cause in one.causes)


@given(st.lists(st.integers(WINDOW_MS // 2, 10**7), min_size=1, max_size=8))
def test_an_instance_that_comes_back_now_and_then_is_none(waits: list[int]) -> None:
    found = returns([sum(waits[: number + 1]) for number in range(len(waits))])
    assert {one.severity for one in found} == {Severity.INFO}


def test_restarts_of_several_instances_do_not_add_up() -> None:
    members = [Client(f"m{i}-0", (i,), "consumer-g-1", instance_id=f"m{i}") for i in range(6)]
    topic = Topic()
    topic.generation(0, 1, members)
    for number in range(6):
        members[number] = replace(members[number], member_id=f"m{number}-1")
        topic.record(10_000 * (number + 1), b"\0\2" + text("g"), metadata(1, members, T0 - 20))
    found = [one for one in findings(topic.sorted()) if one.kind is Kind.STATIC_MEMBER_REPLACED]
    assert [(one.severity, one.details["times"]) for one in found] == [(Severity.INFO, 1)] * 6


def rejoins(times: int, *, of: int = 1) -> list[Finding]:
    """Every 20 s one of `of` static members is replaced, each time with a rebalance among the same ones."""
    members = [Client(f"m{i}-0", (i,), "consumer-g-1", instance_id=f"m{i}") for i in range(max(of, 2))]
    topic = Topic()
    topic.generation(0, 1, members)
    for number in range(times):
        place = number % of
        members[place] = replace(members[place], member_id=f"m{place}-{number + 1}")
        topic.generation(60_000 + 20_000 * number, 2 + number, members)
    return [one for one in findings(topic.sorted()) if one.kind is Kind.STORM]


def test_a_static_member_whose_returns_rebalance_its_group_again_and_again_storms_and_is_named() -> None:
    (storm,) = [one for one in rejoins(8) if one.phase == "opened"]
    assert storm.details["worst_instance"] == "m0"


def test_a_rollout_of_static_members_that_rebalances_is_no_storm() -> None:
    assert rejoins(8, of=8) == []


@pytest.mark.parametrize("family", ["aiokafka", "confluent", "java-range", "kafka-python"])
def test_two_real_clients_with_one_instance_id_are_a_warning_from_the_third_time_on(family: str) -> None:
    """aiokafka's fight without end, ten times a second; the others end when they are fenced."""
    capture = Path(__file__).parents[2] / "fixtures" / "scenarios" / "instances-4.1.1" / "capture"
    told = [
        one
        for one in replay_capture(capture, DetectionSettings())
        if one.kind is Kind.STATIC_MEMBER_REPLACED and one.group == f"twin-instances.{family}"
    ]
    assert {one.details["instance_id"] for one in told} == {"twin"}
    assert [one.severity for one in told[:AGAIN]] == [Severity.INFO] * (AGAIN - 1) + [Severity.WARNING]
    assert {one.severity for one in told[AGAIN:]} <= {Severity.WARNING}


def test_one_that_a_join_phase_kept_though_it_was_dead_expires_as_of_its_last_sign_of_life() -> None:
    """Its session outlasts the barrier that a newcomer began: the next generation has it all the same."""
    a, b = pair("consumer-g-1", session=600_000, rebalance=300_000)
    d = Client("d-1", (4,), "consumer-g-3", "/10.0.0.3", session=600_000, rebalance=300_000)
    topic = Topic()
    topic.generation(0, 1, [a, b])
    topic.commits(500, 1_101_000, a, every=5_000)
    topic.commits(900, 1_000_000, b, every=5_000)
    topic.generation(1_401_000, 2, [a, b, d])
    topic.commits(1_401_500, 1_599_000, a, every=5_000)
    topic.commits(1_401_700, 1_599_000, d, every=5_000)
    topic.generation(1_601_500, 3, [a, d])
    (entry,) = causes(findings(topic.sorted()))
    assert (entry.cause, entry.member_id) == (Cause.STATIC_MEMBER_EXPIRED, "b-1")
    assert "no commit for 10 min 5 s" in entry.why
