"""The kernel and the readable fold give the same rows of Kafka's own records: corpus, real captures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.decoders import decode_batch, rows
from rebalance_monitor.decoders.batches import batch as under_test

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILES = [
    FIXTURES / "corpus" / "records.parquet",
    *sorted(FIXTURES.glob("scenarios/*/capture/records.parquet")),
]


def records(path: Path) -> pa.RecordBatch:
    columns = ["key", "value", "partition", "offset", "timestamp"]
    return pq.read_table(path, columns=columns).combine_chunks().to_batches()[0]


CORPUS, *CAPTURES = map(records, FILES)


def decoded(batch: pa.RecordBatch, small: int) -> pa.RecordBatch:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(under_test, "SMALL", small)
        return decode_batch(batch, 4)


def kernel_is_parser(batch: pa.RecordBatch) -> pa.RecordBatch:
    by_kernel = decoded(batch, 0)
    by_kernel.validate(full=True)
    assert by_kernel.equals(decoded(batch, 2**31))
    return by_kernel


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.parent.relative_to(FIXTURES)))
def test_kernel_and_readable_parser_agree_on_whole_files(path: Path) -> None:
    found = kernel_is_parser(records(path))
    assert rows.COMMIT_RUN in found.column("row_kind").to_pylist()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_they_agree_on_any_choice_of_records_from_all_files_in_any_order(data: st.DataObject) -> None:
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    parts = []
    for batch in (CORPUS, *CAPTURES):
        start = data.draw(st.integers(0, batch.num_rows - 1))
        parts.append(batch.slice(start, data.draw(st.integers(0, 300))))
    whole = pa.Table.from_batches(part.cast(CORPUS.schema) for part in parts).combine_chunks()
    mixed = pa.table({**dict(zip(whole.column_names, whole.columns, strict=True)),
                      "offset": pa.array(range(whole.num_rows), pa.int64())})  # fmt: skip
    if data.draw(st.booleans()):
        mixed = mixed.take(chance.permutation(mixed.num_rows))
    for batch in mixed.combine_chunks().to_batches():
        kernel_is_parser(batch)


@pytest.mark.parametrize("capture", CAPTURES, ids=[str(path.parent.parent.name) for path in FILES[1:]])
def test_nothing_that_a_real_broker_wrote_is_unreadable(capture: pa.RecordBatch) -> None:
    assert rows.FAILURE not in decoded(capture, 0).column("row_kind").to_pylist()
