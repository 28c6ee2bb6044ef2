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
    world.lag.publish({"g": positions.copied(world.held)}, world.at)
    world.commit({0: end})
    world.look()
    assert not world.found


@given(st.integers(2, 90), st.booleans())
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


def test_a_position_at_a_transaction_s_marker_loses_nothing_when_retention_empties_the_topic() -> None:
    world = World(ends=[91] * 4)
    world.commit(dict.fromkeys(range(4), 90))
    world.run(3, reads=(), rate=0)
    world.begins = [91] * 4
    world.run(3, reads=(), rate=0)
    assert not world.found
    # From here on what comes is lost as ever.
    world.ends = [500] * 4
    world.look()
    world.begins = [400] * 4
    world.look()
    (told,) = world.of(Kind.RECORDS_LOST)
    assert told.details["records"] == 4 * 310


def lagging(world: World, looks: int, *, reads: int, comes: int) -> None:
    """Partition 0 is read, that much a sample, while that much comes."""
    for _ in range(looks):
        world.ends = [world.ends[0] + comes, *world.ends[1:]]
        position = world.lag.board.groups["g"].places.get("orders", 0)
        assert position is not None
        world.commit({0: position.offset + reads})
        world.look()


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_records_that_a_commit_jumped_over_as_retention_deleted_them_are_lost(reset: str) -> None:
    """Such a group has committed beyond the new first offset before anybody sees that this passed it."""
    world = World(ends=[1_000_000, 100, 100, 100])
    world.commit({0: 1_000, 1: 100, 2: 100, 3: 100})
    world.look()
    lagging(world, 5, reads=10, comes=100)
    world.begins[0] = 50_000
    world.commit({0: 50_010 if reset == "earliest" else world.ends[0]})
    world.look()
    (told,) = world.of(Kind.RECORDS_LOST)
    assert told.severity is Severity.CRITICAL
    assert 48_000 < int(told.details["records"]) < 49_000
    world.run(20, reads=(), rate=0)
    assert len(world.of(Kind.RECORDS_LOST)) == 1


@given(st.integers(1, 1_000), st.integers(1, 4))
def test_a_group_that_reads_on_while_retention_follows_it_loses_nothing(reads: int, faster: int) -> None:
    world = World(ends=[10_000_000, 100, 100, 100])
    world.commit({0: 1_000, 1: 100, 2: 100, 3: 100})
    world.look()
    read = 1_000
    for look in range(20):
        more = reads * (faster if look == 10 else 1)
        read += more
        # What it has just read is gone at once.
        world.begins[0] = read
        lagging(world, 1, reads=more, comes=reads)
    assert not world.of(Kind.RECORDS_LOST)


HOUR = 720
"""Samples in an hour."""


