from itertools import pairwise

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import FindingOut, Output
from rebalance_monitor.coordinator.settings import DetectionSettings, GroupOverride
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from tests.coordinator.support.timeline import T0, Client, Topic, findings, of

STEADY = [Client(f"m{i}-1", (i,), f"consumer-{i}", f"/10.0.0.{i}") for i in range(3)]


def crash_loop(times: int) -> Topic:
    """One client comes back and is lost again, two generations each time."""
    topic = Topic()
    topic.generation(0, 1, STEADY)
    for loop in range(times):
        topic.generation(60_000 + loop * 14_000, 2 + 2 * loop, STEADY[:2])
        again = Client(f"m2-{loop + 2}", (2,), "consumer-2", "/10.0.0.2")
        topic.generation(64_000 + loop * 14_000, 3 + 2 * loop, [*STEADY[:2], again])
    return topic


def test_a_crash_loop_is_one_storm_that_names_its_client_and_resolves_after_quiet() -> None:
    storm = of(findings(crash_loop(8), until=400_000), Kind.STORM)
    assert storm[0].phase == "opened"
    assert storm[-1].phase == "resolved"
    assert {found.phase for found in storm[1:-1]} <= {"updated"}
    assert {found.incident for found in storm} == {storm[0].id}
    assert (storm[0].details["worst_client"], storm[0].details["worst_host"]) == ("consumer-2", "/10.0.0.2")
    assert storm[-1].resolution == "quiet"


@pytest.mark.parametrize("threshold", [4, 5])
def test_a_storm_is_caused_by_what_was_lost_also_where_members_came_back_last(threshold: int) -> None:
    settings = DetectionSettings(storm_threshold=threshold)
    storms = [one for one in of(findings(crash_loop(8), settings), Kind.STORM) if one.phase != "resolved"]
    assert storms
    for one in storms:
        assert Cause.MEMBER_JOINED not in {cause.cause for cause in one.causes}
        assert {cause.client_id for cause in one.causes if cause.client_id} == {"consumer-2"}


def test_a_storm_resolves_at_the_same_moment_with_or_without_clocks() -> None:
    with_clocks = crash_loop(8)
    with_clocks.generation(900_000, 18, STEADY[:2])
    calm = of(findings(with_clocks), Kind.STORM)
    assert [found.phase for found in calm][-1] == "resolved"


def test_a_single_member_that_keeps_crashing_is_a_storm() -> None:
    topic = Topic()
    for loop in range(12):
        topic.generation(loop * 15_000, 1 + 2 * loop, [Client(f"x-{loop}", (0,), "consumer-x")])
        topic.generation(loop * 15_000 + 8_000, 2 + 2 * loop, [])
    assert of(findings(topic), Kind.STORM)


def test_a_single_member_that_comes_from_another_host_each_time_is_a_storm() -> None:
    topic = Topic()
    for loop in range(12):
        topic.generation(
            loop * 20_000, 1 + 2 * loop, [Client(f"x-{loop}", (0,), "consumer-x", f"/10.0.0.{loop}")]
        )
        topic.generation(loop * 20_000 + 8_000, 2 + 2 * loop, [])
    assert of(findings(topic), Kind.STORM)


def test_generations_that_fail_while_a_group_is_empty_are_a_storm_but_for_the_first() -> None:
    topic = Topic()
    topic.generation(0, 1, STEADY[:1])
    topic.generation(40_000, 2, [])
    for loop in range(1, 13):
        topic.generation(45_000 + loop * 15_000, 2 + 2 * loop, [])
    found = findings(topic)
    failed = of(found, Kind.REBALANCE_FAILED)
    assert [one.details["at_start"] for one in failed] == [1] + [0] * 11
    assert of(found, Kind.STORM)


def test_a_group_that_starts_again_may_fail_at_its_start_each_time() -> None:
    topic, number = Topic(), 0
    for loop in range(3):
        topic.generation(loop * 200_000, number + 2, STEADY)
        topic.generation(loop * 200_000 + 100_000, number + 3, [])
        number += 3
    failed = of(findings(topic), Kind.REBALANCE_FAILED)
    assert [one.details["at_start"] for one in failed] == [1, 1, 1]


def test_kafka_streams_that_rebalances_among_the_same_members_on_and_on_is_a_storm() -> None:
    topic = Topic()
    for loop in range(20):
        topic.generation(loop * 10_000, loop + 1, STEADY, protocol="stream")
    found = findings(topic)
    tops = [one.causes[0].cause for one in of(found, Kind.REBALANCE)]
    assert tops.count(Cause.COOPERATIVE_FOLLOW_UP) == 1
    assert of(found, Kind.STORM)


