import json
from dataclasses import replace

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import Coordinator, Finding
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.settings import DetectionSettings, GroupOverride
from rebalance_monitor.coordinator.sightings import SeenGroup, Sighting, from_json, to_json
from tests.coordinator.timeline import T0, Client, S, Topic, findings

SETTINGS = DetectionSettings()
SEEN = (SeenGroup("g", "PreparingRebalance", "classic", "consumer"),)


def look(at: int, *, seen: bool, epoch: int = 1, answered: bool = True) -> Sighting:
    return Sighting(T0 + at, SEEN if seen else (), ((7, 1, epoch),), ((1, answered),))


def kinds(found: list[Finding]) -> list[tuple[Kind, str | None]]:
    return [(finding.kind, finding.phase) for finding in found]


def test_a_rebalance_is_opened_when_seen_and_resolved_with_its_duration() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_sightings([look(at, seen=1_000 <= at < 5_000) for at in range(0, 8_000, 1_000)])
    assert kinds(found) == [
        (Kind.REBALANCE_IN_PROGRESS, "opened"),
        (Kind.REBALANCE_IN_PROGRESS, "resolved"),
    ]
    assert found[1].details["duration_ms"] == 4_000
    assert found[1].incident == found[0].id


def test_a_broker_that_does_not_answer_resolves_nothing() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([look(0, seen=True)])
    assert live.on_sightings([look(1_000, seen=False, answered=False)]) == []


def test_one_unbroken_barrier_is_stuck_and_no_storm() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_sightings([look(at, seen=at < 200_000) for at in range(0, 202_000, 1_000)])
    assert (Kind.REBALANCE_STUCK, "opened") in kinds(found)
    assert (Kind.REBALANCE_STUCK, "resolved") in kinds(found)
    assert Kind.STORM not in {finding.kind for finding in found}


def test_many_separate_sightings_are_a_storm_even_if_nothing_ever_completes() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_sightings([look(at, seen=at % 10_000 != 0) for at in range(0, 120_000, 1_000)])
    assert kinds(found).count((Kind.STORM, "opened")) == 1


def _recorded(phase: str, number: int) -> Finding:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    return replace(
        findings(topic)[0], id=f"r{number}", kind=Kind.STORM, phase=phase, incident="r1", at=T0 + 130_000
    )


def test_a_storm_that_the_probe_saw_first_is_one_incident_with_what_the_records_tell() -> None:
    live = Live(SETTINGS, "c1")
    looks = live.on_sightings([look(at, seen=at % 10_000 != 0) for at in range(0, 120_000, 1_000)])
    (seen,) = (one for one in looks if one.kind is Kind.STORM)
    (told,) = live.refine([_recorded("opened", 1)])
    assert (told.id, told.phase, told.incident) == ("r1", "updated", seen.id)
    # It lives on over a restart, and only the records end it.
    again = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    quiet = again.on_sightings([look(at, seen=False) for at in range(120_000, 400_000, 1_000)])
    assert Kind.STORM not in {one.kind for one in quiet}
    (ended,) = again.refine([_recorded("resolved", 2)])
    assert (ended.id, ended.phase, ended.incident) == ("r2", "resolved", seen.id)


def test_a_storm_that_the_records_told_first_keeps_its_incident() -> None:
    live = Live(SETTINGS, "c1")
    assert [one.phase for one in live.refine([_recorded("opened", 1)])] == ["opened"]
    looks = live.on_sightings([look(at, seen=at % 10_000 != 0) for at in range(0, 120_000, 1_000)])
    assert Kind.STORM not in {one.kind for one in looks}


def test_a_leader_epoch_that_steps_is_a_coordinator_move() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_sightings([look(0, seen=False), look(1_000, seen=False, epoch=3)])
    assert kinds(found) == [(Kind.COORDINATOR_MOVED, None)]


def test_a_partition_without_a_leader_has_not_moved_until_it_has_one_again() -> None:
    live = Live(SETTINGS, "c1")
    led = [(0, 1, 1), (1_000, -1, 1), (2_000, -1, 2), (3_000, 1, 3), (4_000, 1, 3)]
    looks = [replace(look(at, seen=False), leaders=((7, broker, epoch),)) for at, broker, epoch in led]
    (moved,) = live.on_sightings(looks)
    assert (moved.at, moved.coordinator, moved.details["previous_broker"]) == (
        T0 + 3_000,
        Coordinator(1, 3),
        1,
    )


