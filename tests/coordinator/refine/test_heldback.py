"""A silence that a move explains accuses nobody before a whole session has passed that could tell."""

import json
from dataclasses import replace

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.timeline import T0, Client, Topic, findings, watched

MOVED, SESSION = 30_000, 10_000
FIRST = Client("a-1", (0, 1), session=SESSION, rebalance=30_000)
OTHER = Client("b-1", (2, 3), host="/10.0.0.2", session=SESSION, rebalance=30_000)
ALL_READ = {7: T0 + 10**9}


def stalled() -> list[Finding]:
    """B falls silent at 20.6 s: its session is over at 30.6 s, its poll interval at 50.6 s."""
    topic = Topic()
    topic.generation(0, 1, [FIRST, OTHER])
    topic.commits(500, 90_000, FIRST)
    topic.commits(600, 20_600, OTHER)
    return [one for one in findings(topic.sorted()) if one.kind is Kind.MEMBER_SILENT]


def look(at: int, *, answered: bool = True) -> ProbeSample:
    leaders = ((7, 1, 1 + (at >= MOVED)),) if answered else ()
    return ProbeSample(T0 + at, (), leaders, ((1, answered),))


def looks(
    live: Live, first: int, last: int, *, answered: bool = True, read: dict[int, int] | None = None
) -> list[Finding]:
    every = [look(at, answered=answered) for at in range(first, last, 1_000)]
    found = live.on_samples(every, read=ALL_READ if read is None else read)
    return [one for one in found if one.kind is Kind.MEMBER_SILENT]


def holding() -> Live:
    """What has seen the move and holds the silence of B back."""
    live = Live(DetectionSettings(), "c1")
    looks(live, 1_000, 31_000)
    assert live.refine(stalled()[:1]) == []
    return Live(DetectionSettings(), "c1", json.loads(json.dumps(live.snapshot())))


def test_a_member_that_has_to_revoke_has_its_whole_rebalance_timeout_after_a_move() -> None:
    """The coordinator that loads the group arms it again (`scheduleConsumerGroupRebalanceTimeout`)."""
    known = stalled()[0]
    details = known.details | {"deadline": "rebalance", "rebalance_timeout_ms": 30_000}
    live = Live(DetectionSettings(), "c1")
    looks(live, 1_000, 31_000)
    assert live.refine([replace(known, at=T0 + MOVED + SESSION + 1, details=details)]) == []
    assert looks(live, 31_000, MOVED + 30_000 + 3_000) == []
    assert [one.at for one in looks(live, MOVED + 33_000, MOVED + 35_000)] == [T0 + MOVED + 30_000]


def test_a_silence_is_published_a_session_after_the_move_with_how_long_it_has_lasted() -> None:
    (told,) = looks(holding(), 31_000, 60_000)
    assert (told.at, told.opened_at) == (T0 + MOVED + SESSION,) * 2
    assert told.members[0].silence_ms == told.details["silence_ms"] == MOVED + SESSION - 20_600


def test_a_late_silence_counts_its_session_from_the_reload_and_doubts_the_poll_interval() -> None:
    (told,) = looks(holding(), 31_000, 60_000)
    shares = {one.cause: (one.confidence, one.why) for one in told.causes}
    assert "reloaded 10.0 s before" in shares[Cause.SESSION_TIMEOUT][1]
    assert shares[Cause.POLL_INTERVAL_EXCEEDED][0] <= 0.3


def test_samples_that_the_coordinator_does_not_answer_show_nothing_and_begin_the_session_anew() -> None:
    live = holding()
    assert looks(live, 31_000, 60_000, answered=False) == []
    assert looks(live, 60_000, 70_000) == []
    (told,) = looks(live, 70_000, 75_000)
    assert told.at == T0 + 59_000 + SESSION


def test_no_member_is_accused_before_the_records_of_the_session_are_read() -> None:
    live = holding()
    assert looks(live, 60_000, 62_000, read={7: T0 + 31_000}) == []
    assert looks(live, 62_000, 64_000, read={}) == []
    again = Live(DetectionSettings(), "c1", json.loads(json.dumps(live.snapshot())))
    withdrawn = stalled()[0]
    topic = Topic()
    topic.generation(0, 1, [FIRST, OTHER])
    topic.commits(500, 60_000, FIRST)
    topic.commits(600, 20_600, OTHER)
    topic.commit(35_000, {2: 5, 3: 5})
    ended = [one for one in findings(topic.sorted()) if one.incident == withdrawn.incident][-1]
    assert ended.phase == "resolved"
    assert again.on_samples([look(64_000)], {}, [ended], ALL_READ) == []
    assert again.refine([ended]) == []


def test_a_lost_shard_loses_its_suppressed_findings_too() -> None:
    live = holding()
    live.forget_records(8)
    assert (len(live.snapshot()["held"]), len(live.snapshot()["untold"])) == (1, 1)
    live.forget_records(7)
    assert (live.snapshot()["held"], live.snapshot()["untold"]) == ([], {})


def test_what_goes_on_with_a_silence_that_was_published_does_not_open_it_again() -> None:
    topic = Topic()
    topic.generation(0, 1, [FIRST, OTHER])
    topic.commits(500, 90_000, FIRST)
    topic.commits(600, 20_600, OTHER)
    told = watched(topic.sorted(), lambda _: "", until=90_000, epoch=lambda at: 1 + (at >= 45_000))
    silent = [one for one in told if one.kind is Kind.MEMBER_SILENT]
    assert [(one.phase, one.opened_at) for one in silent] == [("opened", silent[0].at)]
