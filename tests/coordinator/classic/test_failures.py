"""Generations that fail, sync slowly or near the size limit of their record: their severity."""

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.classic import A, B, causes
from tests.coordinator.support.epochs import Epochs
from tests.coordinator.support.timeline import Client, Topic, findings, in_batches, of


def test_a_hole_between_two_live_generations_is_a_failed_rebalance() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 4, [A, B])
    (failed,) = of(findings(topic), Kind.REBALANCE_FAILED)
    assert failed.details == {"failed": 2, "at_start": 0}
    assert failed.severity is Severity.INFO


def test_a_hole_at_the_start_of_a_group_is_information() -> None:
    topic = Topic()
    topic.generation(0, 0, [])
    topic.generation(3_000, 2, [A, B])
    (failed,) = of(findings(topic), Kind.REBALANCE_FAILED)
    assert failed.details["at_start"] == 1


def test_repeated_failures_are_a_warning() -> None:
    topic = Topic()
    for index, number in enumerate((1, 3, 5)):
        topic.generation(index * 60_000, number, [A, B])
    assert [f.severity for f in of(findings(topic), Kind.REBALANCE_FAILED)] == [
        Severity.INFO,
        Severity.WARNING,
    ]


def test_failures_that_lie_further_apart_than_the_window_are_none_that_repeat() -> None:
    topic, day = Topic(), 86_400_000
    topic.generation(0, 1, [A, B])
    for number in range(1, 4):
        topic.generation(number * 10 * day, 1 + 2 * number, [A, B])
    told = of(in_batches(topic, []), Kind.REBALANCE_FAILED)
    assert [one.severity for one in told] == [Severity.INFO] * 3


def grown(step: int, hole: int, settings: DetectionSettings | None = None) -> list[Finding]:
    """A group of an hour grows by `step` members every five seconds; each third time generations fail."""
    members = [Client(f"m-{number}", (number,), f"consumer-g-{number}") for number in range(20 + 15 * step)]
    topic, generation = Topic(), 1
    topic.generation(0, 1, members[:20])
    for number in range(15):
        generation += 1 if number % 3 else 1 + hole
        topic.generation(3_600_000 + 5_000 * number, generation, members[: 20 + step * (number + 1)])
    return findings(topic, settings, until=1_000)


def test_a_scale_out_whose_newcomers_come_before_others_have_synced_is_no_storm() -> None:
    found = grown(4, 1)
    assert not of(found, Kind.STORM)
    assert [one.severity for one in of(found, Kind.REBALANCE_FAILED)] == [Severity.INFO] * 5


def test_starts_of_an_empty_group_that_fail_before_one_succeeds_are_no_scale_out() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    for number, members in enumerate([[], [], [], [A, B]]):
        topic.generation(3_600_000 + 40_000 * number, 2 + 2 * number, members)
    told = of(findings(topic), Kind.REBALANCE_FAILED)
    assert [one.severity for one in told] == [Severity.INFO, Severity.INFO, Severity.WARNING]


@pytest.mark.parametrize(("step", "hole", "limit"), [(0, 1, 10**6), (4, 4, 10**6), (4, 1, 100)])
def test_failed_generations_count_if_no_member_or_too_many_came_or_none_can_be_stored(
    step: int, hole: int, limit: int
) -> None:
    found = grown(step, hole, DetectionSettings(max_message_bytes=limit))
    assert of(found, Kind.STORM)
    assert Severity.WARNING in {one.severity for one in of(found, Kind.REBALANCE_FAILED)}


@pytest.mark.parametrize("between", ["history", "tombstone"])
def test_a_hole_that_touches_history_or_a_tombstone_says_nothing(between: str) -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    if between == "tombstone":
        topic.generation(1_000, 2, [])
        topic.tombstone(2_000)
    topic.generation(60_000, 9, [A, B])
    found = findings(topic, history=1 if between == "history" else None)
    assert not of(found, Kind.REBALANCE_FAILED)
    assert of(found, Kind.REBALANCE)[0].history == (between == "history")


def test_generations_that_fail_while_the_record_nears_its_limit_could_most_likely_not_be_stored() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 3, [A, B])
    (failed,) = of(findings(topic, DetectionSettings(max_message_bytes=200)), Kind.REBALANCE_FAILED)
    assert causes(failed) == {Cause.ASSIGNMENT_NOT_STORED}


def test_a_hole_across_a_change_of_group_type_says_nothing_and_the_way_back_is_a_migration_as_well() -> None:
    topic = Epochs()
    topic.join(0, "m", 7, (0,))
    for kind in (8, 7, 6, 5, 3):
        topic.put(60_000, kind, None, "m" if kind in {5, 7, 8} else "")
    topic.generation(60_000, 12, [A])
    found = findings(topic)
    (moved,) = of(found, Kind.GROUP_MIGRATED)
    assert moved.details == {"from": "consumer", "to": "classic"}
    assert not of(found, Kind.REBALANCE_FAILED)
    assert not of(found, Kind.GROUP_REMOVED)
    assert not of(found, Kind.GROUP_EMPTY)


def test_a_change_of_group_type_without_its_tombstone_claims_no_failures() -> None:
    topic = Epochs()
    topic.join(0, "m", 1, (0,))
    topic.generation(60_000, 3, [A])
    assert not of(findings(topic), Kind.REBALANCE_FAILED)


def test_a_slow_sync_is_a_warning() -> None:
    topic = Topic()
    topic.generation(20_000, 1, [A], sync=9_000)
    assert of(findings(topic), Kind.SLOW_SYNC)[0].sync_ms == 9_000


def test_a_record_near_the_size_limit_is_a_warning_once() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 2, [A, B])
    settings = DetectionSettings(max_message_bytes=200)
    assert len(of(findings(topic, settings), Kind.GROUP_TOO_LARGE)) == 1


def test_the_total_of_a_storm_counts_the_generations_that_failed_too() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    for number in range(1, 13):
        topic.generation(40_000 + number * 20_000, 1 + 5 * number, [A, B])
    storm = of(findings(topic, until=400_000), Kind.STORM)
    assert storm[-1].phase == "resolved"
    assert storm[-1].details["total"] == 60


def test_a_generation_that_failed_says_that_the_leader_of_before_is_gone() -> None:
    for after, gone in (([A, B], False), ([B], True)):
        topic = Topic()
        topic.generation(0, 1, [A, B])
        topic.generation(60_000, 3, after)
        (failed,) = of(findings(topic), Kind.REBALANCE_FAILED)
        assert failed.previous_leader == A.member_id
        assert ("the previous leader left meanwhile" in failed.causes[0].why) is gone


@pytest.mark.parametrize("jump", [1_000, 40_000, 2**31 - 20])
def test_a_jump_that_no_coordinator_makes_in_the_time_is_a_new_baseline(jump: int) -> None:
    """Forged, or of another group: how many failed is claimed only where they can have."""
    topic = Topic()
    topic.generation(0, 11, [A, B])
    topic.generation(1_000, 12, [A, B])
    topic.generation(2_000, 12 + jump, [A])
    topic.generation(3_000, 13, [A, B])
    topic.generation(4_000, 15, [A, B])
    found = findings(topic)
    (failed,) = of(found, Kind.REBALANCE_FAILED)
    assert failed.details["failed"] == 1
    forged, back, last = of(found, Kind.REBALANCE)[-3:]
    for one in (forged, back):
        assert [entry.cause for entry in one.causes] == [Cause.UNKNOWN]
        assert one.previous_generation is None
    assert last.previous_generation == 13
    assert not of(found, Kind.STORM)