def test_a_broker_whose_metadata_lags_moves_no_coordinator_back() -> None:
    live = Live(SETTINGS, "c1")
    led = [(0, 1, 5), (1_000, 2, 6), (2_000, 1, 5), (3_000, 2, 6)]
    looks = [replace(look(at, seen=False), leaders=((7, broker, epoch),)) for at, broker, epoch in led]
    (moved,) = live.on_sightings(looks)
    assert (moved.at, moved.coordinator) == (T0 + 1_000, Coordinator(2, 6))


def test_a_topic_made_anew_begins_its_leader_epochs_again() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([replace(look(0, seen=False), leaders=((7, 1, 5),))])
    live.forget_records()
    assert live.on_sightings([replace(look(1_000, seen=False), leaders=((7, 1, 0),))]) == []
    (moved,) = live.on_sightings([replace(look(2_000, seen=False), leaders=((7, 2, 1),))])
    assert moved.coordinator == Coordinator(2, 1)


def rebalances() -> list[Finding]:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(60_000, 2, [Client("a-1", (0,))])
    return findings(topic)


def test_looks_narrow_the_bounds_of_a_rebalance_and_keep_its_id() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([look(at, seen=at >= 55_000) for at in range(50_000, 60_000, 1_000)])
    before = rebalances()[1]
    (after,) = live.refine([before])
    assert after.id == before.id
    assert (after.started_at_min, after.started_at_max) == (T0 + 54_000, T0 + 55_000)
    assert after.coordinator is not None


def test_after_a_coordinator_move_silence_is_held_back_and_same_members_are_explained() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([look(56_000, seen=False), look(57_000, seen=False, epoch=3)])
    (after,) = live.refine([rebalances()[1]])
    assert after.causes[0].cause == "coordinator_moved"
    topic = Topic()
    client = Client("a-1", (0,))
    topic.generation(0, 1, [client])
    topic.commits(500, 52_500, client)
    topic.record(57_000, b"\0\2\0\5other", None, "other")
    silent = [f for f in findings(topic, until=S + 4_000) if f.kind is Kind.MEMBER_SILENT]
    assert len(silent) == 1
    assert live.refine(silent) == []


def test_the_memory_and_a_sighting_survive_as_json() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([look(0, seen=True)])
    again = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    assert again.on_sightings([look(1_000, seen=False)]) == live.on_sightings([look(1_000, seen=False)])
    assert from_json(to_json(look(0, seen=True))) == look(0, seen=True)


SUMMARY = {
    "generation": 7,
    "state": "Stable",
    "at": T0,
    "as_of": T0 + 40_000,
    "protocol": "range",
    "member_list": [
        {
            "member_id": m,
            "client_id": f"consumer-{m}",
            "host": "/h",
            "instance_id": None,
            "last_commit": T0 + at,
            "cadence_ms": -1,
            "family": "java",
            "commits_idle": True,
        }
        for m, at in (("slow", 1_000), ("fast", 8_000), ("quick", 9_000), ("gone", 500))
    ],
}
LISTED = {"g": tuple((m, "", f"consumer-{m}", "/h") for m in ("slow", "fast", "quick", "new"))}


def test_a_stuck_rebalance_names_the_members_that_all_others_wait_for() -> None:
    live = Live(SETTINGS, "c1")
    looks = [replace(look(at, seen=True), members=LISTED) for at in range(9_000, 72_000, 1_000)]
    stuck = [f for f in live.on_sightings(looks, {"g": SUMMARY}) if f.kind is Kind.REBALANCE_STUCK]
    assert [member.member_id for member in stuck[0].members] == ["slow"]
    assert stuck[0].details["waits_for"] == "consumer-slow"
    assert stuck[0].generation == 7


def test_where_all_members_are_alike_nobody_is_named() -> None:
    live = Live(SETTINGS, "c1")
    alike = [one for one in SUMMARY["member_list"] if one["member_id"] in {"fast", "quick"}]  # type: ignore[index]
    found = live.on_sightings(
        [look(at, seen=True) for at in range(9_000, 72_000, 1_000)], {"g": {**SUMMARY, "member_list": alike}}
    )
    assert [f.members for f in found if f.kind is Kind.REBALANCE_STUCK] == [()]


