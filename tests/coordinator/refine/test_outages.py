"""Silence during which the brokers were away, or a coordinator was reloaded, accuses nobody."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.departure.evidence import Departed, Trace
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MEASURED, CauseEntry, Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.probe.sample import ProbeSample
from rebalance_monitor.coordinator.refine.outages import Reach, excuse, with_pause, with_reload
from tests.coordinator.support.epochs import SETTINGS, A, B, committing, pair
from tests.coordinator.support.timeline import T0, Client, S, Topic, watched

AT = 1_000_000
SESSION = 20_000
CLAIM = 0.8


def stalled(until: int) -> list[Finding]:
    """B falls silent at 20 s, its coordinator moves at 24 s, and from `until` on B commits again."""
    first = Client("a-1", (0,))
    other = Client("b-1", (1,), host="/10.0.0.2", client_id="aiokafka-0.1", rebalance=S)
    topic = Topic()
    topic.generation(0, 1, [first, other])
    topic.commits(500, 60_000, first)
    topic.commits(600, 20_600, other)
    topic.commits(until, 60_000, other)
    told = watched(topic.sorted(), lambda _: "", until=60_000, epoch=lambda at: 1 + (at >= 24_000))
    return [one for one in told if one.kind is Kind.MEMBER_SILENT]


def test_a_silence_across_a_move_is_published_once_it_has_lasted_for_a_session_after_it() -> None:
    opened, resolved = stalled(50_000)
    assert (opened.phase, opened.at, opened.members[0].member_id) == ("opened", T0 + 24_000 + S, "b-1")
    assert (resolved.resolution, resolved.incident) == ("withdrawn", opened.incident)


def test_a_member_alone_whose_coordinator_is_away_and_moves_is_not_silent() -> None:
    only, topic = Client("a-1", (0,)), Topic()
    topic.generation(0, 1, [only])
    topic.commits(500, 30_500, only)
    topic.record(49_500, b"\0\2\0\5other", None, "other")
    topic.commits(52_500, 60_000, only)
    told = watched(topic, lambda _: "", until=60_000, epoch=lambda at: 1 + (at >= 49_000))
    assert [one for one in told if one.kind is Kind.MEMBER_SILENT] == []


def test_a_silence_across_a_move_that_ends_within_a_session_is_not_published() -> None:
    assert stalled(29_500) == []


def removed(at: int, moved: int) -> list[Finding]:
    """B of a KIP-848 group commits for 20.1 s, its coordinator moves, and B is removed."""
    topic = pair()
    committing(topic, 3_000, 50_000, 0)
    committing(topic, 3_100, 20_100, 1)
    topic.leave(at, B, 3)
    topic.target(at + 300, 3)
    topic.ack(at + 300, A, 3, (0, 1))
    told = watched(
        topic.sorted(), lambda _: "", until=60_000, epoch=lambda at: 1 + (at >= moved), settings=SETTINGS
    )
    assert all(MEASURED not in one.details for one in told)
    return [one for one in told if one.kind is Kind.SESSION_TIMEOUT]


def test_the_session_of_a_member_of_an_epoch_based_group_counts_anew_from_a_load_of_its_coordinator() -> None:
    (expired,) = removed(21_000 + S + 150, moved=21_000)
    assert expired.confidence >= CLAIM
    assert "its coordinator moved, 6.2 s before" in expired.causes[0].why
    assert removed(20_100 + S + 250, moved=25_000) == []
    assert len(removed(20_100 + S + 250, moved=10_000)) == 1


def found(kind: Kind, *causes: tuple[Cause, float], silence: int = 27_000) -> Finding:
    entries = tuple(CauseEntry(cause, share, "silent", "m-1", "m", "/h", None) for cause, share in causes)
    gone = MemberEntry("m-1", None, "m", "/h", False, "left", SESSION, 25_000, silence_ms=silence)  # noqa: FBT003 - positional as in the record
    return Finding(
        id="x",
        kind=kind,
        scope=Scope.GROUP,
        severity=Severity.WARNING,
        evidence="suspected",
        confidence=causes[0][1],
        cluster="c",
        group="g",
        at=AT,
        history=True,
        causes=entries,
        members=(gone,),
        details={},
    )


BREACH = found(Kind.POLL_INTERVAL_EXCEEDED, (Cause.POLL_INTERVAL_EXCEEDED, 0.97))
EXPIRY = found(Kind.SESSION_TIMEOUT, (Cause.SESSION_TIMEOUT, 0.97))
REBALANCE = found(Kind.REBALANCE, (Cause.POLL_INTERVAL_EXCEEDED, 0.9), (Cause.MEMBER_LEFT, 0.4))


@pytest.mark.parametrize("finding", [BREACH, EXPIRY, REBALANCE])
def test_an_outage_before_the_silence_or_none_changes_nothing(finding: Finding) -> None:
    assert excuse(finding, [], -1) is finding
    assert excuse(finding, [AT - 50_000, AT - 49_000], AT - 40_000) is finding


def test_one_sample_that_failed_says_nothing_of_the_brokers() -> None:
    assert excuse(BREACH, [AT - 10_000], -1) is BREACH


def test_a_breach_during_an_outage_is_withdrawn_and_the_rebalance_keeps_a_doubt() -> None:
    away = [AT - 12_000, AT - 11_000, AT - 8_000]
    assert excuse(BREACH, away, -1) is None
    told = excuse(REBALANCE, away, -1)
    assert told is not None
    assert [(one.cause, one.confidence) for one in told.causes] == [
        (Cause.MEMBER_LEFT, 0.4),
        (Cause.POLL_INTERVAL_EXCEEDED, 0.22),
    ]
    assert "8.0 s before" in told.causes[1].why


def test_a_session_counts_anew_from_the_reload() -> None:
    whole = excuse(EXPIRY, [], AT - 20_500)
    assert whole is not None
    assert whole.confidence == EXPIRY.confidence
    assert "reloaded 20.5 s before" in whole.causes[0].why
    assert excuse(EXPIRY, [], AT - 9_000) is None


def test_the_id_never_changes() -> None:
    told = excuse(replace(REBALANCE, id="same"), [], AT - 5_000)
    assert told is not None
    assert told.id == "same"


def test_a_probe_that_was_never_answered_knows_of_no_outage() -> None:
    reach = Reach()
    for at in range(1_000, 10_000, 1_000):
        reach.on_sample(ProbeSample(at, (), (), brokers=((1, False),)), at - 120_000)
    assert reach.away == []
    reach.on_sample(ProbeSample(10_000, (), (), brokers=((1, True), (2, False))), 0)
    reach.on_sample(ProbeSample(11_000, (), (), brokers=((1, False),)), 0)
    again = Reach(reach.snapshot())
    again.on_sample(ProbeSample(12_000, (), (), brokers=((-1, False),)), 0)
    assert again.away == [11_000, 12_000]
    again.on_sample(ProbeSample(140_000, (), (), brokers=((-1, False),)), 20_000)
    assert again.away == []


def test_an_outage_in_its_silence_is_evidence_of_a_departed_member() -> None:
    """Loaded when it was last away; whoever had worked until then could commit nothing meanwhile."""
    trace = Trace(27_000, (1_000,) * 8, commits=60)
    one = Departed(SESSION, 300_000, 90_000, trace, "java")
    away = [AT - 26_000, AT - 25_000, AT - 21_000]
    seen = with_reload(one, AT, away, -1)
    assert (seen.loaded, seen.lull, seen.unanswered) == (21_000, 6_000, True)
    late = with_reload(one, AT, [AT - 9_000, AT - 8_000], -1)
    assert (late.loaded, late.lull) == (8_000, 0)
    assert with_reload(one, AT, away[:1], -1) is one
    assert with_reload(one, AT, [], AT - 30_000) is one
    moved = with_reload(one, AT, [], AT - 20_000)
    assert (moved.loaded, moved.unanswered) == (20_000, False)


@pytest.mark.parametrize(
    ("commits", "left"),
    [
        # Some seconds into the absence: only the monitor did not reach the brokers.
        ([15_000], [41_000, 42_000]),
        # Just before the brokers went, and as they came back, a little before the probe knew.
        ([9_900, 11_500, 28_500], [*range(11_000, 31_000, 1_000), 41_000, 42_000]),
        ([], [*range(11_000, 31_000, 1_000), 41_000, 42_000]),
    ],
)
def test_commits_in_the_midst_of_an_absence_show_that_there_was_none(
    commits: list[int], left: list[int]
) -> None:
    reach, looks = Reach(), list(range(1_000, 43_000, 1_000))
    for at in looks:
        answered = not (11_000 <= at < 31_000 or at >= 41_000)
        reach.on_sample(ProbeSample(at, (), (), brokers=((1, answered),)), 0)
    reach.serve(commits, looks)
    assert reach.away == left


@pytest.mark.parametrize(("silence", "over"), [(SESSION - 3_000, False), (SESSION, True), (90_000, True)])
def test_a_broker_that_wakes_expires_what_has_run_out_and_nothing_else(silence: int, *, over: bool) -> None:
    trace = Trace(silence, (1_000,) * 8, commits=60)
    one = Departed(SESSION, 300_000, 95_000, trace, "java")
    assert (with_pause(one, AT, AT).woke == 0) is over


def test_what_a_broker_did_after_a_removal_says_nothing_of_it() -> None:
    trace = Trace(60_000, (1_000,) * 8, commits=60)
    gone = Departed(SESSION, 300_000, 95_000, trace, "java", removed=(30_000, 33_000))
    assert with_pause(gone, AT, AT - 10_000) is gone
    assert with_pause(gone, AT, AT - 31_000).woke == 31_000
