"""A group that is empty for longer than it ever is: learned from a week of its own, never of a schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.state.codec import decode_state, encode_state
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.outputs import FindingOut
from rebalance_monitor.coordinator.rebalance.habits import FOLLOWED_MS, LEAST_MS, MOST_DAYS, UNUSUAL
from rebalance_monitor.coordinator.settings import DetectionSettings, GroupOverride
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from tests.coordinator.lag.world import World, summary
from tests.coordinator.support.epochs import SETTINGS, A, Epochs
from tests.coordinator.support.timeline import Client, Topic, of

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

MINUTE, HOUR = 60_000, 3_600_000
DAY = 24 * HOUR
CLIENT = Client("a-1", (0,))
KEEPING = DetectionSettings(offsets_retention_ms=400 * DAY)


def told(topic: Topic, settings: DetectionSettings = KEEPING) -> list[Finding]:
    """What is said of a topic of weeks; the state is written and read after each record."""
    state, found = new_shard_state(topic.shard, 0, None), []
    for row in topic.rows:
        shard = ShardCoordinator(decode_state(encode_state(state)), settings, "c1")
        found += shard.on_row(row) + shard.on_clock(row.record_ts)
        state = shard.state
    return [out.finding for out in found if isinstance(out, FindingOut)]


def emptied(found: list[Finding]) -> list[Finding]:
    return [one for one in of(found, Kind.GROUP_EMPTY) if one.phase == "opened"]


def worked(spells: list[tuple[int, int]]) -> Topic:
    """A group that has a member from each first time to each second one (ms), and says goodbye."""
    topic, number = Topic(), 1
    for begin, end in spells:
        topic.generation(begin, number, [CLIENT])
        topic.generation(end, number + 1, [])
        number += 2
    return topic


def nightly(days: int, *, weekends: bool) -> list[tuple[int, int]]:
    """From 8 to 18 h; without weekends, of which the first is after three days."""
    kept = [day for day in range(days) if weekends or day % 7 not in {3, 4}]
    return [(day * DAY + 8 * HOUR, day * DAY + 18 * HOUR) for day in kept]


def test_a_group_that_was_always_there_for_eight_days_is_unusual_when_it_is_empty_for_minutes() -> None:
    (early,) = emptied(told(worked([(0, FOLLOWED_MS - MINUTE)])))
    (known,) = emptied(told(worked([(0, FOLLOWED_MS + MINUTE)])))
    assert UNUSUAL not in early.details
    assert known.details[UNUSUAL] == LEAST_MS


@pytest.mark.parametrize("weekends", [True, False])
def test_a_schedule_of_a_week_is_never_unusual(weekends: bool) -> None:  # noqa: FBT001
    spells = nightly(40, weekends=weekends)
    found = emptied(told(worked(spells)))
    assert any(UNUSUAL in one.details for one in found)
    assert len(found) == len(spells)
    for one, (_, end), (begin, _) in zip(found, spells, spells[1:], strict=False):
        assert int(one.details.get(UNUSUAL, begin - end)) >= begin - end


def test_a_job_of_every_hour_that_rests_at_weekends_is_not_unusual_on_any() -> None:
    hours = [h for h in range(24 * 24) if (h // 24) % 7 not in {3, 4}]
    spells = [(h * HOUR, h * HOUR + 5 * MINUTE) for h in hours]
    found = emptied(told(worked(spells)))
    for one, (_, end), (begin, _) in zip(found, spells, spells[1:], strict=False):
        assert int(one.details.get(UNUSUAL, begin - end)) >= begin - end


def test_a_group_whose_churn_is_expected_has_no_habit() -> None:
    settings = replace(KEEPING, groups=(GroupOverride("g", expected_churn=True),))
    assert not [one for one in emptied(told(worked([(0, 30 * DAY)]), settings)) if UNUSUAL in one.details]


def test_deployments_make_the_habit_of_a_group_that_is_always_on() -> None:
    gap = 20 * MINUTE
    spells = [(day * DAY + gap, (day + 1) * DAY) for day in range(12)]
    assert emptied(told(worked(spells)))[-1].details[UNUSUAL] == pytest.approx(2 * gap, abs=MINUTE)


def test_what_is_remembered_of_a_habit_is_bounded() -> None:
    state = new_shard_state(7, 0, None)
    shard = ShardCoordinator(state, KEEPING, "c1")
    for row in worked(nightly(60, weekends=True)).rows:
        shard.on_row(row)
    assert len(state.groups["g"].empty.spells) == MOST_DAYS


def test_an_epoch_based_group_has_a_habit_too() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    topic.leave(9 * DAY, A, 2)
    (found,) = emptied(told(topic, replace(SETTINGS, offsets_retention_ms=400 * DAY)))
    assert found.details[UNUSUAL] == LEAST_MS


@pytest.mark.parametrize("rate", [0, 10])
def test_a_group_that_left_cleanly_is_a_warning_once_it_is_unusual_and_records_arrive(rate: int) -> None:
    """Whoever starts anew in the midst knows what waited before."""
    (made,) = emptied(told(worked([(0, 9 * DAY)])))
    world = World()
    world.run(20)
    details = {**made.details, "ended_by": "leave"}
    gone = replace(made, at=world.at, opened_at=world.at, causes=(), details=details)
    assert [one.severity for one in world.lag.priced([gone])] == [Severity.INFO]
    empty = {"reads": (), "said": summary("Empty", members=0), "rate": rate}
    looks = LEAST_MS // 5_000
    world.run(looks, **empty)
    assert not [one for one in world.of(Kind.GROUP_EMPTY) if one.severity is not Severity.INFO]
    world.run(1, anew=True, **empty)
    world.run(1, **empty)
    warned = [one.severity for one in world.of(Kind.GROUP_EMPTY) if one.severity is not Severity.INFO]
    assert warned == ([Severity.WARNING] if rate else [])
