"""Generations that failed begin sessions anew; samples show when, and bound what ended with the group."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from rebalance_monitor.coordinator.departure.evidence import (
    NOT_BACK,
    SAME_PLACE,
    Departed,
    Evidence,
    Trace,
)
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.hypotheses import Way
from rebalance_monitor.coordinator.findings.finding import Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.probe.observed_group import begin_observation
from rebalance_monitor.coordinator.probe.sample import RebalancingGroup
from rebalance_monitor.coordinator.refine.failed_generations import with_failed
from rebalance_monitor.coordinator.refine.history import LookBack
from rebalance_monitor.coordinator.refine.listed_members import Listed, departure_of, with_successor
from rebalance_monitor.coordinator.refine.outages import with_reload
from rebalance_monitor.coordinator.refine.refinement import bounded

S, P, ENDED = 45_000, 300_000, 1_000_000
SURE, UNLIKELY = 0.8, 0.1
PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"


def member(last: int, *, since: int = 240_000, **fields: object) -> Departed:
    """One that committed every ten seconds until `last`, in this generation or (where longer ago) before."""
    trace = Trace(last if last < since else -1, (10_000,) * 8, commits=20)
    worked = -1 if last < since else last
    return changed(Departed(S, P, since, trace, "sarama", worked=worked), **fields)


def ended(one: Departed, *others: Departed, lasted: int, aborted: int = 1) -> list[list[float]]:
    """The group's last phase, which began `lasted` before, dropped these members: how likely each way is."""
    gone = (one, *others)
    evidence = Evidence(
        since=240_000, aborted=aborted, departed=gone, survivors=(), kept=0, joined=0, deadline=P, session=S
    )
    return explain(changed(evidence, phase=(lasted - 500, lasted + 500))).ways


def emptied(generation: int = 7) -> Finding:
    return Finding(
        id="e",
        kind=Kind.GROUP_EMPTY,
        scope=Scope.GROUP,
        severity=Severity.INFO,
        evidence="read",
        cluster="c1",
        group="g",
        group_type="classic",
        at=ENDED,
        generation=generation,
        previous_generation=5,
        details={},
    )


def test_one_that_is_removed_a_session_after_its_generation_failed_had_died_however_long_it_was_silent() -> (
    None
):
    """Its process had ended as it awaited the assignment: it has committed nothing for minutes."""
    late = member(300_000, removed=(0, 700))
    without, known = (ended(one, lasted=92_000)[0] for one in (late, changed(late, failed=S, undue=True)))
    assert known[Way.DIED] >= SURE > without[Way.DIED]


@pytest.mark.parametrize("others", [1, 3])
def test_what_befell_others_at_the_end_does_not_clear_one_that_died_before(others: int) -> None:
    before = member(300_000, removed=(S - 300, S + 700))
    together = [member(200_000, removed=(0, 700), failed=S, undue=True) for _ in range(others)]
    ways = ended(before, *together, lasted=92_000)
    assert ways[0][Way.DIED] == max(ways[0])
    assert all(one[Way.DIED] >= SURE for one in ways[1:])


def test_a_member_that_samples_saw_gone_long_before_the_end_did_not_miss_the_deadline_that_came_then() -> (
    None
):
    gone = member(100_000, rebalance=60_000, removed=(91_500, 99_000))
    evidence = Evidence(240_000, 0, (gone,), (), 0, 0, 60_000, S, phase=(60_000, 60_100))
    assert explain(evidence).ways[0][Way.UNJOINED] < UNLIKELY


@given(length=st.integers(100_000, 250_000))
def test_a_session_does_not_end_late_in_a_phase_in_which_a_live_member_would_have_rejoined(
    length: int,
) -> None:
    """A cooperative client did not rejoin for minutes, and was removed at the end: it did not die late."""
    one = member(length + 15_000, since=length, session=30_000, family="librdkafka", removed=(0, 600))
    kept = Trace(length - 3_000, (10_000,) * 8, commits=50)
    evidence = Evidence(length, 0, (one,), (kept, kept), 2, 0, P, 30_000, cooperative=True)
    ways = explain(changed(evidence, phase=(length - 700, length))).ways[0]
    assert ways[Way.DIED] < SURE


def test_samples_show_when_a_generation_began_and_failed() -> None:
    def seen(state: str) -> RebalancingGroup:
        return RebalancingGroup("g", state, "classic", "consumer")

    group = begin_observation(None, 1_000, seen(PREPARING), 5)
    begun = [group.turn(seen(PREPARING if at in {1, 5, 6} else COMPLETING), 1_000 * at) for at in range(1, 9)]
    assert begun == [False, False, False, False, True, False, False, False]
    assert (group.formed, group.failed, group.since) == ([2_000, 7_000], [5_000], 5_000)
    again = begin_observation(group, 20_000, seen(PREPARING), 7)
    assert (again.formed, again.failed) == (group.formed, group.failed)


