"""A batch of records to rows (`rows`): Arrow in, Arrow out.

Commits (types 0, 1 with a value) are folded to runs; other readable records travel whole; unreadable ones
become `failure` rows. Rows come out by partition, within a partition in record order. Runs never cross
partitions or the border of a batch. Nothing here raises on any bytes; memory stays within a small multiple of
the batch's own. The numpy kernel takes the commits it is certain of, the readable parser all the rest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from rebalance_monitor.decoders import rows
from rebalance_monitor.decoders.batches.columns import Cells, Ints, cells
from rebalance_monitor.decoders.batches.folding import Source, as_commit, fold, single
from rebalance_monitor.decoders.batches.kernel import Commits, scan
from rebalance_monitor.decoders.batches.runs import Runs, assemble, borders, unreadable_names
from rebalance_monitor.decoders.hashing import bucket_of
from rebalance_monitor.decoders.record import Decoded, Failure, decode_record
from rebalance_monitor.decoders.rows import ROW_SCHEMA, Row

# An Arrow column of 32-bit offsets holds no more bytes.
LARGEST = 2**31 - 1
# A failure's body: key and value in base64, and what went wrong.
_GROWTH, _WRAPPING = 4 / 3, 1024
# So many partitions are sorted by their digits, which takes a tenth of the time.
_FEW = 2**15
# Below this many records numpy's fixed cost per batch is more than the readable parser's.
SMALL = 64


@dataclass(frozen=True, slots=True)
class _Records:
    """The source columns of a batch, rows in partition and offset order; timestamps in ms."""

    keys: Cells
    values: Cells
    partition: Ints
    offset: Ints
    timestamp: Ints

    def source(self, row: int) -> Source:
        at = (int(self.partition[row]), int(self.offset[row]), int(self.timestamp[row]))
        return Source(*at, self.keys.cell(row), self.values.cell(row))


Read = Callable[[bytes | None, bytes | None], Decoded | Failure]
"""What reads one record: `decode_record`, or a memory of it."""


def decode_batch(batch: pa.RecordBatch, buckets: int = 1, read: Read = decode_record) -> pa.RecordBatch:
    """Turn a batch with the Kafka source's columns into rows of `ROW_SCHEMA`.

    Needs `key`, `value` (binary or large_binary), `partition` (int32), `offset` (int64) and `timestamp` (a
    timestamp of any unit, or int64 ms); other columns are ignored. `buckets` is the number of state keys per
    partition; `read` reads the records of a large batch that the numpy kernel does not. Raises `ValueError`
    for a batch (of well over 1 GiB) whose rows might not fit one Arrow batch: `pieces` cuts it.
    """
    if not fits(batch):
        raise ValueError(f"{batch.num_rows} records are too many bytes for one batch: cut them with pieces()")
    records = _records(batch)
    if batch.num_rows < SMALL:
        return _to_batch(list(fold(map(records.source, range(batch.num_rows)), buckets)))
    found = scan(records.keys, records.values)
    rest = partial(_read_rest, records, found, buckets, read)
    singles = rest(np.flatnonzero(~found.is_commit))
    cut = borders(records.keys, found, records.partition)
    wrong = unreadable_names(records.keys, found, cut)
    if len(wrong):
        found.is_commit[wrong] = False
        singles |= rest(wrong)
        cut = borders(records.keys, found, records.partition)
    runs = assemble(records.keys, records.values, found, cut)
    return _merge(records, found, runs, singles, buckets)


def fits(batch: pa.RecordBatch) -> bool:
    """Return whether the rows of a batch are sure to fit one Arrow batch."""
    held = batch.column("key").nbytes + batch.column("value").nbytes
    most: float = held * _GROWTH + batch.num_rows * _WRAPPING
    return most <= LARGEST


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch, whose partitions must be in record order, in as few halves as `decode_batch` takes.

    Nothing is copied. A single record is yielded whatever its size.
    """
    if batch.num_rows <= 1 or fits(batch):
        yield batch
        return
    half = batch.num_rows // 2
    yield from pieces(batch.slice(0, half))
    yield from pieces(batch.slice(half))


