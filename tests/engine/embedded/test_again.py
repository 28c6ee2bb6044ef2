"""Batches that run again have the records that they had."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.state.changelog import Begun
from rebalance_monitor.engine.embedded.again import cut

PARTITIONS = range(3)
OFFSETS = st.integers(0, 30)
ENDS = st.dictionaries(st.sampled_from(PARTITIONS), OFFSETS)
RECORDS = st.lists(st.tuples(st.sampled_from(PARTITIONS), OFFSETS), max_size=40)


def first_beyond(partition: int, offset: int, ends: list[dict[int, int]]) -> int:
    """Which batch was the first that ended behind the record."""
    return next((n for n, one in enumerate(ends) if offset < one.get(partition, 0)), len(ends))


@given(st.lists(ENDS, min_size=1, max_size=6), st.lists(RECORDS, max_size=3))
def test_each_record_runs_again_in_the_first_batch_that_ended_behind_it(
    ends: list[dict[int, int]], read: list[list[tuple[int, int]]]
) -> None:
    batches = [Begun(number, 0, limited=False, until=one) for number, one in enumerate(ends)]
    records = [
        pa.record_batch(
            {
                "partition": pa.array([partition for partition, _ in some], pa.int32()),
                "offset": pa.array([offset for _, offset in some], pa.int64()),
            }
        )
        for some in read
    ]
    found = [
        [
            row
            for part in own
            for row in zip(part.column(0).to_pylist(), part.column(1).to_pylist(), strict=True)
        ]
        for _, own in cut(records, batches)
    ]
    every = [row for some in read for row in some]
    assert found == [[row for row in every if first_beyond(*row, ends) == n] for n in range(len(ends))]
