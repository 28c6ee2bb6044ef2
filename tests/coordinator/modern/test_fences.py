"""Why a member of an epoch-based group went: what its records alone decide."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from rebalance_monitor.coordinator.departure.evidence import Trace, decode
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.departure.verdicts import why_of
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, MEASURED, CauseEntry
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.modern.fencing import heard_of
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from tests.coordinator.support.epochs import SETTINGS, A, B, C, Epochs, committing, pair
from tests.coordinator.support.timeline import T0, P, S, findings, of

TIMEOUTS = {Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED}
LONG = DetectionSettings(session_timeout_848_ms=45_000)


def causes(topic: Epochs, settings: DetectionSettings, member: str) -> list[CauseEntry]:
    last = of(findings(topic, settings), Kind.REBALANCE)[-1]
    return [entry for entry in last.causes if entry.member_id == member]


def revoking(at: int) -> Epochs:
    """B has partitions to give up from 10 s on, and is gone at `at`; C has acknowledged the epoch by then."""
    topic = pair()
    topic.metadata(9_900, C)
    topic.bump(9_900, 3)
    topic.target(9_900, 3)
    topic.ack(9_900, C, 3, (), state=2)
    topic.ack(10_000, B, 2, (1,), state=1)
    topic.ack(10_300, A, 3, (0,))
    topic.leave(at, B, 4)
    topic.target(at + 500, 4)
    topic.ack(at + 500, A, 4, (0,))
    topic.ack(at + 600, C, 4, (1,))
    return topic


def test_a_member_that_still_had_to_revoke_is_not_said_to_have_been_deaf() -> None:
    found = causes(revoking(10_000 + P - 1_000), SETTINGS, B)
    assert all(entry.confidence < CLAIMED for entry in found)
    assert not any("did not acknowledge" in entry.why for entry in found)


def test_one_that_never_took_the_partitions_that_others_had_given_up_was_dead() -> None:
    topic = pair()
    topic.metadata(9_900, C)
    topic.bump(9_900, 3)
    topic.target(9_900, 3)
    topic.ack(9_900, C, 3, (), state=2)
    for at, member, partitions in ((10_100, A, (0,)), (10_300, B, ())):
        topic.ack(at, member, 3, partitions)
    topic.leave(9_900 + S + 1_500, C, 4)
    topic.target(20_000, 4)
    for member, partitions in ((A, (0,)), (B, (1,))):
        topic.ack(20_000, member, 4, partitions)
    found = causes(topic, SETTINGS, C)
    assert found[0].cause is Cause.SESSION_TIMEOUT
    assert found[0].confidence >= CLAIMED
    assert "did not acknowledge" in found[0].why


def test_a_departed_member_is_sent_with_what_was_committed_last_of_its_partitions() -> None:
    topic = pair()
    topic.commit(3_000, {0: 40, 1: 41})
    topic.ack(5_000, A, 3, (0, 1))
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, None), SETTINGS, "c1")
    for row in topic.rows:
        shard.on_row(row)
    (state,) = shard.state.groups.values()
    first = next(member for member in state.members if member.member_id == A)
    assert heard_of(state, first, T0 + 9_000).evidence.departed[0].places == (("orders", 0, 40),)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("way", [Way.LEFT, Way.DIED, Way.STALLED, Way.UNKNOWN])
def test_nothing_is_said_of_a_join_phase_that_a_group_does_not_have_nor_is_a_guess_said_to_be_known(
    way: Way, *, known: bool
) -> None:
    """Of members of a consumer group, which committed or not, and of a share group, which never commits."""
    topic = pair()
    committing(topic, 3_000, 9_000, 1)
    topic.leave(9_000, B, 3)
    topic.target(9_500, 3)
    topic.ack(9_500, A, 3, (0, 1))
    settings = replace(LONG, known=("session_timeout_848_ms",) if known else ())
    found = of(findings(topic.sorted(), settings), Kind.REBALANCE)[-1]
    (one,) = decode(str(found.details[MEASURED]).encode()).departed
    silent = changed(one, trace=Trace())
    for member in (one, silent, changed(silent, rebalance=0)):
        why = why_of(way, member)
        assert "join phase" not in why
        assert "generation" not in why
        assert ("(assumed)" in why) is ("session timeout" in why and not known)
        assert "timeout 0.0 s" not in why


@pytest.mark.parametrize(("late", "fenced"), [(-1, False), (0, True), (1_500, True), (1_501, False)])
def test_a_fence_for_not_revoking_comes_with_the_rebalance_timeout_not_before_nor_long_after(
    late: int, *, fenced: bool
) -> None:
    found = causes(revoking(10_000 + P + late), SETTINGS, B)
    assert (found[0].cause is Cause.JOIN_DEADLINE_MISSED and found[0].confidence == 0.95) is fenced


@pytest.mark.parametrize("commits", [True, False])
def test_that_kept_partitions_past_its_rebalance_timeout_may_have_been_fenced_by_another_coordinator(
    *, commits: bool
) -> None:
    topic = revoking(10_000 + P + 5_000)
    if commits:
        committing(topic, 3_000, 10_000 + P + 5_000, 1)
    shuffled = topic.sorted()
    found = causes(Epochs(rows=shuffled.rows, offset=shuffled.offset), SETTINGS, B)
    assert (found[0].cause, found[0].confidence) == (Cause.JOIN_DEADLINE_MISSED, 0.5)
    assert sum(entry.confidence for entry in found) <= 1


def static(gone: int, *, said: bool) -> Epochs:
    """The static member B acknowledged at 2.5 s, and said at 60 s that it goes, if it did."""
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, (), instance="s")
    topic.ack(2_000, A, 2, (0,))
    topic.ack(2_500, B, 2, (1,))
    if said:
        topic.ack(60_000, B, -2, (1,))
    topic.leave(gone, B, 3)
    topic.target(gone + 500, 3)
    topic.ack(gone + 500, A, 3, (0, 1))
    return topic


@pytest.mark.parametrize("said", [True, False])
def test_a_static_member_that_goes_before_its_session_can_have_expired_was_removed(*, said: bool) -> None:
    last = 60_000 if said else 2_500
    for silence, expired in ((1_000, False), (28_400, False), (28_500, True), (45_000, True)):
        topic = static(last + silence, said=said)
        found = causes(topic, LONG, B)
        assert found[0].cause is (Cause.STATIC_MEMBER_EXPIRED if expired else Cause.MEMBER_REMOVED_BY_ADMIN)
        assert (found[0].confidence >= 0.6) is expired
        assert len(of(findings(topic, LONG), Kind.SESSION_TIMEOUT)) == expired


def deaf(heard: int, gone: int) -> list[CauseEntry]:
    """A acknowledged C's epoch at `heard`; B, which never commits, did not, and is gone at `gone`."""
    topic = pair()
    topic.join(60_000, C, 3, ())
    topic.ack(heard, A, 3, (0,))
    topic.leave(gone, B, 4)
    topic.target(gone + 500, 4)
    topic.ack(gone + 500, A, 4, (0,))
    topic.ack(gone + 600, C, 4, (1,))
    return causes(topic, SETTINGS, B)