def _records(batch: pa.RecordBatch) -> _Records:
    columns = (
        _ints(batch.column("partition")),
        _ints(batch.column("offset")),
        _ints(_milliseconds(batch.column("timestamp"))),
    )
    partition, offset, _ = columns
    keys, values = cells(batch.column("key")), cells(batch.column("value"))
    step, ahead = np.diff(partition), np.diff(offset) > 0
    if ((step > 0) | ((step == 0) & ahead)).all():
        return _Records(keys, values, *columns)
    order = _order(partition, offset)
    return _Records(keys.take(order), values.take(order), *(column[order] for column in columns))


def _order(partition: Ints, offset: Ints) -> Ints:
    """Return the order by partition and offset. A reader takes the records of a partition in their order."""
    few = partition.astype(np.int16) if partition.min() >= 0 and partition.max() < _FEW else partition
    order = np.argsort(few, kind="stable")
    by_partition, offsets = partition[order], offset[order]
    if ((np.diff(by_partition) > 0) | (np.diff(offsets) > 0)).all():
        return order
    return np.lexsort((offset, partition))


def _ints(column: pa.Array) -> Ints:
    whole = column.fill_null(-1) if column.null_count else column
    found: Ints = whole.to_numpy().astype(np.int64, copy=False)
    return found


def _milliseconds(column: pa.Array) -> pa.Array:
    if not pa.types.is_timestamp(column.type):
        return column
    return column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).view(pa.int64())


def _read_rest(records: _Records, found: Commits, buckets: int, read: Read, which: Ints) -> dict[int, Row]:
    """Read rows with the readable parser: commits are added to `found`, others returned by row."""
    singles: dict[int, Row] = {}
    for row in which.tolist():
        source = records.source(row)
        decoded = read(source.key, source.value)
        commit = as_commit(decoded)
        if commit is None:
            singles[row] = single(source, decoded, buckets)
            continue
        key, value = commit
        found.is_commit[row] = True
        found.group_size[row] = len(key.group.encode())
        found.topic_size[row] = len(key.topic.encode())
        found.commit_ts[row] = value.commit_timestamp
    return singles


def _merge(
    records: _Records, found: Commits, runs: Runs, singles: dict[int, Row], buckets: int
) -> pa.RecordBatch:
    batch = _run_batch(records, found, runs, buckets)
    if not singles:
        return batch
    others = _to_batch([singles[row] for row in sorted(singles)])
    order = np.argsort(np.concatenate([runs.first, np.array(sorted(singles))]), kind="stable")
    return pa.Table.from_batches([batch, others]).combine_chunks().take(order).to_batches()[0]


def _run_batch(records: _Records, found: Commits, runs: Runs, buckets: int) -> pa.RecordBatch:
    kind = pa.array([rows.COMMIT_RUN]).take(pa.array(np.zeros(len(runs.first), np.int8)))
    columns = {
        "shard": records.partition[runs.first].astype(np.int32),
        "bucket": _buckets(runs.group, buckets),
        "row_kind": kind,
        "first_offset": records.offset[runs.first],
        "last_offset": records.offset[runs.last],
        "record_ts": records.timestamp[runs.first],
        "group": runs.group,
        "commit_ts": found.commit_ts[runs.first],
        "count": runs.count.astype(np.int32),
        "body": runs.body,
    }
    arrays = [pa.array(columns[field.name], field.type) for field in ROW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)


def _buckets(groups: pa.Array, buckets: int) -> pa.Array:
    if buckets <= 1:
        return pa.array(np.zeros(len(groups), np.int32))
    encoded = groups.dictionary_encode()
    numbers = map(partial(bucket_of, buckets=buckets), encoded.dictionary.to_pylist())
    return pa.array(list(numbers), pa.int32()).take(encoded.indices)


def _to_batch(found: list[Row]) -> pa.RecordBatch:
    arrays = [pa.array([getattr(row, field.name) for row in found], field.type) for field in ROW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)
