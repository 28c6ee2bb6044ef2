"""Many members that went of one cause are one finding, whatever their number; fewer are one each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.alerts.messages.message import title_of
from rebalance_monitor.coordinator.departure.verdicts import kinds_by
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.massed import LISTED, MANY
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.lab.scoring.claims import claims_of
from rebalance_monitor.lab.scoring.score import matched
from rebalance_monitor.lab.truth.fold import Fact
from tests.coordinator.support.timeline import T0, Client, Topic, findings, of

SETTINGS = DetectionSettings()


def lost(dead: int, alive: int) -> list[Finding]:
    """`dead` of the members stop at the same moment; the others, which commit too, drop them."""
    members = [Client(f"m-{number:03}", (number,), f"c-{number:03}") for number in range(dead + alive)]
    topic = Topic()
    topic.generation(0, 1, members)
    for at in range(1_000, 21_000, 1_000):
        topic.commit(at, dict.fromkeys(range(dead + alive), 100 + at))
    for at in range(21_000, 27_000, 1_000):
        topic.commit(at, dict.fromkeys(range(dead, dead + alive), 100 + at))
    topic.generation(26_500, 2, members[dead:])
    return Live(SETTINGS, "c1").refine(findings(topic, until=1_000))


@settings(max_examples=15)
@given(dead=st.integers(1, 3 * LISTED), alive=st.sampled_from([0, 1, 30]))
def test_the_findings_of_one_rebalance_stay_few_and_count_everybody(dead: int, alive: int) -> None:
    found = lost(dead, alive)
    beside = [one for one in found if one.kind in {Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED}]
    assert sum(one.members_affected or 0 for one in beside) in {0, dead}
    assert len(beside) < MANY
    for one in found:
        assert len([member for member in one.members if member.role == "left"]) <= LISTED
        assert len(one.members) + int(one.details.get("unlisted", 0)) >= (one.members_affected or 0)


@pytest.mark.parametrize("alive", [0, 120])
def test_400_members_that_expire_at_once_are_one_finding_whose_title_says_the_number(alive: int) -> None:
    found = lost(400, alive)
    (one,) = of(found, Kind.SESSION_TIMEOUT)
    total = 400 + alive
    assert (one.members_affected, one.details["members_before"], len(one.members)) == (400, total, LISTED)
    assert (one.severity, one.details["unlisted"]) == (Severity.WARNING, 400 - LISTED)
    assert f"lost 400 of {total} members to session timeouts" in title_of(one)
    assert ("the group is now empty" in one.causes[0].why) == (not alive)
    if not alive:
        (empty,) = of(found, Kind.GROUP_EMPTY)
        assert empty.severity is Severity.WARNING
        assert "lost all of its 400 members" in title_of(empty)


@given(st.lists(st.integers(0, 97), min_size=1, max_size=2 * MANY))
def test_what_is_claimed_of_half_of_many_that_depart_together_is_claimed_of_all(percents: list[int]) -> None:
    each = [[CauseEntry(Cause.SESSION_TIMEOUT, sure / 100, "silent")] for sure in percents]
    claimed = [one is not None for one in kinds_by(each, len(each), SETTINGS)]
    alone = [sure / 100 >= SETTINGS.attribution_confidence for sure in percents]
    shared = len(each) >= MANY and 2 * sum(alone) >= len(each)
    assert claimed == ([True] * len(each) if shared else alone)


def test_the_lab_scores_one_finding_for_all_by_totals() -> None:
    found = lost(70, 30)
    facts = [Fact("session_timeout", "g", 1, f"m-{number:03}", T0 + 26_000) for number in range(75)]
    told = matched(facts, [one for one in claims_of(found) if one.label == "session_timeout"])
    assert [right for _, right in told.claims] == [True] * 70
    assert sum(claim is None for _, claim in told.facts) == 5


def test_a_group_whose_members_left_is_empty_without_a_warning() -> None:
    topic = Topic()
    members = [Client(f"m-{number:03}", (number,)) for number in range(30)]
    topic.generation(0, 1, members)
    topic.commit(1_000, dict.fromkeys(range(30), 1))
    topic.generation(1_100, 2, [])
    (empty,) = of(Live(SETTINGS, "c1").refine(findings(topic)), Kind.GROUP_EMPTY)
    assert empty.severity is Severity.INFO
