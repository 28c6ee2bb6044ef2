"""What is kept of commits is each partition's newest, however they came and wherever they were cut."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.commits.positions import Position
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry

Run = tuple[int, list[tuple[str, int, int]]]
topics = st.sampled_from(["a", "orders", "größe"])
entries = st.tuples(topics, st.integers(0, 12), st.integers(-1, 2**40))
runs = st.lists(st.tuples(st.integers(0, 2**41), st.lists(entries, min_size=1, max_size=8)), max_size=90)


def parts(listed: Sequence[tuple[str, int, int]]) -> tuple[bytes, bytes]:
    """T and O of the row contract."""
    before, named = None, []
    for topic, partition, _ in listed:
        named.append(partition_entry(None if topic == before else topic.encode(), partition))
        before = topic
    return b"".join(named), b"".join(offset.to_bytes(8, "big", signed=True) for *_, offset in listed)


def kept(found: Sequence[Run]) -> Positions:
    held = Positions()
    for at, listed in found:
        positions.keep(held, at, *parts(listed))
    return held


def newest(found: Sequence[Run]) -> dict[tuple[str, int], Position]:
    """The oracle: a plain map in which the later wins."""
    last = {(topic, p): Position(offset, at) for at, run in found for topic, p, offset in run}
    return {place: position for place, position in last.items() if position.offset >= 0}


def flat(held: Positions) -> dict[tuple[str, int], Position]:
    return {(t, p): place for t, found in positions.places_of(held).items() for p, place in found.items()}


@given(runs)
def test_each_partition_has_its_newest_commit(found: list[Run]) -> None:
    assert flat(kept(found)) == newest(found)


@given(runs)
def test_merging_changes_nothing_and_needs_at_most_24_bytes_a_partition_and_the_names(
    found: list[Run],
) -> None:
    held = kept(found)
    before = flat(held)
    positions.merge(held)
    assert flat(held) == before
    names = {topic for topic, _ in before}
    assert len(held.table) <= 24 * len(before) + sum(len(name.encode()) + 6 for name in names)


@given(runs)
def test_runs_are_bounded_however_many_lists_of_partitions_come(found: list[Run]) -> None:
    held = kept(found)
    assert len(held.runs) <= positions.MAX_RUNS
    assert held.size <= positions.ROOM_BYTES + 2 * len(held.table)


@given(runs)
def test_what_is_published_is_what_is_kept(found: list[Run]) -> None:
    held = kept(found)
    assert positions.read(positions.published(held)) == held


@given(runs, topics, st.integers(0, 12))
def test_a_dropped_offset_is_no_position(found: list[Run], topic: str, partition: int) -> None:
    held = kept(found)
    positions.drop(held, 5, topic, partition)
    assert flat(held) == {place: one for place, one in newest(found).items() if place != (topic, partition)}


@given(runs, st.booleans())
def test_plain_positions_tell_their_newest_commit_without_being_unpacked(
    found: list[Run],
    merged: bool,  # noqa: FBT001 - drawn
) -> None:
    held = kept(sorted(found, key=lambda run: run[0]))
    if merged:
        positions.merge(held)
    dropped = any(offset < 0 for _, listed in found for *_, offset in listed)
    newest = positions.committed_at(held)
    assert newest is not None or dropped
    if newest is not None:
        assert newest == positions.newest(positions.places_of(held))
