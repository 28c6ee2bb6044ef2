"""A restart neither forgets nor repeats what was lost: before it, while no process watched, and after it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.following import Lag
from rebalance_monitor.coordinator.lag.packed.remembered import MOST
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.lag.world import World

LOOKS = 6


def found(world: World, kind: Kind) -> list[object]:
    return [one.details["records"] for one in world.of(kind)]


@given(st.integers(0, 100), st.integers(0, 99), st.sets(st.integers(0, LOOKS)), st.integers(0, LOOKS - 3))
def test_a_cut_is_judged_once_whenever_the_process_begins_anew(
    read: int, cut: int, restarts: set[int], at: int
) -> None:
    world = World(topic_id="T")
    world.commit({0: read, 1: 100, 2: 100, 3: 100})
    world.look()
    for look in range(LOOKS):
        if look == at:
            world.ends[0] = cut
        world.look(anew=look in restarts)
    for _ in range(3):
        world.look(anew=LOOKS in restarts)
    lost = 100 - max(read, cut)
    assert found(world, Kind.RECORDS_LOST) == [lost] * (lost > 1)
    assert not found(world, Kind.OFFSETS_REWOUND)


@given(st.integers(1, 100), st.integers(0, 99), st.sets(st.integers(0, 4)), st.data())
def test_a_group_that_goes_back_after_a_cut_reads_the_same_again_whatever_restarts_there_were(
    read: int, cut: int, restarts: set[int], data: st.DataObject
) -> None:
    world = World(topic_id="T")
    world.commit({0: read, 1: 100, 2: 100, 3: 100})
    world.look()
    world.ends[0] = cut
    for look in range(4):
        world.look(anew=look in restarts)
    to = data.draw(st.integers(0, read - 1))
    world.ends[0] = max(cut, 100)
    # Where it goes back while no process watches, its position before is known from a cut alone.
    world.look(anew=4 in restarts)
    world.commit({0: to})
    for _ in range(4):
        world.look()
    again = max(0, min(read, cut) - to) if read > cut else read - to
    assert found(world, Kind.OFFSETS_REWOUND) == [again] * (again > 0)


@given(st.integers(0, 90), st.sets(st.integers(0, 4)), st.integers(0, 3))
def test_what_retention_deleted_unread_is_lost_once_whenever_the_process_begins_anew(
    offset: int, restarts: set[int], at: int
) -> None:
    world = World(ends=[200] * 4)
    world.commit({0: offset, 1: 200, 2: 200, 3: 200})
    world.look()
    for look in range(5):
        if look == at:
            world.begins[0] = 100
        world.look(anew=look in restarts)
    assert found(world, Kind.RECORDS_LOST) == [100 - offset]


def test_what_was_gone_before_the_first_process_began_is_never_reported() -> None:
    world = World(ends=[200] * 4, begins=[150] * 4)
    world.commit(dict.fromkeys(range(4), 90))
    for look in range(5):
        world.begins = [150 + 10 * look] * 4
        world.look(anew=True)
    assert not world.found


@pytest.mark.parametrize("why", ["a topic made anew", "it committed meanwhile"])
def test_an_end_that_is_further_back_after_a_restart_says_nothing_where_more_may_have_been_read(
    why: str,
) -> None:
    world = World(topic_id="T")
    world.commit({0: 50, 1: 100, 2: 100, 3: 100})
    world.look()
    world.ends[0] = 60
    if why == "a topic made anew":
        world.topic_id = "U"
    else:
        world.at += 10_000
        world.commit({0: 55})
    world.look(anew=True)
    for _ in range(5):
        world.look()
    assert not world.found


def test_a_group_that_publishes_its_positions_late_after_a_restart_is_judged_as_well() -> None:
    world = World(topic_id="T")
    world.commit({0: 50, 1: 100, 2: 100, 3: 100})
    world.look()
    world.ends[0] = 60
    late, world.held = world.held, type(world.held)()
    world.at += 1_000
    world.commit({1: 100})
    world.look(anew=True)
    world.held = late
    for _ in range(4):
        world.look()
    assert found(world, Kind.RECORDS_LOST) == [40]


def test_more_partitions_than_the_ledger_is_to_hold_with_each_batch_are_not_remembered() -> None:
    world = World(ends=[100] * (MOST + 1), begins=[0] * (MOST + 1), topic_id="T")
    world.commit({0: 50})
    world.look()
    assert world.lag.snapshot()["logs"] == ""


def test_memory_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="base85"):
        Lag(DetectionSettings(), "c1", {"logs": "no such text"})
