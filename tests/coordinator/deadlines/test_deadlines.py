"""Deadlines in an epoch-based group: who lets one pass is named; a timeout that is assumed is marked so."""

from dataclasses import replace
from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import GroupOut
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from tests.coordinator.support.epochs import SETTINGS, A, B, C, Epochs, committing, compact, pair
from tests.coordinator.support.timeline import T0, P, S, findings, of


def test_a_group_that_does_not_converge_is_stuck_and_names_the_members_behind() -> None:
    topic = pair()
    topic.bump(10_000, 3)
    topic.target(10_100, 3)
    topic.ack(10_200, A, 3, (0,))
    stuck = of(findings(topic, SETTINGS, until=90_000), Kind.REBALANCE_STUCK)
    assert [(found.phase, found.evidence) for found in stuck] == [("opened", "read")]
    assert [member.member_id for member in stuck[0].members] == [B]
    topic.ack(95_000, B, 3, (1,))
    resolved = of(findings(topic, SETTINGS), Kind.REBALANCE_STUCK)[-1]
    assert (resolved.phase, resolved.resolution) == ("resolved", "completed")


def test_a_member_that_has_to_revoke_passes_its_rebalance_deadline_and_is_confirmed_when_fenced() -> None:
    topic = pair()
    topic.bump(10_000, 3)
    topic.target(10_100, 3)
    topic.ack(10_200, A, 2, (0,), state=1)
    topic.leave(10_200 + P + 3_000, A, 4)
    opened, resolved = of(findings(topic, SETTINGS), Kind.MEMBER_SILENT)
    assert (opened.details["deadline"], opened.at) == ("rebalance", T0 + 10_200 + P)
    assert opened.causes[0].cause is Cause.JOIN_DEADLINE_MISSED
    assert resolved.resolution == "confirmed"


def test_a_member_that_acknowledges_in_the_end_was_only_slow() -> None:
    topic = pair()
    topic.bump(10_000, 3)
    topic.target(10_100, 3)
    topic.ack(10_200, A, 2, (0,), state=1)
    topic.ack(10_200 + P + 3_000, A, 3, (0,))
    assert of(findings(topic, SETTINGS), Kind.MEMBER_SILENT)[-1].resolution == "withdrawn"


def test_one_that_commits_and_gives_nothing_up_is_published_once() -> None:
    """Commits do not extend its rebalance deadline, and the broker may be late to fence it."""
    topic = pair()
    topic.join(10_000, C, 3, ())
    topic.ack(10_200, A, 2, (0,), state=1)
    committing(topic, 11_000, 10_200 + P + 30_000, 0)
    (opened,) = of(findings(topic, SETTINGS), Kind.MEMBER_SILENT)
    assert (opened.phase, opened.details["deadline"]) == ("opened", "rebalance")


def test_the_session_deadline_of_an_epoch_based_group_is_marked_as_assumed() -> None:
    topic = pair()
    for at in range(3_000, 30_000, 1_000):
        topic.commit(at, {0: 5})
        topic.commit(at, {1: 5})
    for at in range(30_000, 45_000, 1_000):
        topic.commit(at, {0: 5})
    told = replace(SETTINGS, known=("session_timeout_848_ms",))
    assert of(findings(topic, told), Kind.MEMBER_SILENT)[0].details["assumed"] == 0
    unread = replace(told, session_timeouts_unread=True)
    assert of(findings(topic, unread), Kind.MEMBER_SILENT)[0].details["assumed"] == 1
    own = of(findings(topic, replace(SETTINGS, session_timeouts=(("g", 4_000),))), Kind.MEMBER_SILENT)[0]
    assert (own.details["assumed"], own.details["session_timeout_ms"]) == (0, 4_000)
    silent = of(findings(topic, SETTINGS), Kind.MEMBER_SILENT)
    assert [found.details["deadline"] for found in silent] == ["session", "poll"]
    assert [found.details["assumed"] for found in silent] == [1, 0]
    assert silent[0].members[0].member_id == B


def test_members_get_the_session_timeout_that_is_known_by_now_but_for_those_with_their_own() -> None:
    topic = pair()
    own = b"\1" + pack(">i", 12_000) + b"\1\0"
    value = b"\0\0" + compact(None) + b"\0" + compact("c") + compact("/10.0.0.1") + b"\2" + compact("orders")
    topic.put(5_000, 5, value + b"\0" + pack(">i", P) + b"\0" + b"\1\0" + bytes([len(own)]) + own, C)
    state = new_shard_state(7, 0, None)
    before = ShardCoordinator(state, SETTINGS, "c1")
    for row in topic.rows:
        before.on_row(row)
    before.on_clock(T0 + 6_000)
    after = ShardCoordinator(state, replace(SETTINGS, session_timeouts=(("g", 4_000),)), "c1")
    state.groups["g"].wake = 0
    (out,) = [one for one in after.on_clock(T0 + 12_000) if isinstance(one, GroupOut)]
    sessions = {one["member_id"]: one["session_timeout_ms"] for one in out.summary["member_list"]}
    assert sessions == {A: 4_000, B: 4_000, C: 12_000}


def test_a_static_member_that_said_it_goes_is_not_held_to_live_on_without_polling() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, (), instance="s")
    topic.ack(2_000, A, 2, (0,))
    topic.ack(2_500, B, 2, (1,))
    committing(topic, 3_000, 30_000, 1)
    topic.ack(30_100, B, -2, (1,))
    committing(topic, 30_500, 60_000, 0)
    told = of(findings(topic.sorted(), SETTINGS), Kind.MEMBER_SILENT)
    assert [one.details["deadline"] for one in told] == ["session"]
    assert told[0].causes[0].cause is Cause.STATIC_MEMBER_EXPIRED


