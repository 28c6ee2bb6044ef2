"""Whom a join deadline removes though it lives, and whom it keeps."""

import pytest
from msgspec.structs import replace

from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence, Trace
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.departure.waits import tried_heartbeats


def held_to_the_deadline(deadline: int, session: int, gone: int = 6) -> Evidence:
    """A newcomer began the phase. One member rejoined; the others committed on until they were removed."""
    return Evidence(
        since=200_000,
        aborted=0,
        departed=tuple(
            Departed(session, deadline, 200_000, Trace(2_010 + 3 * one, (5_004,) * 8, commits=40), "java")
            for one in range(gone)
        ),
        survivors=(Trace(deadline - 800, (5_004,) * 8, commits=40),),
        kept=1,
        joined=1,
        deadline=deadline,
        session=session,
    )


@pytest.mark.parametrize("session", [30_000, 60_000, 12_000])
def test_members_that_live_and_hear_of_no_phase_before_its_deadline_are_removed_by_it(session: int) -> None:
    """They had committed as ever, and it is as if they had left: but all of them, as a phase had to end."""
    for shares in explain(held_to_the_deadline(5_000, session)).ways:
        assert shares[Way.UNJOINED] >= 0.8
        assert shares[Way.LEFT] < 0.2


def test_no_such_member_is_thought_of_where_heartbeats_are_more_frequent_than_the_deadline() -> None:
    for shares in explain(held_to_the_deadline(60_000, 12_000)).ways:
        assert shares[Way.UNJOINED] < 0.2


def test_intervals_above_a_third_of_the_session_are_tried_where_the_deadline_would_tell_of_them() -> None:
    assert max(tried_heartbeats(45_000, 300_000)) == 15_000
    assert max(tried_heartbeats(45_000, 20_000)) == 30_000


def test_a_static_member_that_stayed_may_have_held_the_phase_to_the_deadline_which_keeps_it() -> None:
    """Another had died: it was gone a session after its last commit, and the phase began as it was."""
    session, deadline = 60_000, 120_000
    trace = Trace(session + deadline, (1_008, 1_001, 1_012, 1_011, 1_004, 1_008), idle=True, commits=264)
    gone = Departed(session, deadline, 242_000, trace, "java", static=True, went_on=True)
    late = (
        Trace(deadline - 9_400, (1_004,) * 4, commits=250),
        Trace(deadline - 400, (1_009,) * 4, commits=250),
    )
    told = Evidence(242_000, 0, (gone,), late, 3, 0, deadline, session, awaits=True)
    assert explain(told).ways[0][Way.DIED] >= 0.8
    assert explain(replace(told, awaits=False)).ways[0][Way.DIED] < 0.8
