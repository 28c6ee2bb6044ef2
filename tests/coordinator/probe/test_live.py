"""Rebalances that the probe sees: opened, stuck and resolved once, and nothing by brokers that are silent."""

import json
from dataclasses import replace

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup, from_json, to_json
from tests.coordinator.support.looks import LISTED, SEEN, SETTINGS, SUMMARY, _recorded, kinds, look
from tests.coordinator.support.timeline import T0, Client, Topic, findings


def test_a_rebalance_is_opened_when_seen_and_resolved_with_its_duration() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_samples([look(at, seen=1_000 <= at < 5_000) for at in range(0, 8_000, 1_000)])
    assert kinds(found) == [
        (Kind.REBALANCE_IN_PROGRESS, "opened"),
        (Kind.REBALANCE_IN_PROGRESS, "resolved"),
    ]
    assert found[1].details["duration_ms"] == 4_000
    assert found[1].incident == found[0].id


def test_a_broker_that_does_not_answer_resolves_nothing() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(0, seen=True)])
    assert live.on_samples([look(1_000, seen=False, answered=False)]) == []


def test_one_unbroken_join_phase_is_stuck_and_no_storm() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_samples([look(at, seen=at < 200_000) for at in range(0, 202_000, 1_000)])
    assert (Kind.REBALANCE_STUCK, "opened") in kinds(found)
    assert (Kind.REBALANCE_STUCK, "resolved") in kinds(found)
    assert Kind.STORM not in {finding.kind for finding in found}


def test_the_memory_and_a_sighting_survive_as_json() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(0, seen=True)])
    again = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    assert again.on_samples([look(1_000, seen=False)]) == live.on_samples([look(1_000, seen=False)])
    assert from_json(to_json(look(0, seen=True))) == look(0, seen=True)


def test_a_stuck_rebalance_names_the_members_that_all_others_wait_for() -> None:
    live = Live(SETTINGS, "c1")
    looks = [replace(look(at, seen=True), members=LISTED) for at in range(9_000, 72_000, 1_000)]
    stuck = [f for f in live.on_samples(looks, {"g": SUMMARY}) if f.kind is Kind.REBALANCE_STUCK]
    assert [member.member_id for member in stuck[0].members] == ["slow"]
    assert stuck[0].details["waits_for"] == "consumer-slow"
    assert stuck[0].generation == 7


def test_no_member_is_named_if_all_are_alike() -> None:
    live = Live(SETTINGS, "c1")
    alike = [one for one in SUMMARY["member_list"] if one["member_id"] in {"fast", "quick"}]  # type: ignore[index]
    summary = {
        **SUMMARY,
        "group_type": "classic",
        "member_list": [one | {"rebalance_timeout_ms": 300_000} for one in alike],
    }
    looks = [look(at, seen=True) for at in range(9_000, 72_000, 1_000)]
    (stuck,) = [f for f in live.on_samples(looks, {"g": summary}) if f.kind is Kind.REBALANCE_STUCK]
    assert stuck.members == ()
    # But when its coordinator removes whoever it is.
    assert stuck.details["ends_at"] == T0 + 309_000
    assert stuck.causes[0].why.endswith("its coordinator removes it in 240.0 s")


def probed(at: int, *, seen: bool, answered: tuple[bool, ...] = (True, False)) -> ProbeSample:
    """A look at a cluster of two brokers, of which the first coordinates every group."""
    return ProbeSample(T0 + at, SEEN if seen else (), ((0, 1, 1),), tuple(enumerate(answered, 1)))


def test_another_broker_that_never_answers_keeps_no_rebalance_open() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_samples([probed(at, seen=at < 3_000) for at in range(0, 6_000, 1_000)])
    assert kinds(found)[-1] == (Kind.REBALANCE_IN_PROGRESS, "resolved")


def test_a_generation_between_two_samples_parts_two_join_phases_even_if_the_coordinator_was_silent() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([probed(at, seen=True) for at in range(0, 3_000, 1_000)])
    topic = Topic()
    topic.generation(3_500, 1, [Client("a-1", (0,))])
    live.refine(findings(topic))
    silent = [probed(at, seen=False, answered=(False, True)) for at in range(4_000, 600_000, 1_000)]
    assert live.on_samples(silent) == []
    later = [probed(at, seen=True) for at in range(600_000, 620_000, 1_000)]
    assert Kind.REBALANCE_STUCK not in {kind for kind, _ in kinds(live.on_samples(later))}


