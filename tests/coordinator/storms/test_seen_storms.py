"""Storms by sightings: one incident with what the records tell; what calm generations explain is none."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe.expected_barriers import SLACK_MS, span
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.settings import DetectionSettings, GroupOverride
from tests.coordinator.support.looks import SETTINGS, _recorded, kinds, look
from tests.coordinator.support.timeline import T0, Client, Topic, findings, watched

PREPARING = "PreparingRebalance"


def member(place: int, turn: int = 0) -> Client:
    host = f"/10.0.{turn}.{place}"
    return Client(f"m{place}-{turn}", (place,), f"consumer-{place}", host, session=45_000, rebalance=300_000)


def storms(topic: Topic, barriers: list[tuple[int, int]], every: int = 1_000) -> list[Finding]:
    def seen(at: int) -> str:
        return "PreparingRebalance" * any(begun <= at < ended for begun, ended in barriers)

    found = watched(topic, seen, until=barriers[-1][1] + 5_000, every=every)
    return [one for one in found if one.kind is Kind.STORM]


def scale_out() -> tuple[Topic, list[tuple[int, int]]]:
    """Nine members come, one every 12 s, each with a barrier of 8 s."""
    topic, members = Topic(), [member(0)]
    topic.generation(0, 1, members)
    barriers = [(100_000 + 12_000 * turn, 108_000 + 12_000 * turn) for turn in range(9)]
    for turn, (_, ended) in enumerate(barriers):
        members = [*members, member(turn + 1)]
        topic.generation(ended, turn + 2, members)
    return topic, barriers


def restart() -> tuple[Topic, list[tuple[int, int]]]:
    """Six members go and come back, one after the other, with barriers of 8 s."""
    topic, members, barriers, at = Topic(), [member(place) for place in range(6)], [], 100_000
    topic.generation(0, 1, members)
    for place in range(6):
        barriers += [(at, at + 8_000), (at + 9_500, at + 17_500)]
        topic.generation(at + 8_000, 2 * place + 2, [one for one in members if one != members[place]])
        members[place] = member(place, 1)
        topic.generation(at + 17_500, 2 * place + 3, members)
        at += 25_500
    return topic, barriers


@pytest.mark.parametrize("every", [1_000, 30_000])
@pytest.mark.parametrize("rollout", [scale_out, restart])
def test_a_rollout_in_which_every_join_phase_completes_is_no_storm(rollout: object, every: int) -> None:
    topic, barriers = rollout()  # type: ignore[operator]
    assert storms(topic, barriers, every) == []


def test_join_phases_without_a_record_are_a_storm() -> None:
    _, barriers = scale_out()
    topic = Topic()
    topic.generation(0, 1, [member(0)])
    assert [one.phase for one in storms(topic, barriers)] == ["opened"]


def test_generations_that_complete_among_the_same_members_or_after_failed_ones_are_a_storm() -> None:
    _, barriers = scale_out()
    # So many that fail are more than newcomers explain.
    for skipped in (0, 4):
        topic = Topic()
        topic.generation(0, 1, [member(0), member(1)])
        for turn, (_, ended) in enumerate(barriers):
            members = [member(0), member(1), *(member(2 + one) for one in range(turn * bool(skipped)))]
            topic.generation(ended, 2 + turn + skipped * (turn + 1), members)
        found = storms(topic, barriers)
        assert next(one.phase for one in found) == "opened", skipped


def test_many_separate_sightings_are_a_storm_even_if_nothing_ever_completes() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_samples([look(at, seen=at % 10_000 != 0) for at in range(0, 120_000, 1_000)])
    assert kinds(found).count((Kind.STORM, "opened")) == 1


def test_a_storm_that_the_probe_saw_first_is_one_incident_with_what_the_records_show() -> None:
    live = Live(SETTINGS, "c1")
    looks = live.on_samples([look(at, seen=at % 10_000 != 0) for at in range(0, 120_000, 1_000)])
    (seen,) = (one for one in looks if one.kind is Kind.STORM)
    (told,) = live.refine([_recorded("opened", 1)])
    assert (told.id, told.phase, told.incident) == ("r1", "updated", seen.id)
    # It lives on over a restart, and only the records end it.
    again = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    quiet = again.on_samples([look(at, seen=False) for at in range(120_000, 400_000, 1_000)])
    assert Kind.STORM not in {one.kind for one in quiet}
    (ended,) = again.refine([_recorded("resolved", 2)])
    assert (ended.id, ended.phase, ended.incident) == ("r2", "resolved", seen.id)


@pytest.mark.parametrize("off", [(), (1,)])
def test_samples_keep_a_storm_of_the_records_open_whatever_the_clock_of_its_coordinator(
    off: tuple[int, ...],
) -> None:
    live, looks = Live(SETTINGS, "c1"), crashing(400, "bad")
    live.on_samples(looks[:40])
    live.refine([replace(_recorded("opened", 1), at=T0 + 40_000)], off)
    live.on_samples(looks[40:])
    assert live.refine([replace(_recorded("resolved", 2), at=T0 + 340_000)], off) == []


def test_a_storm_that_the_records_published_first_keeps_its_incident() -> None:
    live = Live(SETTINGS, "c1")
    assert [one.phase for one in live.refine([_recorded("opened", 1)])] == ["opened"]
    looks = live.on_samples([look(at, seen=at % 10_000 != 0) for at in range(0, 120_000, 1_000)])
    assert Kind.STORM not in {one.kind for one in looks}


def test_join_phases_that_end_and_begin_again_are_a_storm_and_nothing_is_stuck() -> None:
    live = Live(SETTINGS, "c1")
    looks = [look(at, seen=False) for at in range(0, 60_000, 1_000)]
    for at in range(60_000, 180_000, 1_000):
        state = "CompletingRebalance" if at % 2_000 else "PreparingRebalance"
        looks.append(
            replace(look(at, seen=True), groups=(RebalancingGroup("g", state, "classic", "consumer"),))
        )
    found = kinds(live.on_samples(looks))
    assert found.count((Kind.STORM, "opened")) == 1
    assert (Kind.REBALANCE_STUCK, "opened") not in found


def test_groups_have_thresholds_of_their_own_for_what_the_probe_sees() -> None:
    """Half of half a minute is a storm of the groups that the override names, of the others it is none."""
    own = GroupOverride("g*", storm_sightings_share=0.3, storm_sightings_window_ms=60_000)
    found = {}
    for name in ("g", "other"):
        live = Live(DetectionSettings(groups=(own,)), "c1")
        seen = (RebalancingGroup(name, "PreparingRebalance", "classic", "consumer"),)
        looks = [
            ProbeSample(T0 + at, seen if at % 10_000 < 4_000 else (), ((7, 1, 1),), ((1, True),))
            for at in range(0, 240_000, 1_000)
        ]
        found[name] = [one for one in live.on_samples(looks) if one.kind is Kind.STORM]
    assert [one.phase for one in found["g"]] == ["opened"]
    assert found["g"][0].at <= T0 + 40_000
    assert found["g"][0].details["window_ms"] == 60_000
    assert found["other"] == []


def test_a_storm_by_the_probe_ends_after_the_groups_own_window() -> None:
    own = GroupOverride("g", storm_sightings_window_ms=30_000)
    live = Live(DetectionSettings(groups=(own,)), "c1")
    found = live.on_samples(
        [look(at, seen=at < 60_000 and at % 10_000 != 0) for at in range(0, 180_000, 1_000)]
    )
    storm = [one for one in found if one.kind is Kind.STORM]
    assert [one.phase for one in storm] == ["opened", "resolved"]
    assert T0 + 85_000 <= storm[1].at <= T0 + 92_000


def looking(at: int, state: str, *listed: str) -> ProbeSample:
    who = {"g": tuple((name, "", "c", "/h") for name in listed)}
    seen = (RebalancingGroup("g", state, "classic", "consumer"),) if state else ()
    return ProbeSample(T0 + at, seen, ((7, 1, 1),), ((1, True),), who if listed else {})


def test_members_listed_in_a_join_phase_are_known_when_the_next_one_has_begun() -> None:
    live = Live(DetectionSettings(), "c1")
    live.on_samples([looking(1_000, PREPARING, "x"), looking(2_000, ""), looking(3_000, PREPARING)])
    assert live.snapshot()["groups"]["g"]["listed"] == {"x": T0 + 1_000}


def test_join_phases_that_begin_anew_for_hours_need_no_more_memory_than_those_of_minutes() -> None:
    live = Live(DetectionSettings(), "c1")
    states = ("PreparingRebalance", "CompletingRebalance")
    live.on_samples([looking(at, states[at // 1_000 % 2]) for at in range(0, 4_000_000, 1_000)])
    memory = live.snapshot()["groups"]["g"]
    assert len(memory["runs"]) <= len(memory["counted"]) <= len(live.snapshot()["looks"]) * 2 + 11


def test_a_generation_with_an_unknown_beginning_explains_a_window_of_samples() -> None:
    topic = Topic()
    topic.generation(500_000, 7, [member(0)])
    (first,) = [one for one in findings(topic) if one.kind is Kind.REBALANCE]
    settings = DetectionSettings()
    until = first.at + SLACK_MS
    since = until - settings.storm_sightings_window_ms - 2 * SLACK_MS
    assert span(replace(first, started_at_min=None), settings) == (since, until)


def crashing(seconds: int, worst: str, first: int = 0) -> list[ProbeSample]:
    """Looks, one a second, at barriers of six seconds of eight, each with a new member of a client."""
    out = []
    for second in range(first, first + seconds):
        during, turn = second % 8 < 6, second // 8
        stay = (("a-1", "", "a", "/h1"), ("b-1", "", "b", "/h2"))
        listed = {"g": (*stay, (f"{worst}-{turn}", "", worst, "/h9"))} if during else {}
        seen = (RebalancingGroup("g", PREPARING, "classic", "consumer"),) * during
        out.append(ProbeSample(T0 + second * 1_000, seen, ((7, 1, 1),), ((1, True),), listed))
    return out


def test_a_storm_without_generations_names_the_client_that_joins_again_and_again_and_the_next_one() -> None:
    live = Live(SETTINGS, "c1")
    looks = crashing(400, "bad") + crashing(400, "worse", first=400)
    half = live.on_samples(looks[:500])
    again = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    told = [one for one in half + again.on_samples(looks[500:]) if one.kind is Kind.STORM]
    assert [one.phase for one in told] == ["opened", "updated"]
    assert [one.details["worst_client"] for one in told] == ["bad", "worse"]
    assert {one.details["worst_host"] for one in told} == {"/h9"}
    assert told[1].incident == told[0].id != told[1].id
    assert [float(one.details["worst_share"]) > 0.4 for one in told] == [True, True]


def pods(name: Callable[[int], str]) -> list[Finding]:
    """Storms by looks at barriers of six seconds of eight, each with a new member of another client id."""
    looks = []
    for one in crashing(400, "bad"):
        turn = (one.at - T0) // 8_000
        new = (f"m-{turn}", "", name(turn), f"/p{turn}")
        looks.append(replace(one, members={"g": (*one.members["g"][:2], new)} if one.members else {}))
    return [one for one in Live(SETTINGS, "c1").on_samples(looks) if one.kind is Kind.STORM]


@pytest.mark.parametrize(
    ("name", "worst"),
    [
        (lambda turn: f"orders-7d9f-{turn:05}", "orders-7d9f-*"),
        (lambda turn: f"shop-7d2f-StreamThread-{turn}-consumer", "shop-7d2f"),
    ],
)
def test_a_storm_without_generations_names_the_application_whose_clients_have_other_names_each_time(
    name: Callable[[int], str], worst: str
) -> None:
    (told,) = pods(name)
    assert told.details["worst_client"] == worst
    assert float(told.details["worst_share"]) > 0.4


def test_no_member_that_stays_is_behind_a_storm() -> None:
    live, stay = Live(SETTINGS, "c1"), {"g": (("a-1", "", "a", "/h1"), ("b-1", "", "b", "/h2"))}
    looks = [replace(one, members=stay if one.members else {}) for one in crashing(400, "bad")]
    (told,) = [one for one in live.on_samples(looks) if one.kind is Kind.STORM]
    assert "worst_client" not in told.details


def test_several_that_come_at_once_are_behind_no_storm() -> None:
    """A scale-out amid a storm of members that stay."""
    live, looks = Live(SETTINGS, "c1"), []
    for number, one in enumerate(crashing(400, "bad")):
        new = tuple((f"n{place}", "", "orders", "/h9") for place in range(3)) if number > 33 else ()
        looks.append(replace(one, members={"g": one.members["g"][:2] + new} if one.members else {}))
    told = [one for one in live.on_samples(looks) if one.kind is Kind.STORM]
    assert ["worst_client" in one.details for one in told] == [False]


def test_two_clients_that_come_as_often_take_no_turns_in_being_the_worst() -> None:
    live, names = Live(SETTINGS, "c1"), ("bad", "worse")
    pairs = zip(*(crashing(3_600, name) for name in names), strict=True)
    looks = [pair[one.at // 8_000 % 2] for pair in pairs for one in pair[:1]]
    told = [one for one in live.on_samples(looks) if one.kind is Kind.STORM]
    assert [one.phase for one in told] == ["opened"]


def test_only_members_that_join_a_group_of_many_are_new() -> None:
    for size in (90, 98, 120):
        stay = tuple((f"s{place}", "", "app", f"/h{place}") for place in range(size))
        live = Live(SETTINGS, "c1")
        looks = [
            replace(one, members={"g": stay + one.members["g"][2:]} if one.members else {})
            for one in crashing(400, "bad")
        ]
        (told,) = [one for one in live.on_samples(looks) if one.kind is Kind.STORM]
        assert told.details.get("worst_client", "nobody") == ("bad" if size < 100 else "nobody")
