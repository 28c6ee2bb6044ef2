from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.cluster.captures.spool import Spool, runs


@settings(deadline=None)
@given(st.lists(st.integers(0, 3)))
def test_runs_cover_every_value_once(values: list[int]) -> None:
    column = pa.chunked_array([pa.array(values[:2], pa.int32()), pa.array(values[2:], pa.int32())])
    found = list(runs(column))
    assert [value for value, _start, length in found for _ in range(length)] == values
    assert all(a[0] != b[0] for a, b in pairwise(found))


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=9), max_size=9), st.integers(1, 400))
def test_a_spool_sorts_by_partition_whatever_its_buffer(batches: list[list[int]], limit: int) -> None:
    offset = 0
    wanted: dict[int, list[int]] = {}
    with Spool(buffer_bytes=limit) as spool:
        for partitions in batches:
            offsets = list(range(offset, offset + len(partitions)))
            offset += len(partitions)
            for partition, number in zip(partitions, offsets, strict=True):
                wanted.setdefault(partition, []).append(number)
            spool.add(pa.record_batch({"partition": partitions, "offset": offsets}))
        assert spool.partitions() == sorted(wanted)
        found = {p: [n for b in spool.read(p) for n in b.column("offset").to_pylist()] for p in wanted}
    assert found == wanted