def test_a_failed_generation_is_evidence_only_where_records_lack_one() -> None:
    samples = LookBack(formed=[ENDED - 90_000], failed=[ENDED - S])
    one = member(300_000, removed=(0, 700))
    assert with_failed(one, emptied(generation=6), ENDED, samples) is one
    found = with_failed(one, emptied(), ENDED, samples)
    assert (found.failed, found.undue) == (S, True)
    assert found.anew == S


def test_what_happened_after_its_removal_or_just_before_began_no_session_that_ended_then() -> None:
    samples = LookBack(formed=[ENDED - 90_000], failed=[ENDED - S])
    earlier = with_failed(member(300_000, removed=(S - 300, S + 700)), emptied(), ENDED, samples)
    assert (earlier.failed, earlier.undue) == (90_000, True)
    first = member(300_000, removed=(90_000, 91_000))
    assert with_failed(first, emptied(), ENDED, samples) is first
    # A coordinator that is loaded after that re-arms it as little.
    assert with_reload(first, ENDED, [], ENDED - S) is first
    assert with_reload(member(300_000, removed=(0, 700)), ENDED, [], ENDED - S).loaded == S


def test_a_join_phase_that_lasts_since_a_failure_may_have_come_to_its_deadline() -> None:
    samples = LookBack(failed=[ENDED - 70_000])
    one = member(300_000, rebalance=60_000, removed=(0, 700))
    assert not with_failed(one, emptied(), ENDED, samples).undue


def test_samples_bound_the_last_join_phase_of_a_group_that_ends() -> None:
    answered = list(range(ENDED - 120_000, ENDED + 2_000, 1_000))
    sightings = [at for at in answered if ENDED - 92_000 <= at <= ENDED]
    samples = LookBack(sightings=sightings, answered=answered)
    found = bounded(emptied(), samples, ENDED - 240_000)
    assert (found.join_ms_min, found.join_ms_max) == (92_000, 93_000)
    assert bounded(emptied(), samples).join_ms_min is None
    assert bounded(replace(emptied(), kind=Kind.REBALANCE), samples, ENDED - 240_000).join_ms_min is None


def test_a_member_that_is_remembered_is_bounded_although_others_are_forgotten() -> None:
    lists = list(range(ENDED - 90_000, ENDED, 1_000))
    samples = LookBack(lists=lists, listed={"m": ENDED - 46_000}, forgotten=ENDED - 80_000)
    since = ENDED - 240_000
    assert departure_of(samples, emptied(), "m", since) == Listed(ENDED - 46_000, ENDED - 45_000)
    assert departure_of(samples, emptied(), "other", since) is None


def test_a_session_that_began_as_a_removal_ended_the_phase_before_comes_before_the_deadline_of_the_next() -> (
    None
):
    """aiokafka's members gave up waiting and came back under new ids; a session is as long as the phase."""

    def gone(last: int, **fields: object) -> Departed:
        return changed(member(last, since=130_000), rebalance=S, family="aiokafka", **fields)

    held = gone(110_000, removed=(44_200, 45_600))
    others = [gone(last, returned=SAME_PLACE, removed=(0, 500)) for last in (80_000, 100_000)]
    evidence = Evidence(130_000, 1, (held, *others), (), 0, 3, S, S, phase=(73_200, 74_600))
    assert evidence.failures == ((44_200, 45_600),)
    assert changed(evidence, departed=tuple(others)).failures is None
    assert changed(evidence, departed=tuple(others), phase=(-1, -1)).failures == ()
    assert changed(evidence, aborted=0).failures is None
    assert all(one[Way.DIED] >= SURE for one in explain(evidence).ways)


def test_samples_show_a_newcomer_that_no_record_has_in_the_place_of_a_member_that_is_gone() -> None:
    def entry(name: str, client: str) -> MemberEntry:
        return MemberEntry(name, None, client, "/10.0.0.1", host_is_stale=False, role="left")

    old, other = entry("pay-b-1", "pay-b"), entry("pay-a-1", "pay-a")
    end = replace(emptied(), members=(old, other))
    one = member(100_000)

    def back(gone: MemberEntry, came: str, at: int = 30_000, rebalance: Finding = end) -> int:
        samples = LookBack(listed={"pay-a-1": ENDED - 1_000, came: ENDED - at})
        return with_successor(one, gone, rebalance, ENDED, samples).returned

    assert back(old, "pay-b-2") == SAME_PLACE
    assert back(other, "pay-b-2") == back(old, "pay-c-1") == back(old, "pay-b-2", at=one.since) == NOT_BACK
    # Every generation has its record, or two members have that client id.
    assert back(old, "pay-b-2", rebalance=replace(end, generation=6)) == NOT_BACK
    twin = replace(end, members=(old, replace(other, client_id="pay-b")))
    assert back(old, "pay-b-2", rebalance=twin) == NOT_BACK
