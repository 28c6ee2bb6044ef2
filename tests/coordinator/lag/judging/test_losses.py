"""Positions that went back, records lost unread, and records about to be lost: each is reported once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag.ends import EndsSample
from tests.coordinator.lag.world import SETTINGS, World


def test_positions_that_went_back_are_reported_once_with_what_is_read_again() -> None:
    world = World()
    world.run(30)
    end = world.ends[0]
    world.commit(dict.fromkeys(range(4), 50))
    world.look()
    world.run(3, reads=())
    (told,) = world.of(Kind.OFFSETS_REWOUND)
    assert (told.details["partitions"], told.details["records"]) == (4, 4 * (end - 50))


def test_a_glitch_that_is_over_at_the_next_sample_is_no_rewind() -> None:
    world = World()
    world.run(10)
    end = world.ends[0]
    world.commit({0: end - 1})
    world.lag.publish({"g": positions.published(world.held)}, world.at)
    world.commit({0: end})
    world.look()
    assert not world.found


@given(st.integers(1, 90), st.booleans())
def test_records_are_lost_only_above_the_committed_offset(begin: int, beyond: bool) -> None:  # noqa: FBT001
    world = World()
    world.commit(dict.fromkeys(range(4), 90))
    world.look()
    world.begins[2] = 90 + begin if beyond else begin
    world.ends[2] = 200
    world.look()
    world.look()
    lost = world.of(Kind.RECORDS_LOST)
    assert len(lost) == beyond
    if beyond:
        assert (lost[0].severity, lost[0].details["records"]) == (Severity.CRITICAL, begin)


def test_what_was_lost_before_the_first_sample_is_not_reported() -> None:
    world = World()
    world.begins = [95] * 4
    world.commit(dict.fromkeys(range(4), 90))
    for _ in range(5):
        world.look()
    assert not world.found


def test_retention_that_comes_near_is_reported_and_over_when_the_group_has_read() -> None:
    world = World()
    world.ends = [100_000] * 4
    world.commit({0: 10_000, 1: 100_000, 2: 100_000, 3: 100_000})
    for begin in range(0, 9_000, 100):
        world.begins[0] = begin
        world.look()
    told = world.of(Kind.RECORDS_EXPIRING)
    assert [one.phase for one in told] == ["opened"]
    left = int(told[0].details["left_ms"])
    assert 0 < left <= SETTINGS.records_expiring_ms
    world.commit({0: 100_000})
    world.look()
    assert [one.phase for one in world.of(Kind.RECORDS_EXPIRING)] == ["opened", "resolved"]


@pytest.mark.parametrize("way", ["its offsets are gone", "it commits no more"])
def test_what_is_open_of_a_group_that_only_commits_ends_with_it(way: str) -> None:
    world = World(ends=[10_000] * 4)
    world.commit({0: 5_000})
    for begin in range(0, 4_000, 100):
        world.begins[0] = begin
        world.look({})
    assert [one.phase for one in world.of(Kind.RECORDS_EXPIRING)] == ["opened"]
    if way == "its offsets are gone":
        positions.drop(world.held, world.at, "orders", 0)
        world.look({})
    else:
        at = world.at + 8 * 86_400_000
        world.found += world.lag.on_samples([EndsSample(at - 10, at)], {}, ())
    assert [one.phase for one in world.of(Kind.RECORDS_EXPIRING)] == ["opened", "resolved"]
    assert not world.lag.snapshot()["losses"]
