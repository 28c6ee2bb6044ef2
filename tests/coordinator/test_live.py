import json

from rebalance_monitor.coordinator.findings import Finding
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.settings import DetectionSettings
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


def test_a_leader_epoch_that_steps_is_a_coordinator_move() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_sightings([look(0, seen=False), look(1_000, seen=False, epoch=3)])
    assert kinds(found) == [(Kind.COORDINATOR_MOVED, None)]


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
    silent = [f for f in findings(topic, until=S + 4_000) if f.kind is Kind.MEMBER_SILENT]
    assert len(silent) == 1
    assert live.refine(silent) == []


def test_the_memory_and_a_sighting_survive_as_json() -> None:
    live = Live(SETTINGS, "c1")
    live.on_sightings([look(0, seen=True)])
    again = Live(SETTINGS, "c1", json.loads(json.dumps(live.snapshot())))
    assert again.on_sightings([look(1_000, seen=False)]) == live.on_sightings([look(1_000, seen=False)])
    assert from_json(to_json(look(0, seen=True))) == look(0, seen=True)
