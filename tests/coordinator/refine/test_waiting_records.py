"""What a member's silence says depends on its topics' ends: whether a record waited, and since when."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
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
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MEASURED, Finding
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.refine.reattribution import timed
from rebalance_monitor.coordinator.refine.waiting_records import with_work
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.refine.test_timed import AT, published, unlisted

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
        return with_work(known, ended, 1, board.came_at)

    return timed([rebalance(one)], lambda found: found, unlisted, SETTINGS, more)[0]


def sure(found: Finding, cause: Cause) -> float:
    return max((one.confidence for one in found.causes if one.cause is cause), default=0.0)


def test_records_that_waited_all_the_time_make_a_silence_of_a_session_an_expiry() -> None:
    told = judged(silent(), ends(S + 200))
    assert told.causes[0].cause is Cause.SESSION_TIMEOUT
    assert told.causes[0].confidence >= SETTINGS.attribution_confidence
    assert "records waited for it" in told.causes[0].why


@given(st.integers(1, S - 1))
def test_of_the_time_after_the_newest_sample_nothing_is_known(before: int) -> None:
    """The record that a member is missing from comes a few seconds after the ends were sampled last."""
    one = silent(S)
    told = with_work(one, AT, 1, lambda *_: -(AT - before))
    assert (told.work, told.lull) == (MAYBE_WORK, S - before)


def test_a_silence_without_waiting_records_accuses_no_member() -> None:
    told = judged(silent(), ends(-1))
    assert sure(told, Cause.SESSION_TIMEOUT) < SETTINGS.attribution_confidence
    assert all("no record waited for it" in one.why for one in told.causes if one.member_id)


def test_records_that_came_late_leave_open_when_it_fell_silent() -> None:
    early, late = (sure(judged(silent(), ends(came)), Cause.SESSION_TIMEOUT) for came in (S + 200, 2_000))
    assert late < early


@given(silence=st.integers(20_000, 300_000), came=st.integers(-1, 300_000), owned=st.integers(1, 2))
def test_a_lull_lasts_from_the_last_commit_to_the_first_record_and_ends_with_the_silence(
    silence: int, came: int, owned: int
) -> None:
    one = silent(silence)
    told = with_work(one, AT, owned, lambda *_: -AT if came < 0 else AT - came)
    if came < 0:
        assert told.work == (NO_WORK if owned == 1 else MAYBE_WORK)
        return
    assert told.work == HAD_WORK
    assert told.lull == max(0, silence - came)
    assert 0 <= told.lull <= silence


def test_unknown_ends_are_no_evidence() -> None:
    one = silent()
    assert with_work(one, AT, 1, lambda *_: None) is one
    assert with_work(silent(places=()), AT, 0, lambda *_: -AT).work == MAYBE_WORK