def test_join_phases_that_end_and_begin_again_are_a_storm_and_nothing_is_stuck() -> None:
    live = Live(SETTINGS, "c1")
    looks = [look(at, seen=False) for at in range(0, 60_000, 1_000)]
    for at in range(60_000, 180_000, 1_000):
        state = "CompletingRebalance" if at % 2_000 else "PreparingRebalance"
        looks.append(replace(look(at, seen=True), groups=(SeenGroup("g", state, "classic", "consumer"),)))
    found = kinds(live.on_sightings(looks))
    assert found.count((Kind.STORM, "opened")) == 1
    assert (Kind.REBALANCE_STUCK, "opened") not in found


def listing(at: int, *names: str) -> Sighting:
    return replace(look(at, seen=False), listed=frozenset(names))


def test_groups_that_the_brokers_do_not_list_are_told_once_and_again_when_they_do() -> None:
    live = Live(SETTINGS, "c1")
    alive = {"g": SUMMARY, "h": SUMMARY, "empty": {**SUMMARY, "state": "Empty"}}
    looks = [listing(60_000, "g"), listing(360_000, "g"), listing(660_000, "g", "h")]
    opened, resolved = live.on_sightings(looks, alive)
    assert (opened.kind, opened.phase, opened.details["missing"]) == (Kind.MONITOR_DEGRADED, "opened", "h")
    assert (opened.details["seen"], opened.details["expected"]) == (1, 2)
    assert (resolved.phase, resolved.incident) == ("resolved", opened.id)


def test_a_listing_that_a_broker_did_not_answer_says_nothing() -> None:
    live = Live(SETTINGS, "c1")
    unanswered = replace(listing(60_000), brokers=((1, False),))
    assert live.on_sightings([unanswered], {"g": SUMMARY}) == []


def test_sightings_with_members_and_listings_survive_as_json() -> None:
    seen = replace(listing(60_000, "g", "h"), members=LISTED, failures={2: "Broker 2 is away."}, took=1_700)
    assert from_json(to_json(seen)) == seen


def refined(topic: Topic, *, seen_from: int, seen_until: int) -> Finding:
    live = Live(SETTINGS, "c1")
    live.on_sightings([look(at, seen=seen_from <= at < seen_until) for at in range(0, 80_000, 1_000)])
    last = [found for found in findings(topic) if found.kind is Kind.REBALANCE][-1]
    return live.refine([last])[0]


def dropped(stops: int) -> Topic:
    """B is gone from the second generation; A commits until it rejoins at `stops`, B until the end."""
    both = [Client("a-1", (0,)), Client("b-1", (1,))]
    topic = Topic()
    topic.generation(0, 1, both)
    topic.commits(1_000, stops, both[0], moving=3)
    topic.commits(1_000, 59_000, both[1], moving=3)
    topic = topic.sorted()
    topic.generation(60_000, 2, both[:1])
    return topic


def test_a_barrier_seen_to_last_for_its_deadline_dropped_those_that_are_missing() -> None:
    late = refined(dropped(54_000), seen_from=52_500, seen_until=60_000)
    assert (late.causes[0].cause, late.causes[0].member_id) == (Cause.JOIN_DEADLINE_MISSED, "b-1")
    soon = refined(dropped(59_000), seen_from=58_500, seen_until=60_000)
    assert soon.causes[0].cause is Cause.MEMBER_LEFT


def test_where_no_coordinator_moved_a_rebalance_of_the_same_members_was_asked_for() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(60_000, 2, [Client("a-1", (0,))])
    cause = refined(topic, seen_from=59_500, seen_until=60_000).causes[0]
    assert (cause.cause, cause.confidence) == (Cause.LEADER_REJOINED, 0.85)


def test_active_members_that_are_gone_after_a_move_hint_at_the_size_limit() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([look(at, seen=False, epoch=1 + (at >= 55_000)) for at in range(50_000, 60_000, 1_000)])
    last = [found for found in findings(dropped(59_000)) if found.kind is Kind.REBALANCE][-1]
    assert Cause.GROUP_OVER_CAPACITY in {entry.cause for entry in live.refine([last])[0].causes}


def probed(at: int, *, seen: bool, answered: tuple[bool, ...] = (True, False)) -> Sighting:
    """A look at a cluster of two brokers, of which the first coordinates every group."""
    return Sighting(T0 + at, SEEN if seen else (), ((0, 1, 1),), tuple(enumerate(answered, 1)))


def test_another_broker_that_never_answers_keeps_no_rebalance_open() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_sightings([probed(at, seen=at < 3_000) for at in range(0, 6_000, 1_000)])
    assert kinds(found)[-1] == (Kind.REBALANCE_IN_PROGRESS, "resolved")


