"""What a member's silence says depends on its topics' ends: whether a record waited, and since when."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from rebalance_monitor.coordinator.departure.evidence import (
    HAD_WORK,
    MAYBE_WORK,
    NO_WORK,
    Departed,
    Evidence,
    Trace,
    encode,
)
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MEASURED, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.refine.outages import with_reload
from rebalance_monitor.coordinator.refine.reattribution import timed
from rebalance_monitor.coordinator.refine.waiting_records import describe, with_work
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.lab.suite.departures import observations
from tests.coordinator.refine.test_timed import AT, published, unlisted
from tests.coordinator.support.timeline import Client, Topic

S, P = 45_000, 300_000
OFFSET = 500
SETTINGS = DetectionSettings()


def silent(silence: int = S + 300, **fields: object) -> Departed:
    """librdkafka's client commits what is new every five seconds; nobody else reads its topic."""
    trace = Trace(silence, (5_000, 60_000, 5_000, 120_000, 5_000), commits=40)
    usual = Departed(S, P, 900_000, trace, "librdkafka", named=True, places=(("orders", 3, OFFSET),))
    return changed(usual, **fields)


def ends(arrives: int, ended: int = AT) -> Board:
    """Samples every five seconds; one record after another comes from `arrives` ms before `ended` on."""
    board = Board()
    for at in range(ended - 400_000, ended + 5_000, 5_000):
        came = max(0, (at - (ended - arrives)) // 1_000) if arrives >= 0 else 0
        board.take(EndsSample(at, at, {"orders": (0, 0, 0, OFFSET + came)}), ())
    return board


def rebalance(one: Departed) -> Finding:
    evidence = Evidence(900_000, 0, (one,), (Trace(400, (5_000,) * 8, commits=60),), 1, 0, P, S)
    (found,) = published(evidence)
    gone = replace(found.members[0], partitions=1)
    return replace(found, members=(gone,), details={"left": 1, MEASURED: encode(evidence).decode()})


def judged(one: Departed, board: Board) -> Finding:
    def more(found: Finding, member: object, known: Departed, ended: int) -> Departed:
        del found, member
        return with_work(known, ended, 1, board, "g")

    return timed([rebalance(one)], lambda found, _: found, unlisted, SETTINGS, more)[0]


def sure(found: Finding, cause: Cause) -> float:
    return max((one.confidence for one in found.causes if one.cause is cause), default=0.0)


def test_records_that_waited_all_the_time_make_a_silence_of_a_session_an_expiry() -> None:
    told = judged(silent(), ends(S + 200))
    assert told.causes[0].cause is Cause.SESSION_TIMEOUT
    assert told.causes[0].confidence >= SETTINGS.attribution_confidence
    assert "records waited for it" in told.causes[0].why


@dataclass(frozen=True)
class Answers:
    """Ends that answer the same for each partition, and for the group."""

    came: int | None
    quiet: int | None = None

    def next_at(self, *_: object) -> int | None:
        return self.came

    def apart(self, *_: object) -> int:
        return 0

    def quiet_at(self, _: str) -> int | None:
        return self.quiet


USUAL = 5_000


@given(st.integers(USUAL, S - 1), st.booleans())
def test_of_the_time_after_the_newest_sample_nothing_is_known(
    before: int,
    whole_group: bool,  # noqa: FBT001
) -> None:
    """The record that a member is missing from comes a few seconds after the ends were sampled last."""
    one = silent(S)
    ends = Answers(None, AT - before) if whole_group else Answers(-(AT - before))
    told = with_work(one, AT, 1, ends, "g")
    assert (told.work, told.lull) == (MAYBE_WORK, S - before)


@given(st.integers(0, USUAL - 1), st.integers(2, 100))
def test_a_member_of_a_group_for_which_nothing_waited_just_before_its_end_may_have_lived(
    before: int, owned: int
) -> None:
    """Its partitions are more than those whose offsets are sent along."""
    assert with_work(silent(S), AT, owned, Answers(-(AT - before), AT - before), "g").work == NO_WORK
    assert with_work(silent(S), AT, owned, Answers(-(AT - before)), "g").work == MAYBE_WORK


@pytest.mark.parametrize("came", [-1, 30_000, S + 200])
def test_the_silence_of_a_member_that_commits_when_idle_tells_of_itself(came: int) -> None:
    """Java repeats unchanged offsets: it had something to commit before any record came."""
    one = silent(trace=Trace(S + 300, (5_000,) * 8, idle=True, commits=40), family="java")
    assert with_work(one, AT, 1, ends(came), "g") == one


@pytest.mark.parametrize(("came", "unmoved"), [(-1, 0), (30_000, 0), (S + 200, 1)])
def test_commits_without_progress_say_nothing_while_no_record_waits(came: int, unmoved: int) -> None:
    """aiokafka goes on committing in a stall, and where there is nothing to read."""
    trace = Trace(1_500, (5_000,) * 8, idle=True, commits=400)
    one = silent(trace=trace, family="aiokafka", unmoved=1)
    assert with_work(one, AT, 1, ends(came), "g").unmoved == unmoved


def test_a_silence_without_waiting_records_accuses_no_member() -> None:
    told = judged(silent(), ends(-1))
    assert sure(told, Cause.SESSION_TIMEOUT) < SETTINGS.attribution_confidence
    assert all("no record waited for it" in one.why for one in told.causes if one.member_id)


@pytest.mark.parametrize(("came", "severity"), [(-1, Severity.INFO), (S + 200, Severity.WARNING)])
def test_an_empty_group_is_as_loud_as_the_fault_that_is_left_of_its_last_member(
    came: int, severity: Severity
) -> None:
    made = rebalance(silent())
    empty = replace(
        made, kind=Kind.GROUP_EMPTY, severity=Severity.WARNING, phase="opened", members_affected=1
    )

    def more(found: Finding, member: object, known: Departed, ended: int) -> Departed:
        del found, member
        return with_work(known, ended, 1, ends(came), "g")

    found = timed([empty], lambda one, _: one, unlisted, SETTINGS, more)
    assert [one.kind for one in found[1:]] == [Kind.SESSION_TIMEOUT] * (severity is Severity.WARNING)
    assert found[0].severity is severity


def test_records_that_came_late_leave_open_when_it_fell_silent() -> None:
    early, late = (sure(judged(silent(), ends(came)), Cause.SESSION_TIMEOUT) for came in (S + 200, 2_000))
    assert late < early


@given(silence=st.integers(20_000, 300_000), came=st.integers(-1, 300_000), owned=st.integers(1, 2))
def test_a_lull_lasts_from_the_last_commit_to_the_first_record_and_ends_with_the_silence(
    silence: int, came: int, owned: int
) -> None:
    one = silent(silence)
    told = with_work(one, AT, owned, Answers(-AT if came < 0 else AT - came), "g")
    if came < 0:
        assert told.work == (NO_WORK if owned == 1 else MAYBE_WORK)
        return
    assert told.work == HAD_WORK
    assert told.lull == max(0, silence - came)
    assert 0 <= told.lull <= silence


def slow(silence: int, *, session: int = 30_000, every: int = 20_000) -> Departed:
    """A record comes every few seconds, and is committed soon after."""
    trace = Trace(silence, (every - 200, every + 300) * 4, commits=40)
    usual = Departed(session, P, 900_000, trace, "librdkafka", named=True, places=(("orders", 3, OFFSET),))
    return changed(usual, went_on=True)


def steady(last: int, every: int = 20_000) -> Board:
    """Samples every five seconds; the record after the last commit, at `last`, comes when it is due."""
    board = Board()
    for at in range(AT - 300_000, AT + 5_000, 5_000):
        board.take(EndsSample(at, at, {"orders": (0, 0, 0, OFFSET + (at - last) // every)}), ())
    return board


@settings(deadline=None)
@given(st.integers(2_000, 9_000))
def test_a_silence_of_a_session_on_a_slow_topic_is_an_expiry(late: int) -> None:
    one = slow(30_000 + late)
    told = judged(one, steady(AT - one.trace.last))
    assert told.causes[0].cause is Cause.SESSION_TIMEOUT
    assert told.causes[0].confidence >= SETTINGS.attribution_confidence


def test_the_first_record_after_a_commit_waits_also_where_no_second_one_comes() -> None:
    one = slow(27_000)
    board = Board()
    for at in range(AT - 100_000, AT + 5_000, 5_000):
        came = int(at >= AT - 18_000)
        board.take(EndsSample(at, at, {"orders": (0, 0, 0, OFFSET + came)}), ())
    told = with_work(one, AT, 1, board, "g")
    assert told.work == HAD_WORK
    assert abs(told.lull - 9_000) <= 5_000


def test_unknown_ends_are_no_evidence() -> None:
    one = silent()
    assert with_work(one, AT, 1, Answers(None), "g") is one
    assert with_work(silent(places=()), AT, 0, Answers(-AT), "g").work == MAYBE_WORK


def test_one_that_has_committed_nothing_yet_is_sent_with_what_its_group_had_committed() -> None:
    topic, every = Topic(), Client("a-1", (0, 1, 2, 3))
    some, young = Client("a-1", (0, 1)), Client("b-1", (2, 3), "consumer-g-2")
    topic.generation(0, 1, [every])
    topic.commit(5_000, {0: 50, 1: 51, 2: 52})
    topic.generation(10_000, 2, [some, young])
    topic.commit(12_000, {0: 70})
    topic.generation(20_000, 3, [])
    *_, (_, evidence, members) = observations(topic.rows)
    sent = dict(zip(members, (one.places for one in evidence.departed), strict=True))
    assert sent == {"a-1": (("orders", 0, 70), ("orders", 1, 51)), "b-1": (("orders", 2, 52),)}


def test_records_that_wait_do_not_hide_that_no_coordinator_was_there_as_a_commit_was_due() -> None:
    """It commits every 30 s, and its coordinator was away from 26 s after its last commit on."""
    trace = Trace(61_800, (30_000,) * 8, commits=36)
    one = changed(silent(trace=trace), session=60_000, rebalance=60_000, family="kafka-go")
    away = with_reload(one, AT, range(AT - 35_800, AT - 2_000, 2_500), -1)
    told = with_work(away, AT, 1, ends(61_000), "g")
    assert (told.work, told.lull) == (HAD_WORK, away.lull)
    assert away.lull > 50_000
    lasting, closed = (
        explain(Evidence(900_000, 0, (known,) * 2, (), 0, 0, 60_000, 60_000)).ways[0][Way.DIED]
        for known in (changed(told, lull=800), told)
    )
    assert closed < lasting - 0.3
    assert "records waited" not in describe(told, "its last commit")
