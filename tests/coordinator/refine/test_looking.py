"""What looks of the probe decide, at the edges: who is waited for, who is seen, moves, silence, outages."""

import json
from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.deadlines.not_rejoined import awaited
from rebalance_monitor.coordinator.deadlines.rejoining import Seen
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.answers import Judged
from rebalance_monitor.coordinator.probe.visibility import MAX_UNSEEN, Visibility
from rebalance_monitor.coordinator.refine.history import LookBack
from rebalance_monitor.coordinator.refine.outages import excuse
from rebalance_monitor.coordinator.refine.refinement import refine
from rebalance_monitor.coordinator.settings import DetectionSettings, SeverityOverride
from tests.coordinator.refine.test_suppressed import SETTINGS, T0, finding, look, looks, rebalance, storming

PREPARING = "PreparingRebalance"


def seen(name: str, last: int, cadence: int = 500) -> Seen:
    return Seen(name, name, "/h", None, last, cadence, idle=True)


@pytest.mark.parametrize(
    ("members", "waits"),
    [
        ([seen("a", 0), seen("b", 2_001)], ["a"]),
        ([seen("a", 0), seen("b", 2_000)], []),
        ([seen("a", 0, 1_500), seen("b", 3_000)], []),
        ([seen("a", 12_001), seen("b", 9_000)], ["a"]),
        ([seen("a", 12_000), seen("b", 10_000)], []),
        ([seen("a", 0)], ["a"]),
        ([seen("a", -1), seen("b", 9_000)], ["a"]),
    ],
)
def test_a_join_phase_waits_for_members_that_stopped_long_before_the_others_or_commit_on(
    members: list[Seen], waits: list[str]
) -> None:
    found = awaited(members, 10_000, 13_000)
    assert [one.member_id for one in found.members if not found.any_of] == waits


def test_a_listing_is_held_against_groups_that_are_alive_and_not_just_written() -> None:
    listing = replace(look(0), listed=frozenset[str]())
    for summary, known in (
        ({"state": "Stable", "at": T0 - 30_001}, True),
        ({"state": "Stable", "at": T0 - 30_000}, False),
        ({"state": "Dead", "at": 0}, False),
        ({"state": "Empty", "at": 0}, False),
        ({}, False),
    ):
        assert bool(Visibility("c1").on_sample(listing, {"g": summary})) is known, summary


def test_groups_that_are_not_listed_are_remembered_by_name_up_to_a_bound() -> None:
    visibility = Visibility("c1")
    alive = {f"g{n:05}": {"state": "Stable", "at": 0} for n in range(3 * MAX_UNSEEN)}
    (opened,) = visibility.on_sample(replace(look(0), listed=frozenset[str]()), alive)
    assert opened.details["expected"] == 3 * MAX_UNSEEN
    assert len(visibility.snapshot()["unseen"]) == MAX_UNSEEN
    (resolved,) = visibility.on_sample(replace(look(1_000), listed=frozenset(alive)), alive)
    assert resolved.incident == opened.id
    assert visibility.snapshot() == Visibility("c1").snapshot()


def test_where_more_groups_are_left_out_than_are_remembered_only_those_listed_are_seen() -> None:
    visibility = Visibility("c1")
    alive = {f"g{n:05}": {"state": "Stable", "at": 0} for n in range(3 * MAX_UNSEEN)}
    visibility.on_sample(replace(look(0), listed=frozenset({"g00007"})), alive)
    again = Visibility("c1", json.loads(json.dumps(visibility.snapshot())))
    assert [again.sees(f"g{n:05}") for n in (7, 500, 2_500)] == [True, False, False]


def test_a_listing_waits_for_the_groups_that_it_is_held_against() -> None:
    visibility = Visibility("c1")
    assert visibility.on_sample(replace(look(0), listed=frozenset({"other"})), {}) == []
    alive = {"g": {"state": "Stable", "at": T0 - 60_000}}
    (opened,) = visibility.on_sample(look(4_000), alive)
    assert (opened.phase, opened.details["missing"], visibility.sees("g")) == ("opened", "g", False)
    assert visibility.on_sample(look(5_000), alive) == []