def test_a_generation_between_two_looks_parts_two_barriers_even_if_the_coordinator_was_silent() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([probed(at, seen=True) for at in range(0, 3_000, 1_000)])
    topic = Topic()
    topic.generation(3_500, 1, [Client("a-1", (0,))])
    live.refine(findings(topic))
    silent = [probed(at, seen=False, answered=(False, True)) for at in range(4_000, 600_000, 1_000)]
    assert live.on_sightings(silent) == []
    later = [probed(at, seen=True) for at in range(600_000, 620_000, 1_000)]
    assert Kind.REBALANCE_STUCK not in {kind for kind, _ in kinds(live.on_sightings(later))}


def test_a_barrier_that_lasts_for_a_day_needs_no_more_memory_than_one_of_minutes() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([look(at, seen=True) for at in range(0, 600_000, 1_000)])
    before = len(json.dumps(live.snapshot()))
    live.on_sightings([look(at, seen=True) for at in range(600_000, 7_200_000, 1_000)])
    assert len(json.dumps(live.snapshot())) < 1.5 * before
    found = live.on_sightings([look(7_200_000, seen=False)])
    assert found[0].details == {"sightings": 7_200, "duration_ms": 7_200_000}


def test_a_probe_whose_clock_was_ahead_goes_on_when_it_is_set_back() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([look(3_600_000, seen=True)])
    found = live.on_sightings([look(at, seen=at < 90_000) for at in range(0, 100_000, 1_000)])
    assert (Kind.REBALANCE_STUCK, "opened") in kinds(found)
    assert kinds(found)[-2:] == [
        (Kind.REBALANCE_IN_PROGRESS, "resolved"),
        (Kind.REBALANCE_STUCK, "resolved"),
    ]


def test_a_listing_before_any_group_is_known_says_nothing_about_what_an_earlier_one_left_out() -> None:
    live = Live(SETTINGS, "c1")
    alive = {"g": {"state": "Stable", "at": T0 - 60_000}}
    listing = replace(look(0, seen=False), listed=frozenset({"other"}))
    assert [found.phase for found in live.on_sightings([listing], alive)] == ["opened"]
    after = Live(SETTINGS, "c1", live.snapshot())
    assert after.on_sightings([replace(listing, at=listing.at + 1_000)], {}) == []
    assert after.snapshot()["visibility"] == live.snapshot()["visibility"]


def test_commits_are_overruled_where_the_groups_own_coordinator_answered() -> None:
    """One broker that is away for good must not have every suspected barrier told beside the probe's."""
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
        live.on_sightings([Sighting(T0 + 2_000, (), ((7, coordinator, 1),), brokers)])
        assert (live.refine([suspected]) == []) is answered


def test_groups_have_thresholds_of_their_own_for_what_the_probe_sees() -> None:
    """Half of half a minute is a storm of the groups that the override names, of the others it is none."""
    own = GroupOverride("g*", storm_sightings_share=0.3, storm_sightings_window_ms=60_000)
    found = {}
    for name in ("g", "other"):
        live = Live(DetectionSettings(group_overrides=(own,)), "c1")
        seen = (SeenGroup(name, "PreparingRebalance", "classic", "consumer"),)
        looks = [
            Sighting(T0 + at, seen if at % 10_000 < 4_000 else (), ((7, 1, 1),), ((1, True),))
            for at in range(0, 240_000, 1_000)
        ]
        found[name] = [one for one in live.on_sightings(looks) if one.kind is Kind.STORM]
    assert [one.phase for one in found["g"]] == ["opened"]
    assert found["g"][0].at <= T0 + 40_000
    assert found["g"][0].details["window_ms"] == 60_000
    assert found["other"] == []


def test_a_storm_by_the_probe_ends_after_the_groups_own_window() -> None:
    own = GroupOverride("g", storm_sightings_window_ms=30_000)
    live = Live(DetectionSettings(group_overrides=(own,)), "c1")
    found = live.on_sightings(
        [look(at, seen=at < 60_000 and at % 10_000 != 0) for at in range(0, 180_000, 1_000)]
    )
    storm = [one for one in found if one.kind is Kind.STORM]
    assert [one.phase for one in storm] == ["opened", "resolved"]
    assert T0 + 85_000 <= storm[1].at <= T0 + 92_000
