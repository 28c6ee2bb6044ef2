import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.decoders import ROW_SCHEMA, Row
from rebalance_monitor.engine.replay import timeline as timelines
from rebalance_monitor.engine.replay.timeline import Lane, Tick, quiet_ticks, timeline

shards = st.dictionaries(st.integers(0, 4), st.lists(st.integers(0, 12_000), max_size=30), max_size=4)
cuts = st.lists(st.integers(1, 7), min_size=1, max_size=9)


def row(shard: int, offset: int, stamp: int) -> Row:
    return Row(shard, 0, "record", offset, offset, stamp, "g", -1, 1, bytes([shard]))


def batch(rows: list[Row]) -> pa.RecordBatch:
    names = ROW_SCHEMA.names
    return pa.RecordBatch.from_pylist([{n: getattr(r, n) for n in names} for r in rows], schema=ROW_SCHEMA)


def lanes(stamps: dict[int, list[int]], sizes: list[int]) -> list[Lane]:
    made = []
    for shard, times in stamps.items():
        rows = [row(shard, offset, stamp) for offset, stamp in enumerate(times)]
        batches, at = [], 0
        for size in [*sizes, len(rows) + 1]:
            batches.append(batch(rows[at : at + size]))
            at += size
        made.append(Lane(shard, iter(batches)))
    return made


def order_of(ticks: list[Tick]) -> list[tuple[int, int]]:
    return [(r.shard, r.first_offset) for tick in ticks for rows in tick.rows.values() for r in rows]


@settings(deadline=None)
@given(shards, cuts, cuts)
def test_the_timeline_is_the_same_however_the_rows_are_cut(
    stamps: dict[int, list[int]], one: list[int], other: list[int]
) -> None:
    assert list(timeline(lanes(stamps, one))) == list(timeline(lanes(stamps, other)))


@settings(deadline=None)
@given(shards, cuts)
def test_every_row_comes_once_in_its_shards_order_and_never_before_its_time(
    stamps: dict[int, list[int]], sizes: list[int]
) -> None:
    ticks = list(timeline(lanes(stamps, sizes)))
    for shard, times in stamps.items():
        mine = [offset for s, offset in order_of(ticks) if s == shard]
        assert mine == list(range(len(times)))
    for before, tick in zip([None, *ticks], ticks, strict=False):
        for rows in tick.rows.values():
            assert all(r.record_ts < tick.now for r in rows)
            newest = [max(stamps[r.shard][: r.first_offset + 1]) for r in rows]
            assert before is None or all(time >= before.now for time in newest)


@settings(deadline=None)
@given(shards, cuts)
def test_the_clock_ticks_every_whole_second_from_the_first_row_to_the_last(
    stamps: dict[int, list[int]], sizes: list[int]
) -> None:
    clock = [tick.now for tick in timeline(lanes(stamps, sizes))]
    times = [time for shard in stamps.values() for time in shard]
    assert clock == ([] if not times else list(range(clock[0], clock[-1] + 1, 1000)))
    # A timestamp that goes back counts as the one before it.
    firsts = [shard[0] for shard in stamps.values() if shard]
    assert not times or clock[0] - 1000 <= min(firsts) < clock[0]
    assert not times or clock[-1] - 1000 <= max(times) < clock[-1]


@given(st.integers(1, 10**13))
def test_even_centuries_of_silence_cost_few_ticks_and_each_is_a_small_part_of_it(silence: int) -> None:
    ticks = list(quiet_ticks(0, silence))
    assert len(ticks) <= min(silence / 1000, 20_000)
    assert all(tick % 1000 == 0 and 0 < tick < silence for tick in ticks)
    steps = [b - a for a, b in zip([0, *ticks], ticks, strict=False)]
    assert all(step <= max(1000, tick / 600) for step, tick in zip(steps, ticks, strict=True))


def test_a_batch_of_more_rows_than_are_held_at_once_comes_out_whole_and_in_order() -> None:
    rows = [row(3, offset, offset) for offset in range(2 * timelines.AT_ONCE + 5)]
    ticks = {tick.now: tick.rows[3] for tick in timeline([Lane(3, iter([batch(rows[:0]), batch(rows)]))])}
    assert [r for found in ticks.values() for r in found] == rows
    assert ticks[2000] == rows[1000:2000]