def test_how_many_groups_are_not_listed_is_published_again_when_it_changes() -> None:
    visibility = Visibility("c1")
    alive = {name: {"state": "Stable", "at": 0} for name in "abcd"}
    listings = ["abc", "abc", "ab", "a", "abcd"]
    told = [
        found
        for number, listed in enumerate(listings)
        for found in visibility.on_sample(replace(look(number * 1_000), listed=frozenset(listed)), alive)
    ]
    assert [(one.phase, one.details["seen"]) for one in told] == [
        ("opened", 3),
        ("updated", 2),
        ("updated", 1),
        ("resolved", 4),
    ]
    assert {one.incident for one in told} == {told[0].id}
    assert len({one.id for one in told}) == 4


def test_of_a_group_that_the_brokers_do_not_list_commits_are_believed() -> None:
    live = Live(SETTINGS, "c1")
    alive = {name: {"state": "Stable", "at": T0 - 60_000} for name in ("g", "other")}
    live.on_samples([replace(look(0), listed=frozenset({"other"}))], alive)
    suspected = finding(Kind.REBALANCE_IN_PROGRESS, "opened", 0)
    assert live.refine([suspected]) != []
    assert live.refine([replace(suspected, group="other", incident="i2")]) == []


def test_only_a_sample_that_some_broker_answered_judges_anything() -> None:
    assert not Judged(replace(look(0), brokers=())).whole
    assert not Judged(replace(look(0), brokers=(), leaders=())).knows("g")
    assert not Judged(replace(look(0, answered=False), leaders=())).knows("g")
    assert Judged(replace(look(0), leaders=())).knows("g")


def test_samples_out_of_order_are_left_out_and_a_small_step_back_forgets_nothing() -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 0, 20_000, state=PREPARING)
    before = live.snapshot()["looks"]
    assert live.on_samples([look(9_000), look(19_000)]) == []
    assert live.snapshot()["looks"] == before


def test_a_clock_that_is_set_back_takes_moves_with_it() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(3_600_000), look(3_601_000, epoch=2), look(0, epoch=2)])
    assert live.snapshot()["moved"] == {"7": T0}


@pytest.mark.parametrize("kind", [Kind.REBALANCE, Kind.GROUP_EMPTY])
def test_a_join_phase_is_as_old_as_the_last_record_says(kind: Kind) -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 0, 30_000, state=PREPARING)
    live.refine([finding(kind, None, 29_500, None)])
    found = looks(live, 30_000, 100_000, state=PREPARING)
    (stuck,) = [one for one in found if one.kind is Kind.REBALANCE_STUCK]
    assert stuck.at == T0 + 90_000


def test_a_join_phase_is_stuck_from_the_threshold_on() -> None:
    found = looks(Live(SETTINGS, "c1"), 0, 61_000, state=PREPARING)
    assert [(one.kind, one.at) for one in found][1:] == [(Kind.REBALANCE_STUCK, T0 + 60_000)]
    assert len(looks(Live(SETTINGS, "c1"), 0, 60_000, state=PREPARING)) == 1


def test_two_long_join_phases_are_no_storm_and_three_separate_ones_are() -> None:
    for barriers, storms in ((2, 0), (3, 1)):
        live, found = Live(SETTINGS, "c1"), list[Finding]()
        for number in range(barriers):
            found += looks(live, 40_000 * number, 40_000 * number + 30_000, state=PREPARING)
            found += looks(live, 40_000 * number + 30_000, 40_000 * number + 40_000)
        assert [one.kind for one in found].count(Kind.STORM) == storms


def test_what_the_probe_has_open_is_named_with_severities_of_the_group() -> None:
    own = (SeverityOverride(Kind.STORM, Severity.INFO, "g*"),)
    live = Live(DetectionSettings(severity_overrides=own), "c1")
    (storm,) = storming(live, 0, 200_000)
    assert storm.severity is Severity.INFO
    assert storm.incident in live.opened
    (resolved,) = [one for one in looks(live, 200_000, 400_000) if one.kind is Kind.STORM]
    assert resolved.resolution == "quiet"
    assert live.opened == frozenset()
    assert live.snapshot()["groups"] == {}


