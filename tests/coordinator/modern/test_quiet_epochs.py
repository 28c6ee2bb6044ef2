"""Epoch-based groups without traffic: a member that went after a session may have gone in any way."""

import base64
from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.epochs import SETTINGS, A, B, C, Epochs, pair
from tests.coordinator.support.timeline import S, findings, of


def idle(commits: int, quiet: int) -> Epochs:
    """Two members; one commits while there is traffic, and is gone `quiet` ms after the last of it."""
    topic = pair()
    for number in range(commits):
        topic.commit(5_000 + number * 1_000, {0: 5 + number})
    gone = 5_000 + commits * 1_000 + quiet
    topic.leave(gone, A, 3)
    topic.target(gone + 500, 3)
    topic.ack(gone + 500, B, 3, (0, 1))
    return topic


@given(commits=st.integers(1, 2), quiet=st.integers(S, 3_600_000))
def test_without_traffic_neither_a_leave_nor_a_timeout_is_claimed_after_a_session(
    commits: int, quiet: int
) -> None:
    told = of(findings(idle(commits, quiet), SETTINGS), Kind.REBALANCE)[-1]
    entries = [entry for entry in told.causes if entry.member_id == A]
    assert entries
    assert max(entry.confidence for entry in entries if entry.cause is not Cause.UNKNOWN) < CLAIMED


@given(commits=st.integers(1, 2), quiet=st.integers(0, S - 3_000))
def test_one_gone_within_its_session_has_left(commits: int, quiet: int) -> None:
    told = of(findings(idle(commits, quiet), SETTINGS), Kind.REBALANCE)[-1]
    assert (told.causes[0].cause, told.causes[0].member_id) == (Cause.MEMBER_LEFT, A)
    assert told.causes[0].confidence >= 0.6


def test_offsets_that_were_reset_while_a_group_was_empty_are_published_with_its_next_start() -> None:
    for reset in (True, False):
        topic = pair()
        topic.leave(100_000, A, 3)
        topic.leave(101_000, B, 4)
        if reset:
            topic.commit(200_000, {0: 0, 1: 0})
        topic.join(300_000, C, 5, (0, 1))
        told = of(findings(topic, SETTINGS), Kind.REBALANCE)[-1]
        causes = [entry.cause for entry in told.causes]
        assert causes == [Cause.FIRST_START, *[Cause.OFFSETS_RESET] * reset]


@pytest.mark.parametrize("quiet", [0, 65_000])
def test_one_that_is_killed_time_after_time_storms_whatever_it_had_to_commit_before(
    quiet: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.coordinator.support.epochs.P", 300_000)
    settings = DetectionSettings(session_timeout_848_ms=45_000, storm_window_ms=900_000, always_on=("g",))
    topic, at = Epochs(), 0
    for life in range(8):
        member = base64.b64encode(md5(bytes([life]), usedforsecurity=False).digest()).decode()
        topic.join(at, member, 2 * life + 1, (0, 1))
        for commit in range(1_000, 75_000 - quiet, 1_000):
            topic.commit(at + commit, {0: at + commit, 1: at + commit})
        topic.leave(at + 119_000, member, 2 * life + 2)
        at += 125_000
    found = findings(topic, settings, until=10_000)
    assert [one.phase for one in of(found, Kind.STORM)][:1] == ["opened"]
    emptied = [one for one in of(found, Kind.GROUP_EMPTY) if one.phase == "opened"]
    # Who was quiet for longer than its session before may as well have left.
    assert {one.details["ended_by"] for one in emptied[2:]} == {"unknown" if quiet else "session"}