def test_a_static_member_that_stalls_and_says_that_it_goes_has_a_session_from_then_on() -> None:
    """Its session deadline passed at 36 s, and it was withdrawn when the client left for its stall."""
    topic = Epochs()
    topic.join(0, A, 1, (0, 1))
    topic.join(1_000, B, 2, (), instance="s")
    topic.ack(2_000, A, 2, (0,))
    topic.ack(2_500, B, 2, (1,))
    committing(topic, 3_000, 29_000, 1)
    topic.ack(39_000, B, -2, (1,))
    committing(topic, 3_500, 60_000, 0)
    told = of(findings(topic.sorted(), SETTINGS), Kind.MEMBER_SILENT)
    assert [(one.phase, one.resolution) for one in told] == [
        ("opened", None),
        ("resolved", "withdrawn"),
        ("opened", None),
    ]
    assert told[2].at == T0 + 39_000 + 1_000 + S
    assert told[2].details["silence_ms"] == 1_000 + S
    assert len({one.id for one in told}) == 3


def growing(until: int) -> Epochs:
    """A and B commit; C joins at 32 s and waits for a partition of B's, which is silent from 30 s on."""
    topic = Epochs()
    topic.join(0, A, 1, (0, 1, 2, 3))
    topic.join(1_000, B, 2, ())
    topic.ack(1_500, A, 2, (0, 1))
    topic.ack(2_500, B, 2, (2, 3))
    for at in range(3_000, until, 1_000):
        topic.commit(at, {0: 5, 1: 5})
        if at < 30_000:
            topic.commit(at + 50, {2: 5, 3: 5})
    topic.metadata(32_000, C)
    topic.bump(32_000, 3)
    topic.target(32_000, 3)
    topic.ack(32_000, C, 3, ())
    topic.ack(33_000, A, 3, (0, 1))
    return topic


def silent(topic: Epochs) -> list[tuple[str | None, str | None, int]]:
    told = of(findings(topic.sorted(), SETTINGS), Kind.MEMBER_SILENT)
    return [(one.phase, one.resolution, one.at - T0) for one in told]


def test_a_dead_member_that_a_reconciling_group_waits_for_is_silent() -> None:
    topic = growing(37_000)
    topic.leave(36_900, B, 4)
    assert silent(topic) == []
    topic = growing(45_000)
    topic.leave(44_000, B, 4)
    assert silent(topic) == [("opened", None, 29_050 + 1_000 + S), ("resolved", "confirmed", 44_000)]


def test_in_a_reconciling_group_a_heartbeat_that_acknowledges_begins_the_session_anew() -> None:
    topic = growing(39_000)
    topic.ack(34_000, B, 3, (2,))
    assert silent(topic) == []


def test_that_revokes_while_its_group_reconciles_has_its_rebalance_timeout_and_no_session_deadline() -> None:
    topic = growing(50_000)
    topic.ack(33_500, B, 2, (2,), state=1)
    topic.ack(33_500 + P - 100, B, 3, (2,))
    topic.ack(33_500 + P + 500, C, 3, (3,))
    for at in range(33_500 + P, 50_000, 1_000):
        topic.commit(at, {2: 5})
    assert silent(topic) == []


def test_members_of_the_classic_protocol_that_rejoin_for_a_new_epoch_are_not_silent() -> None:
    topic = growing(45_000)
    topic.metadata(10_000, B, classic=S)
    assert silent(topic) == []


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_member_is_silent_while_a_healthy_group_grows_however_slowly_members_revoke(
    data: st.DataObject,
) -> None:
    """Each hears of it with a heartbeat, commits nothing while it gives a partition up, and goes on."""
    names = [A, B, C, "d-00000000000000000000", "e-00000000000000000000"]
    topic, at, there = Epochs(), 0, names[:2]
    own = {A: (0, 1, 2, 3, 4), B: (5, 6, 7, 8, 9)}
    topic.join(0, A, 1, own[A])
    topic.join(100, B, 2, own[B])
    for member in there:
        topic.ack(500, member, 2, own[member])
    pauses: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    began = {A: 500, B: 500}
    for epoch, newcomer in enumerate(names[2:], 3):
        at += data.draw(st.integers(12_000, 30_000))
        topic.join(at, newcomer, epoch, ())
        given_up: list[int] = []
        done = at
        for member in there:
            heard = at + data.draw(st.integers(100, 3_000))
            kept, gave = own[member][:-1], own[member][-1:]
            slow = data.draw(st.integers(0, P - 500))
            topic.ack(heard, member, epoch - 1, kept, state=1)
            topic.ack(heard + slow, member, epoch, kept)
            pauses[member].append((heard, heard + slow))
            own[member], done = kept, max(done, heard + slow)
            given_up += gave
        own[newcomer] = tuple(given_up)
        topic.ack(done + 200, newcomer, epoch, own[newcomer])
        began[newcomer] = done + 200
        there = [*there, newcomer]
        at = done
    end = at + 20_000
    # What it keeps to the end is its own all the time.
    for member in there:
        for when in range(began[member] + 300, end, 1_000):
            if not any(since <= when <= until for since, until in pauses[member]):
                topic.commit(when, dict.fromkeys(own[member], 5))
    assert silent(topic) == []