def test_a_join_phase_that_lasts_for_a_day_needs_no_more_memory_than_one_of_minutes() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(at, seen=True) for at in range(0, 600_000, 1_000)])
    before = len(json.dumps(live.snapshot()))
    live.on_samples([look(at, seen=True) for at in range(600_000, 7_200_000, 1_000)])
    assert len(json.dumps(live.snapshot())) < 1.5 * before
    found = live.on_samples([look(7_200_000, seen=False)])
    assert found[0].details == {"sightings": 7_200, "duration_ms": 7_200_000}


def test_a_probe_whose_clock_was_ahead_goes_on_when_it_is_set_back() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(3_600_000, seen=True)])
    found = live.on_samples([look(at, seen=at < 90_000) for at in range(0, 100_000, 1_000)])
    assert (Kind.REBALANCE_STUCK, "opened") in kinds(found)
    assert kinds(found)[-2:] == [
        (Kind.REBALANCE_IN_PROGRESS, "resolved"),
        (Kind.REBALANCE_STUCK, "resolved"),
    ]


def test_commits_are_overruled_where_the_groups_own_coordinator_answered() -> None:
    """One broker that is away for good must not publish every suspected join phase beside the probe's."""
    suspected = replace(
        _recorded("opened", 1),
        kind=Kind.REBALANCE_IN_PROGRESS,
        evidence="suspected",
        shard=7,
        at=T0 + 3_000,
    )
    for coordinator, answered in ((1, True), (2, False)):
        live = Live(SETTINGS, "c1")
        brokers = ((1, True), (2, False))
        live.on_samples([ProbeSample(T0 + 2_000, (), ((7, coordinator, 1),), brokers)])
        assert (live.refine([suspected]) == []) is answered


def test_a_second_join_phase_that_is_stuck_is_an_incident_of_its_own() -> None:
    live, stuck = Live(SETTINGS, "c1"), []
    topic = Topic()
    topic.generation(100_000, 2, [Client("a-1", (0,))])
    for at in range(10_000, 302_000, 1_000):
        stuck += live.on_samples([look(at, seen=at < 300_000)])
        if at == 100_000:
            live.refine(findings(topic))
    told = [found for found in stuck if found.kind is Kind.REBALANCE_STUCK]
    assert [found.phase for found in told] == ["opened", "resolved", "opened", "resolved"]
    assert [found.details["duration_ms"] for found in told if found.phase == "resolved"] == [90_000, 200_000]
    assert len({found.id for found in told}) == 4


def test_a_group_that_is_empty_by_then_is_not_said_to_be_stable() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([look(at, seen=True) for at in range(0, 3_000, 1_000)])
    (ended,) = live.on_samples([look(3_000, seen=False)], {"g": {**SUMMARY, "state": "Empty"}})
    assert (ended.phase, ended.state) == ("resolved", "Empty")


def test_of_a_group_whose_members_acknowledge_epochs_records_say_that_it_is_stuck() -> None:
    seen = (RebalancingGroup("g", "Reconciling", "consumer", "consumer"),)
    looks = [replace(look(at, seen=True), groups=seen) for at in range(0, 200_000, 1_000)]
    known = {"g": {**SUMMARY, "state": "Reconciling"}}
    # What an old summary says, or none at all, is no sign that records are read.
    for summaries, stuck in ((known, 0), ({"g": SUMMARY}, 1), ({}, 1)):
        found = Live(SETTINGS, "c1").on_samples(looks, summaries)
        assert [f.kind for f in found].count(Kind.REBALANCE_STUCK) == stuck


def test_a_join_phase_that_begins_again_without_a_generation_leaves_it_stuck() -> None:
    live, found = Live(SETTINGS, "c1"), []
    for at in range(0, 400_000, 1_000):
        state = "CompletingRebalance" if at % 80_000 == 70_000 else "PreparingRebalance"
        seen = (RebalancingGroup("g", state, "classic", "consumer"),)
        found += live.on_samples([replace(look(at, seen=True), groups=seen)])
    assert [one.phase for one in found if one.kind is Kind.REBALANCE_STUCK] == ["opened"]