def rounds(count: int, size: int, *, lost: int, back: int) -> Topic:
    """Replace `size` members one after the other, `count` times over; the times (ms) of both generations."""
    topic, number, at = Topic(), 1, 100_000
    members = [
        Client(f"m{place}-0", (place,), f"consumer-{place}", f"/10.0.0.{place}") for place in range(size)
    ]
    topic.generation(0, number, members)
    for turn in range(1, count + 1):
        for place in range(size):
            topic.generation(at + lost, number + 1, [one for one in members if one != members[place]])
            members[place] = Client(
                f"m{place}-{turn}", (place,), f"consumer-{place}", f"/10.0.{turn}.{place}"
            )
            number, at = number + 2, at + lost + back
            topic.generation(at, number, members)
        at += 30_000
    return topic


@pytest.mark.parametrize(("count", "restarts", "storms"), [(1, 1, 0), (2, 2, 0), (4, 2, 1)])
def test_a_rollout_and_its_rollback_are_two_restarts_and_what_goes_on_is_a_storm(
    count: int, restarts: int, storms: int
) -> None:
    found = findings(rounds(count, 5, lost=6_000, back=4_000))
    assert len(of(found, Kind.ROLLING_RESTART)) == restarts
    assert len([one for one in of(found, Kind.STORM) if one.phase == "opened"]) == storms


def test_a_rolling_restart_that_outlasts_the_window_is_one() -> None:
    found = findings(rounds(1, 14, lost=20_000, back=10_000))
    (restart,) = of(found, Kind.ROLLING_RESTART)
    assert restart.details == {"restarted": 14, "window_ms": 13 * 30_000 + 10_000}
    assert not of(found, Kind.STORM)


def replace_each(topic: Topic, places: tuple[int, ...]) -> list[Client]:
    """Take one member after the other out and back in, 20 s apart; two generations each, from 2 on."""
    members, number = list(STEADY), 1
    topic.generation(0, number, members)
    for turn, index in enumerate(places):
        left = [member for place, member in enumerate(members) if place != index]
        topic.generation(60_000 + turn * 20_000, number + 1, left)
        members[index] = Client(f"m{index}-{turn + 2}", (index,), f"consumer-{index}", f"/10.0.0.{index}")
        number += 2
        topic.generation(65_000 + turn * 20_000, number, members)
    return members


def test_a_rolling_restart_is_information_and_no_storm() -> None:
    topic = Topic()
    members = replace_each(topic, (0, 1, 2))
    topic.generation(120_000, 8, [*members, Client("m3-1", (), "consumer-3", "/10.0.0.3")])
    found = findings(topic)
    assert not of(found, Kind.STORM)
    (restart,) = of(found, Kind.ROLLING_RESTART)
    assert restart.at - int(restart.details["window_ms"]) == T0 + 60_000 - 20  # the end of that join phase
    assert restart.evidence == "suspected"
    assert restart.confidence < 1


def test_a_restart_that_leaves_one_out_or_takes_one_twice_is_no_rolling_restart() -> None:
    for places in ((0, 1), (0, 1, 1, 2)):
        topic = Topic()
        replace_each(topic, places)
        assert not of(findings(topic), Kind.ROLLING_RESTART), places


def test_a_group_that_is_replaced_at_once_is_no_rolling_restart() -> None:
    topic = Topic()
    topic.generation(0, 1, STEADY)
    topic.generation(60_000, 2, [Client(f"m{i}-2", (i,), f"consumer-{i}", f"/10.0.0.{i}") for i in range(3)])
    topic.generation(70_000, 3, [Client(f"m{i}-2", (i,), f"consumer-{i}", f"/10.0.0.{i}") for i in range(3)])
    assert not of(findings(topic), Kind.ROLLING_RESTART)


def test_generations_among_the_same_members_are_a_storm_unless_the_group_is_still_starting() -> None:
    def again_from(first: int) -> Topic:
        topic = Topic()
        topic.generation(0, 1, STEADY)
        for number in range(6):
            topic.generation(first + number * 3_000, 2 + number, STEADY)
        return topic

    assert not of(findings(again_from(1_000)), Kind.STORM)
    assert of(findings(again_from(60_000)), Kind.STORM)


def test_a_scale_out_is_no_storm() -> None:
    topic = Topic()
    for count in range(1, 12):
        topic.generation(count * 5_000, count, [Client(f"m-{i}", (i,)) for i in range(count)])
    assert not of(findings(topic), Kind.STORM)


def test_a_pattern_of_groups_has_thresholds_of_its_own() -> None:
    quiet = GroupOverride("g", storm_threshold=50)
    assert not of(findings(crash_loop(8), DetectionSettings(groups=(quiet,))), Kind.STORM)
    others = GroupOverride("batch-*", storm_threshold=50)
    hasty = GroupOverride("g*", storm_threshold=2, storm_window_ms=60_000, storm_quiet_ms=1_000)
    settings = DetectionSettings(groups=(others, hasty))
    opened = of(findings(crash_loop(3), settings), Kind.STORM)[0]
    assert (opened.details["threshold"], opened.details["window_ms"]) == (2, 60_000)


