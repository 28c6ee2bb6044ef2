"""Members that go in turn: breaches and crashes are a storm, a rollout or two are none."""

import pytest

from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence, Trace
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.epochs import SETTINGS, A, B, committing, pair
from tests.coordinator.support.timeline import T0, Client, S, Topic, findings, of


def in_turn(
    rounds: int, every: int, away: int, silent: int, *, session: int, rebalance: int
) -> list[Finding]:
    """Of six members each in turn falls silent, goes `silent` ms later, and is back `away` ms after that."""
    names, lives, at, number = list(range(6)), [0] * 6, 100_000, 1
    topic = Topic()

    def there(members: list[int]) -> list[Client]:
        share = {
            name: tuple(p for p in range(12) if p % len(members) == place)
            for place, name in enumerate(members)
        }
        return [
            Client(
                f"m{name}-{lives[name]}",
                share[name],
                f"consumer-{name}",
                f"/10.0.0.{name}",
                session=session,
                rebalance=rebalance,
            )
            for name in members
        ]

    topic.generation(0, number, there(names))
    last = 0
    for turn in range(rounds):
        gone = turn % 6
        left = [name for name in names if name != gone]
        for client in there(names):
            until = at if client.client_id == f"consumer-{gone}" else at + silent
            topic.commits(last + 500, until, client, every=2_000)
        topic.generation(at + silent + 50, number + 1, there(left))
        for client in there(left):
            topic.commits(at + silent + 300, at + silent + away - 200, client, every=2_000)
        lives[gone] += 1
        topic.generation(at + silent + away, number + 2, there(names))
        number, last, at = number + 2, at + silent + away, at + every
    return findings(topic.sorted())


def test_members_that_breach_their_poll_interval_one_after_the_other_are_a_storm_however_many_there_are() -> (
    None
):
    """Each has its turn every 330 s: none is young when it goes again."""
    told = in_turn(12, 55_000, 14_000, 31_000, session=10_000, rebalance=30_000)
    assert {one.kind for one in told} >= {Kind.POLL_INTERVAL_EXCEEDED}
    assert of(told, Kind.STORM)[0].phase == "opened"


def test_members_that_crash_in_turn_time_after_time_are_no_restart_but_a_storm() -> None:
    told = in_turn(30, 50_000, 20_000, 11_000, session=10_000, rebalance=300_000)
    assert len(of(told, Kind.SESSION_TIMEOUT)) >= 25
    restarts = of(told, Kind.ROLLING_RESTART)
    assert all(one.causes[0].cause is Cause.SESSION_TIMEOUT for one in restarts)
    assert len(restarts) <= 2
    assert of(told, Kind.STORM)[0].phase == "opened"


def test_two_rollouts_that_kill_every_member_once_are_no_storm() -> None:
    told = in_turn(12, 50_000, 20_000, 11_000, session=10_000, rebalance=300_000)
    assert len(of(told, Kind.SESSION_TIMEOUT)) >= 10
    assert not of(told, Kind.STORM)


def rolled(size: int, *, last: bool) -> list[Finding]:
    """Each of so many members is closed, and started again 10 s later, the last one only if `last`."""
    topic, number, at = Topic(), 1, 300_000
    there = [Client(f"m{place}-1", (place,), f"consumer-{place}") for place in range(size)]
    topic.generation(0, number, there)
    for place in range(size):
        topic.generation(at, number + 1, [one for one in there if one is not there[place]])
        if place < size - 1 or last:
            there[place] = Client(f"m{place}-2", (place,), f"consumer-{place}")
            topic.generation(at + 10_000, number + 2, there)
        number, at = number + 2, at + 30_000
    return of(findings(topic, until=600_000), Kind.ROLLING_RESTART)


@pytest.mark.parametrize("size", [2, 3, 4, 6])
def test_a_restart_is_reported_when_its_last_member_is_back_with_all_of_them(size: int) -> None:
    (told,) = rolled(size, last=True)
    assert told.details["restarted"] == told.members_total == size
    assert told.at == T0 + 300_000 + 30_000 * (size - 1) + 10_000 - 20


@pytest.mark.parametrize("size", [3, 4, 6])
def test_a_roll_out_that_is_stuck_before_its_last_member_is_no_restart(size: int) -> None:
    assert rolled(size, last=False) == []


def test_a_group_that_shrank_long_before_is_restarted_with_those_it_has() -> None:
    topic, number, at = Topic(), 1, 2_000_000
    there = [Client(f"m{place}-1", (place,), f"consumer-{place}") for place in range(4)]
    topic.generation(0, number, there)
    topic.generation(1_000_000, 2, there[:3])
    number, there = 2, there[:3]
    for place in range(3):
        topic.generation(at, number + 1, [one for one in there if one is not there[place]])
        there[place] = Client(f"m{place}-2", (place,), f"consumer-{place}")
        topic.generation(at + 10_000, number + 2, there)
        number, at = number + 2, at + 30_000
    (told,) = of(findings(topic), Kind.ROLLING_RESTART)
    assert told.details["restarted"] == 3


@pytest.mark.parametrize("lives", [True, False])
def test_a_member_that_is_back_under_its_own_id_was_blocked_and_not_restarted(*, lives: bool) -> None:
    """Both members of a group expire in turn; the second one comes back as itself, or as a new process."""
    topic, epoch, back = pair(), 3, {A: A if lives else f"{A[:-1]}z", B: f"{B[:-1]}z"}
    committing(topic, 3_000, 100_000, 1)
    committing(topic, 3_000, 200_000, 0)
    committing(topic, 122_000, 300_000, 1)
    committing(topic, 222_000, 300_000, 0)
    for at, gone, stays, part, kept in ((100_000, B, A, 1, 0), (200_000, A, back[B], 0, 1)):
        topic.leave(at + S, gone, epoch)
        topic.target(at + S, epoch)
        topic.ack(at + S + 500, stays, epoch, (0, 1))
        topic.join(at + 20_000, back[gone], epoch + 1, ())
        topic.ack(at + 20_500, stays, epoch + 1, (kept,))
        topic.ack(at + 21_000, back[gone], epoch + 1, (part,))
        epoch += 2
    found = findings(topic.sorted(), SETTINGS)
    assert len(of(found, Kind.SESSION_TIMEOUT)) == 2
    assert bool(of(found, Kind.ROLLING_RESTART)) is not lives


def test_members_that_went_after_another_had_been_closed_are_not_said_to_have_expired() -> None:
    """Their timers began together, and let all fall silent at once."""
    timer = (15_002, 15_003, 15_007, 15_005) * 2
    closed = [(3_055, 846, 3_746), (14_161, 846, 3_746), (14_327, 846, 3_746), (14_359, 0, 1_246)]
    gone = tuple(
        Departed(10_000, 60_000, 1_875_462, Trace(last, timer, commits=124), "java", removed=(least, most))
        for last, least, most in closed
    )
    stayed = (Trace(14_000, timer, commits=124),)
    evidence = Evidence(1_875_460, 0, gone, stayed, 1, 0, 60_000, 10_000, phase=(846, 3_746))
    assert max(ways[Way.DIED] for ways in explain(evidence).ways) < CLAIMED