def test_one_heartbeat_of_deafness_is_asked_for_from_the_first_that_had_heard() -> None:
    beat = 6_000 // 3 + 500
    assert "did not acknowledge" in deaf(60_500, 60_000 + beat)[0].why
    assert not any("did not acknowledge" in entry.why for entry in deaf(60_500, 60_000 + beat - 1))


@given(st.integers(600, 15_000))
def test_a_clean_leave_within_the_longest_heartbeat_interval_that_brokers_allow_is_no_timeout(
    late: int,
) -> None:
    """C's epoch is acknowledged by A; B, whose next heartbeat is not due, leaves."""
    topic = pair()
    topic.join(100_000, C, 3, ())
    topic.ack(100_500, A, 3, (0,))
    topic.leave(100_000 + late, B, 4)
    topic.target(116_000, 4)
    topic.ack(116_000, A, 4, (0,))
    topic.ack(116_100, C, 4, (1,))
    found = findings(topic, LONG)
    assert not of(found, Kind.SESSION_TIMEOUT)
    assert all(entry.confidence < 0.6 for entry in causes(topic, LONG, B) if entry.cause in TIMEOUTS)


def test_a_group_that_never_converges_counts_all_departures_and_remembers_its_newest_only() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    for number in range(120):
        topic.metadata(1_000 + number, f"m-{number}")
        topic.bump(1_000 + number, number + 2)
        topic.leave(2_000 + number, f"m-{number}", None)
    topic.target(10_000, 121)
    topic.ack(10_000, A, 121, (0,))
    last = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
    assert (last.details["left"], last.members_affected) == (120, 120)
    assert {one.member_id for one in last.members if one.role == "left"} == {f"m-{n}" for n in range(70, 120)}
    assert last.details["joined"] == 0


def test_however_many_go_at_once_a_group_that_empties_counts_them_all_and_the_next_convergence_anew() -> None:
    topic = Epochs()
    names = [f"m-{number}" for number in range(70)]
    for epoch, name in enumerate(names, 1):
        topic.join(epoch, name, epoch, ())
    for number, name in enumerate(names):
        topic.leave(1_000 + number, name, 71 + number)
    topic.join(5_000, A, 141, (0,))
    topic.join(6_000, B, 142, ())
    topic.ack(6_100, A, 142, (0,))
    topic.leave(7_000, B, 143)
    topic.target(7_100, 143)
    topic.ack(7_100, A, 143, (0,))
    found = findings(topic, SETTINGS)
    assert of(found, Kind.GROUP_EMPTY)[0].members_affected == 70
    assert of(found, Kind.REBALANCE)[-1].details["left"] == 1


def test_a_group_that_never_converges_forgets_what_members_subscribed_to_when_they_go() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    for number in range(120):
        topic.metadata(1_000 + number, f"m-{number}")
        topic.metadata(1_500 + number, f"m-{number}", topic="payments")
        topic.bump(1_500 + number, number + 2)
        topic.leave(2_000 + number, f"m-{number}", None)
    state = new_shard_state(0, 0, None)
    coordinator = ShardCoordinator(state, SETTINGS, "c1")
    for row in topic.sorted().rows:
        coordinator.on_row(row)
    assert state.groups["g"].changes.resubscribed == set()


def test_a_static_member_that_goes_while_it_has_partitions_to_give_up_misses_no_deadline() -> None:
    """Its record keeps the state that it was in (`consumerGroupStaticMemberGroupLeave`)."""
    topic = Epochs()
    topic.join(0, A, 1, (0, 1), instance="s")
    topic.metadata(10_000, B)
    topic.bump(10_000, 2)
    topic.target(10_000, 2)
    topic.ack(10_000, B, 2, (), state=2)
    topic.ack(10_500, A, 1, (0,), state=1)
    topic.ack(11_000, A, -2, (0,), state=1)
    assert not of(findings(topic, SETTINGS, until=P + 5_000), Kind.MEMBER_SILENT)
    topic.leave(11_000 + P, A, 3)
    topic.target(20_000, 3)
    topic.ack(20_000, B, 3, (0, 1))
    assert causes(topic, SETTINGS, A)[0].cause is Cause.STATIC_MEMBER_EXPIRED