def test_second_phases_of_cooperative_rebalances_are_no_storm() -> None:
    def members(count: int, given: int) -> list[Client]:
        """`count` members; the first `given` have their partitions, m-0 all that is left."""
        rest = [n for n in range(8) if not 0 < n < count]
        first = Client("m-0", tuple(rest), "consumer-0")
        return [first, *(Client(f"m-{n}", (n,) * (n < given), f"consumer-{n}") for n in range(1, count))]

    topic, protocol = Topic(), "cooperative-sticky"
    topic.generation(0, 1, members(1, 1), protocol=protocol)
    for count in range(2, 8):
        topic.generation(40_000 * count, 2 * count - 2, members(count, count - 1), protocol=protocol)
        topic.generation(40_000 * count + 900, 2 * count - 1, members(count, count), protocol=protocol)
    found = findings(topic)
    causes = [one.causes[0].cause for one in of(found, Kind.REBALANCE)]
    assert causes.count(Cause.COOPERATIVE_FOLLOW_UP) == 6
    assert not of(found, Kind.STORM)


def test_failed_generations_count_towards_a_storm() -> None:
    topic = Topic()
    for loop in range(4):
        topic.generation(40_000 * (loop + 1), 1 + 4 * loop, STEADY)
    assert of(findings(topic), Kind.STORM)


def test_a_clock_that_runs_ahead_shows_the_end_of_a_storm_and_changes_no_id_of_what_records_decide() -> None:
    topic = crash_loop(8)
    quiet = DetectionSettings().storm_quiet_ms
    last = topic.rows[-1].record_ts
    again = Client("m2-10", (2,), "consumer-2", "/10.0.0.2")
    for number in range(18, 30, 2):
        at = last - T0 + quiet - 20_000 + number * 500
        topic.generation(at, number, STEADY[:2])
        topic.generation(at + 400, number + 1, [*STEADY[:2], again])

    def told(early: int | None) -> list[Finding]:
        shard = ShardCoordinator(new_shard_state(7, 0, None), DetectionSettings(), "c1")
        out: list[Output] = []
        for index, row in enumerate(topic.rows):
            if index == early:
                out += shard.on_clock(last + quiet + 10_000)
            out += shard.on_row(row)
        return of([found.finding for found in out if isinstance(found, FindingOut)], Kind.STORM)

    early, without = told(len(crash_loop(8).rows)), told(None)
    assert [found.phase for found in early].count("resolved") == 1
    assert [found.phase for found in without].count("resolved") == 0
    assert [found.id for found in early if found.phase != "resolved"] == [found.id for found in without]


@pytest.mark.parametrize("late", [1, 2, 6])
def test_a_storm_that_the_clock_has_ended_ends_again_only_after_an_update(late: int) -> None:
    topic = crash_loop(8)
    last, quiet = topic.rows[-1].record_ts, DetectionSettings().storm_quiet_ms
    storming = len(topic.rows)
    again = Client("m2-10", (2,), "consumer-2", "/10.0.0.2")
    for number in range(late):
        at = last - T0 + quiet - 20_000 + number * 1_000
        topic.generation(at, 18 + 2 * number, STEADY[:2])
        topic.generation(at + 400, 19 + 2 * number, [*STEADY[:2], again])
    shard = ShardCoordinator(new_shard_state(7, 0, None), DetectionSettings(), "c1")
    out: list[Output] = []
    for index, row in enumerate(topic.rows):
        if index == storming:
            out += shard.on_clock(last + quiet + 10_000)
        out += shard.on_row(row)
    out += shard.on_clock(last + 3 * quiet)
    told = of([found.finding for found in out if isinstance(found, FindingOut)], Kind.STORM)
    phases = [finding.phase for finding in told]
    assert "resolved" in phases
    assert phases[-1] == "resolved"
    assert not [pair for pair in pairwise(phases) if pair == ("resolved", "resolved")]


@pytest.mark.parametrize("size", [2, 3, 6])
def test_a_rollout_that_starts_each_new_member_before_an_old_one_goes_is_a_rolling_restart(size: int) -> None:
    topic, number, at = Topic(), 1, 0
    there = [Client(f"old-{place}", (place,), f"c{place}") for place in range(size)]
    topic.generation(at, number, there)
    at = 600_000
    for place in range(size):
        there.append(Client(f"new-{place}", (), f"c{place}", "/10.0.1.1"))
        number, at = number + 1, at + 5_000
        topic.generation(at, number, there)
        there = [one for one in there if one.member_id != f"old-{place}"]
        number, at = number + 1, at + 5_000
        topic.generation(at, number, there)
    found = findings(topic)
    assert len(of(found, Kind.ROLLING_RESTART)) == 1
    assert not of(found, Kind.STORM)


def test_a_scale_in_after_a_start_is_no_rolling_restart() -> None:
    topic = Topic()
    there = [Client(f"m-{place}", (place,), f"c{place}") for place in range(4)]
    topic.generation(0, 1, there)
    topic.generation(20_000, 2, there[1:])
    topic.generation(25_000, 3, there[2:])
    assert not of(findings(topic), Kind.ROLLING_RESTART)