def hours(world: World, count: int, *, reads: bool) -> None:
    """A segment an hour: what came an hour ago is deleted at once; the group reads as much, or nothing."""
    for _ in range(count):
        world.begins[0] += 3_600
        lagging(world, 1, reads=0, comes=0)
        for _ in range(6):
            lagging(world, 1, reads=600 * reads, comes=600)
            world.at += (HOUR // 6 - 1) * 5_000


def test_retention_in_segments_of_an_hour_is_no_danger_for_a_group_that_keeps_its_distance() -> None:
    world = World(ends=[1_000_000, 100, 100, 100])
    world.commit({0: 20_000, 1: 100, 2: 100, 3: 100})
    world.look()
    hours(world, 24, reads=True)
    assert not [one for one in world.found if one.kind in {Kind.RECORDS_EXPIRING, Kind.RECORDS_LOST}]


def test_a_group_that_stands_still_is_warned_of_before_retention_in_segments_reaches_it() -> None:
    world = World(ends=[1_000_000, 100, 100, 100])
    world.commit({0: 20_000, 1: 100, 2: 100, 3: 100})
    world.look()
    hours(world, 8, reads=False)
    warned, lost = world.of(Kind.RECORDS_EXPIRING), world.of(Kind.RECORDS_LOST)
    assert [one.phase for one in warned] == ["opened"]
    assert len(lost) == 1
    assert lost[0].at - warned[0].at >= HOUR * 5_000
    assert int(warned[0].details["left_ms"]) <= SETTINGS.records_expiring_ms


@given(st.lists(st.integers(0, 600), min_size=10, max_size=40), st.booleans())
def test_an_application_that_deletes_what_it_has_committed_is_not_warned_of_losing_records(
    since: list[int],
    much_waits: bool,  # noqa: FBT001
) -> None:
    """Kafka Streams deletes what it has committed every half a minute; samples of that come at any time."""
    world = World(ends=[1_000_000 if much_waits else 5_000, 100, 100, 100])
    world.commit({0: 1_000, 1: 100, 2: 100, 3: 100})
    world.look()
    read = 1_000
    for committed_since in since:
        read += 600
        world.ends[0] += 600
        world.begins[0] = read - committed_since
        world.commit({0: read})
        world.look()
        world.at += 55_000
    assert not world.found


@pytest.mark.parametrize("speed", [0, 300, 700])
def test_a_group_that_reads_more_slowly_than_retention_deletes_is_warned_before_it_loses(speed: int) -> None:
    world = World(ends=[1_000_000, 100, 100, 100])
    world.commit({0: 12_000, 1: 100, 2: 100, 3: 100})
    world.look()
    for look in range(150):
        # A segment of 5,000 records goes every five minutes.
        world.begins[0] = 5_000 * (look // 5)
        lagging(world, 1, reads=speed, comes=1_000)
        world.at += 55_000
    warned, lost = world.of(Kind.RECORDS_EXPIRING), world.of(Kind.RECORDS_LOST)
    assert warned[0].at < lost[0].at


@given(st.integers(0, 100), st.integers(0, 99), st.integers(0, 100), st.integers(0, 99))
def test_a_log_that_was_cut_at_its_end_is_lost_from_the_furthest_position_on_and_read_again_before_it(
    read: int, cut: int, to: int, first: int
) -> None:
    """The new leader may at first know of less than it has: of its log up to `first`."""
    world = World(topic_id="T")
    world.commit({0: read, 1: 100, 2: 100, 3: 100})
    world.look()
    world.ends[0] = min(first, cut)
    world.look()
    world.ends[0] = cut
    if to < read:
        world.commit({0: to})
    for _ in range(4):
        world.look()
    lost, again = 100 - max(read, cut), max(0, min(read, cut) - to)
    assert [one.details["records"] for one in world.of(Kind.RECORDS_LOST)] == [lost] * (lost > 1)
    assert [one.details["records"] for one in world.of(Kind.OFFSETS_REWOUND)] == [again] * (again > 0)


@given(st.integers(0, 100), st.integers(0, 99), st.integers(0, 100), st.integers(0, 100), st.data())
def test_a_group_that_goes_back_long_after_a_cut_reads_again_only_what_it_had_read(
    read: int, cut: int, comes: int, more: int, data: st.DataObject
) -> None:
    """By records: offsets beyond the cut hold others now, and the group may have read some of those, too."""
    world = World(topic_id="T")
    world.commit({0: read, 1: 100, 2: 100, 3: 100})
    world.look()
    old = [("old", offset) for offset in range(100)]
    log = old[:cut] + [("new", offset) for offset in range(cut, cut + comes)]
    world.ends[0] = cut
    for _ in range(4):
        world.look()
    world.at += 3_600_000
    world.ends[0] = len(log)
    world.look()
    stands = max(read, min(read + more, len(log)))
    has_read = {*old[:read], *log[read:stands]}
    world.commit({0: stands})
    world.look()
    to = data.draw(st.integers(0, stands))
    world.commit({0: to})
    for _ in range(4):
        world.look()
    again = len(has_read.intersection(log[to:stands]))
    assert [one.details["records"] for one in world.of(Kind.OFFSETS_REWOUND)] == [again] * (again > 0)


@pytest.mark.parametrize("why", ["a topic made anew", "an old leader's answer", "no topic id"])
def test_an_end_that_goes_back_for_another_reason_loses_nothing(why: str) -> None:
    world = World(topic_id="" if why == "no topic id" else "T")
    world.commit({0: 50, 1: 100, 2: 100, 3: 100})
    world.run(3, reads=(), rate=0)
    world.ends[0] = 60
    world.look()
    if why == "a topic made anew":
        world.topic_id = "U"
    if why == "an old leader's answer":
        world.ends[0] = 101
    world.run(10, reads=(), rate=0)
    assert not world.found


def test_a_position_of_a_topic_that_was_made_anew_did_not_go_back() -> None:
    world = World()
    world.run(10)
    world.ends = [7] * 4
    world.commit(dict.fromkeys(range(4), 5))
    world.look()
    assert not world.of(Kind.OFFSETS_REWOUND)


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