def lost(silence: int, **fields: object) -> Finding:
    """B left, after so long a silence; rebalance timeout 60 s, session timeout 6 s."""
    entry = MemberEntry("b", None, "c", "/h", False, "left", 6_000, 60_000, silence_ms=silence)  # noqa: FBT003 - positional as in the record
    cause = CauseEntry(Cause.MEMBER_LEFT, 0.8, "why", "b")
    left = replace(rebalance(100_000), members=(entry,), causes=(cause,))
    return replace(left, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("silence", "apart", "hinted"),
    [(2_999, 0, True), (3_000, 0, False), (100, -1, False), (100, 30_000, True), (100, 30_001, False)],
)
def test_the_size_limit_is_hinted_at_for_active_members_that_a_move_lost(
    silence: int, apart: int, *, hinted: bool
) -> None:
    moved_at = T0 + 100_000 - apart
    told = refine(lost(silence), LookBack([], []), moved_at)
    assert told is not None
    assert (told.causes[-1].cause is Cause.GROUP_OVER_CAPACITY) is hinted
    came = replace(lost(silence).members[0], role="joined", member_id="new")
    joined = lost(silence, members=(*lost(silence).members, came))
    assert refine(joined, LookBack([], []), moved_at) == joined
    # The others refuse whoever comes when they are full, and drop nobody.
    new = lost(silence, group_type="consumer")
    assert refine(new, LookBack([], []), moved_at) == new


def test_a_move_takes_the_place_of_what_is_not_known_and_leaves_a_doubt_to_the_rest() -> None:
    entries = (
        CauseEntry(Cause.LEADER_REJOINED, 0.5, "why"),
        CauseEntry(Cause.COORDINATOR_MOVED, 0.3, "why"),
        CauseEntry(Cause.UNKNOWN, 0.2, "why"),
    )
    told = refine(replace(rebalance(100_000), causes=entries), LookBack([], []), T0 + 99_000)
    assert told is not None
    assert [(entry.cause, entry.confidence) for entry in told.causes] == [
        (Cause.COORDINATOR_MOVED, 0.85),
        (Cause.LEADER_REJOINED, 0.1),
    ]


def silent(kind: Kind, cause: Cause, confidence: float = 0.9) -> Finding:
    """B was silent for 27 s until the barrier ended, 500 ms before the record; session timeout 6 s."""
    entry = CauseEntry(cause, confidence, "why", "b")
    gone = MemberEntry("b", None, "c", "/h", False, "left", 6_000, 60_000, silence_ms=27_000)  # noqa: FBT003 - positional as in the record
    fields = {"causes": (entry,), "members": (gone,), "confidence": confidence, "sync_ms": 500}
    return finding(kind, None, 100_500, None, history=True, **fields)


@pytest.mark.parametrize(
    ("before", "confidence"),
    [(27_000, 0.9), (26_999, 0.9), (3_500, 0.9), (3_499, None), (0, None), (-1, 0.9)],
)
def test_of_a_silence_only_what_came_after_a_reload_counts(before: int, confidence: float | None) -> None:
    expired = silent(Kind.SESSION_TIMEOUT, Cause.SESSION_TIMEOUT)
    told = excuse(expired, [], T0 + 100_000 - before)
    assert (None if told is None else told.confidence) == confidence


def test_no_poll_breach_is_published_across_a_reload_and_other_causes_are_left_alone() -> None:
    moved_at = T0 + 80_000
    breach = silent(Kind.POLL_INTERVAL_EXCEEDED, Cause.POLL_INTERVAL_EXCEEDED)
    assert excuse(breach, [], moved_at) is None
    assert excuse(breach, [moved_at], -1) == breach
    assert excuse(breach, [moved_at, moved_at + 1], -1) is None
    left = silent(Kind.REBALANCE, Cause.MEMBER_LEFT)
    assert excuse(left, [], moved_at) is left
