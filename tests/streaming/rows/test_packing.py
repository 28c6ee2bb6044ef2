"""Packs: every row arrives in its own lane, as it was and in order, however large the rows are."""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalance_monitor.decoders import ROW_SCHEMA, Row, rows
from rebalance_monitor.streaming.rows.lanes import Lanes
from rebalance_monitor.streaming.rows.packing import CLOCK, PACK_BYTES, PACK_SCHEMA, Unpacked, packed
from tests.streaming.support.topics import eventful_topic, row_batch

some_rows = st.builds(
    Row,
    shard=st.integers(0, 60),
    bucket=st.integers(0, 3),
    row_kind=st.sampled_from([rows.COMMIT_RUN, rows.RECORD, rows.FAILURE]),
    first_offset=st.integers(0, 2**63 - 1),
    last_offset=st.integers(0, 2**63 - 1),
    record_ts=st.integers(-1, 2**63 - 1),
    group=st.text(max_size=8),
    commit_ts=st.integers(-1, 2**63 - 1),
    count=st.integers(0, 2**31 - 1),
    body=st.binary(max_size=40),
)


@settings(deadline=None, max_examples=100)
@given(st.lists(some_rows, max_size=40), st.integers(1, 9))
def test_every_row_comes_out_of_its_lane_as_it_was_and_in_order(found: list[Row], count: int) -> None:
    lanes = Lanes(61, 4, count)
    out = packed(row_batch(found), lanes)
    assert out.schema == PACK_SCHEMA
    for lane, key in enumerate(lanes.keys):
        packs = [pack for at, pack in zip(*map(pa.Array.to_pylist, out.columns), strict=True) if at == key]
        assert CLOCK not in packs
        expected = [row for row in found if lanes.lane(row.shard, row.bucket) == lane]
        of_lane = Unpacked(packs)
        assert of_lane.places == {(row.shard, row.bucket) for row in expected}
        for place in of_lane.places:
            assert list(of_lane.rows(place)) == [r for r in expected if (r.shard, r.bucket) == place]
        assert of_lane.newest == max((row.record_ts for row in expected), default=-1)
        assert not of_lane.ticks


def test_values_are_pythons_own() -> None:
    (pack,) = packed(row_batch(eventful_topic().rows[:1]), Lanes(1, 1, 1)).column("rows").to_pylist()
    (row,) = Unpacked([pack]).rows((0, 0))
    assert {type(getattr(row, name)) for name in ROW_SCHEMA.names} == {int, str, bytes}


def test_the_clock_has_no_rows() -> None:
    clock = Unpacked([CLOCK])
    assert (clock.ticks, clock.places, list(clock.rows((0, 0))), clock.newest) == (True, set(), [], -1)


def test_large_rows_are_spread_over_packs_and_a_larger_one_travels_alone() -> None:
    row = eventful_topic().rows[0]
    sizes = [PACK_BYTES // 3] * 7 + [PACK_BYTES * 2] + [10] * 5
    found = [replace(row, first_offset=at, body=bytes(size)) for at, size in enumerate(sizes)]
    packs = packed(row_batch(found), Lanes(1, 1, 1)).column("rows").to_pylist()
    place = (row.shard, row.bucket)
    assert [row.first_offset for row in Unpacked(packs).rows(place)] == list(range(len(sizes)))
    large = [pack for pack in packs if len(pack) > PACK_BYTES + 4_096]
    assert [[len(row.body) for row in Unpacked([pack]).rows(place)] for pack in large] == [[PACK_BYTES * 2]]
    assert len(packs) < len(sizes)


def test_lanes_share_all_coordinators_evenly() -> None:
    lanes = Lanes(50, 4, 16)
    places = [place for lane in range(16) for place in lanes.members(lane)]
    assert sorted(places) == [(shard, bucket) for shard in range(50) for bucket in range(4)]
    assert {len(lanes.members(lane)) for lane in range(16)} == {12, 13}
    of_one = groupby(sorted(places), key=lambda place: place[0])
    assert all(len({lanes.lane(*place) for place in buckets}) == 4 for _, buckets in of_one)
