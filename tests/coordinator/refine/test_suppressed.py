"""What the probe overrules is not published, nor is its end; what was published always ends."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.refine.suppressed import MAX_SUPPRESSED, Suppressed
from rebalance_monitor.coordinator.settings import DetectionSettings, GroupOverride

T0 = 1_795_000_000_000
SETTINGS = DetectionSettings()


def finding(kind: Kind, phase: str | None, at: int, incident: str | None = "i1", **fields: object) -> Finding:
    values: dict[str, object] = {
        "id": f"{incident}/{phase}/{at}",
        "kind": kind,
        "scope": Scope.GROUP,
        "severity": Severity.INFO,
        "evidence": "suspected",
        "group": "g",
        "shard": 7,
        "at": T0 + at,
        "phase": phase,
        "incident": incident,
        "details": {"session_timeout_ms": 6_000},
        **fields,
    }
    return Finding(**values)  # type: ignore[arg-type]


def look(at: int, *, answered: bool = True, epoch: int = 1, state: str = "") -> ProbeSample:
    """A look at a cluster of two brokers, of which the first coordinates the group."""
    seen = (RebalancingGroup("g", state, "classic", "consumer"),) if state else ()
    return ProbeSample(T0 + at, seen, ((7, 1, epoch),), ((1, answered), (2, True)))


def looks(live: Live, first: int, last: int, **how: object) -> list[Finding]:
    every = [look(at, **how) for at in range(first, last, 1_000)]  # type: ignore[arg-type]
    return live.on_samples(every)


def suspected(phase: str, at: int) -> Finding:
    return finding(Kind.REBALANCE_IN_PROGRESS, phase, at)


def test_a_join_phase_that_was_published_without_samples_resolves_when_samples_come_again() -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 0, 60_000, answered=False)
    opened = suspected("opened", 60_000)
    assert [one.id for one in live.refine([opened])] == [opened.id]
    looks(live, 60_000, 90_000)
    resolved = suspected("resolved", 90_000)
    assert [one.id for one in live.refine([resolved])] == [resolved.id]


def test_the_end_of_a_suspected_join_phase_that_the_probe_overruled_is_not_published() -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 0, 60_000)
    assert live.refine([suspected("opened", 60_000)]) == []
    again = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    looks(again, 60_000, 90_000, answered=False)
    assert again.refine([suspected("resolved", 90_000)]) == []
    assert again.snapshot()["untold"] == {}


def test_a_silence_that_a_move_excuses_has_no_published_end_and_goes_on_when_it_lasts() -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 0, 5_000)
    looks(live, 5_000, 8_000, epoch=2)
    for incident, later in (("short", "resolved"), ("long", "updated")):
        assert live.refine([finding(Kind.MEMBER_SILENT, "opened", 7_000, incident)]) == []
        told = live.refine([finding(Kind.MEMBER_SILENT, later, 20_000, incident)])
        assert [one.phase for one in told] == ([] if later == "resolved" else ["updated"])
    (ended,) = live.refine([finding(Kind.MEMBER_SILENT, "resolved", 30_000, "long")])
    assert ended.phase == "resolved"


def test_a_silence_is_excused_from_the_move_until_a_whole_session_after_it_and_no_longer() -> None:
    for at, excused in ((4_999, False), (5_000, True), (10_999, True), (11_000, False)):
        live = Live(SETTINGS, "c1")
        looks(live, 0, 5_000)
        looks(live, 5_000, 12_000, epoch=2)
        told = live.refine([finding(Kind.MEMBER_SILENT, "opened", at)])
        assert (told == []) is excused, at


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from(["opened", "updated", "resolved"]))))
def test_each_published_incident_resolves_and_no_suppressed_one_does(
    steps: list[tuple[int, str]],
) -> None:
    suppressed, heard = Suppressed(), set[str]()
    for number, phase in steps:
        one = finding(Kind.MEMBER_SILENT, phase, 0, f"i{number}")
        kept = number % 2 == 1 and phase == "opened" and one.incident not in heard
        if kept:
            suppressed.keep(one)
        elif not suppressed.ends(one):
            heard.add(f"i{number}")
        else:
            assert phase == "resolved"
            assert one.incident not in heard
        assert heard.isdisjoint(Suppressed(suppressed.snapshot()).snapshot())


def test_what_was_not_published_is_forgotten_with_the_state_and_bounded_in_any_case() -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 0, 60_000)
    live.refine([suspected("opened", 60_000)])
    live.forget_records()
    assert live.snapshot()["untold"] == {}
    many = Suppressed({f"i{number}": 7 for number in range(MAX_SUPPRESSED)})
    many.keep(finding(Kind.MEMBER_SILENT, "opened", 0, "newest"))
    assert len(many.snapshot()) == MAX_SUPPRESSED
    assert list(many.snapshot())[-1] == "newest"


def test_a_finding_without_an_incident_is_never_held_for_the_end_of_one() -> None:
    suppressed = Suppressed()
    suppressed.keep(finding(Kind.POLL_INTERVAL_EXCEEDED, None, 0, None))
    assert suppressed.snapshot() == {}
    assert not suppressed.ends(finding(Kind.SESSION_TIMEOUT, None, 0, None))


def storming(live: Live, first: int, last: int) -> list[Finding]:
    """Ten seconds each: nine of them in a barrier."""
    found: list[Finding] = []
    for at in range(first, last, 1_000):
        found += live.on_samples([look(at, state="PreparingRebalance" if at % 10_000 else "")])
    return [one for one in found if one.kind is Kind.STORM]


def test_a_storm_by_the_probe_lasted_since_it_was_opened_not_since_its_last_join_phase() -> None:
    live = Live(SETTINGS, "c1")
    (opened,) = storming(live, 0, 600_000)
    live = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    (resolved,) = [one for one in looks(live, 600_000, 800_000) if one.kind is Kind.STORM]
    assert (resolved.phase, resolved.incident) == ("resolved", opened.id)
    assert resolved.opened_at == opened.opened_at
    assert resolved.opened_at <= T0 + 70_000


def test_what_records_add_to_a_storm_of_the_probe_says_since_when_it_lasts() -> None:
    live = Live(SETTINGS, "c1")
    (seen,) = storming(live, 0, 300_000)
    told = [
        live.refine([finding(Kind.STORM, phase, at, "r1", opened_at=T0 + 290_000)])[0]
        for phase, at in (("opened", 300_000), ("updated", 310_000), ("resolved", 900_000))
    ]
    assert [(one.phase, one.incident, one.opened_at) for one in told] == [
        ("updated", seen.id, seen.opened_at),
        ("updated", seen.id, seen.opened_at),
        ("resolved", seen.id, seen.opened_at),
    ]


def test_a_storm_of_the_records_that_grows_again_after_its_end_is_still_one_storm() -> None:
    for told in ("opened", "updated"):
        live = Live(SETTINGS, "c1")
        live.refine([finding(Kind.STORM, told, 0, "r1")])
        assert storming(live, 0, 300_000) == []
        looks(live, 300_000, 500_000)
        live.refine([finding(Kind.STORM, "resolved", 500_000, "r1")])
        assert [one.phase for one in storming(live, 500_000, 700_000)] == ["opened"]


def test_a_storm_counts_the_samples_of_its_groups_own_window() -> None:
    own = GroupOverride("g", storm_sightings_window_ms=30_000)
    live = Live(DetectionSettings(groups=(own,)), "c1")
    looks(live, 0, 40_000, state="PreparingRebalance")
    looks(live, 40_000, 60_000)
    (opened,) = storming(live, 60_000, 120_000)
    assert int(opened.details["count"]) <= 30


def test_each_join_phase_counts_the_samples_that_saw_it_and_no_others() -> None:
    live = Live(SETTINGS, "c1")
    found = []
    for first, last in ((1_000, 5_000), (8_000, 10_000)):
        found += looks(live, first, last, state="PreparingRebalance")
        found += looks(live, last, last + 2_000)
    assert [(one.phase, one.details["sightings"]) for one in found] == [
        ("opened", 1),
        ("resolved", 4),
        ("opened", 1),
        ("resolved", 2),
    ]


def test_a_stuck_join_phase_lasted_until_it_ended_whatever_was_read_of_its_end_first() -> None:
    live = Live(SETTINGS, "c1")
    found = looks(live, 0, 90_000, state="PreparingRebalance")
    live.refine([finding(Kind.REBALANCE, None, 89_500, None)])
    found += looks(live, 90_000, 91_000)
    stuck = [one for one in found if one.kind is Kind.REBALANCE_STUCK]
    assert [(one.phase, one.details["duration_ms"]) for one in stuck] == [
        ("opened", 60_000),
        ("resolved", 89_500),
    ]
    assert stuck[1].causes[0].why.startswith("rebalancing for 89.5 s")


def rebalance(at: int, *, began: int = 0, cause: Cause = Cause.LEADER_REJOINED) -> Finding:
    gone = MemberEntry("m", None, "c", "/h", False, "kept", 6_000, 60_000)  # noqa: FBT003 - positional as in the record
    return finding(
        Kind.REBALANCE,
        None,
        at,
        None,
        evidence="read",
        group_type="classic",
        started_at_min=T0 + began,
        started_at_max=T0 + at,
        sync_ms=0,
        causes=(CauseEntry(cause, 0.5, "why"),),
        members=(gone,),
    )


def test_a_join_phase_is_bounded_by_the_last_time_that_it_was_seen() -> None:
    """The monitor's clock is a little ahead: it sees the barrier before this one after that one's record."""
    live = Live(SETTINGS, "c1")
    looks(live, 9_000, 12_000, state="PreparingRebalance")
    looks(live, 12_000, 58_000)
    looks(live, 58_000, 60_000, state="PreparingRebalance")
    (told,) = live.refine([rebalance(60_000, began=10_500)])
    assert (told.started_at_min, told.started_at_max) == (T0 + 57_000, T0 + 58_000)
    assert (told.join_ms_min, told.join_ms_max) == (2_000, 3_000)


def test_a_sample_may_have_seen_the_join_phase_until_its_last_broker_had_answered() -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 50_000, 57_000)
    live.on_samples([replace(look(57_000, state="PreparingRebalance"), took=1_400)])
    again = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    (told,) = again.refine([rebalance(60_000)])
    assert (told.started_at_min, told.started_at_max) == (T0 + 56_000, T0 + 58_400)


def test_a_sample_that_the_coordinator_did_not_answer_bounds_nothing() -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 50_000, 53_000)
    looks(live, 53_000, 57_000, answered=False)
    looks(live, 57_000, 60_000, state="PreparingRebalance")
    again = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    (told,) = again.refine([rebalance(60_000)])
    assert (told.started_at_min, told.started_at_max) == (T0 + 52_000, T0 + 57_000)


def test_samples_that_saw_no_coordinators_do_not_show_that_none_moved() -> None:
    away = ProbeSample(T0, (), (), ((-1, False),))
    for blind in (True, False):
        live = Live(SETTINGS, "c1")
        looks(live, 0, 50_000)
        for at in range(50_000, 62_000, 1_000):
            live.on_samples([replace(away, at=T0 + at) if blind else look(at)])
        (told,) = live.refine([rebalance(60_000)])
        assert told.causes[0].confidence == (0.5 if blind else 0.85)


def test_a_coordinator_that_answers_nothing_is_still_seen_not_to_have_moved() -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 0, 62_000, answered=False)
    (told,) = live.refine([rebalance(60_000)])
    assert (told.causes[0].cause, told.causes[0].confidence) == (Cause.LEADER_REJOINED, 0.85)


def test_a_rebalance_just_before_the_sample_that_saw_the_move_is_the_moves() -> None:
    for at, cause in (
        (56_900, "leader_rejoined"),
        (57_000, "coordinator_moved"),
        (90_000, "coordinator_moved"),
        (90_001, "leader_rejoined"),
    ):
        live = Live(SETTINGS, "c1")
        looks(live, 50_000, 60_000)
        looks(live, 60_000, 93_000, epoch=2)
        (told,) = live.refine([rebalance(at)])
        assert (told.causes[0].cause, told.causes[0].confidence) == (cause, 0.85), at
        assert "-" not in told.causes[0].why
