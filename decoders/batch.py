"""A batch of records to rows (`rows`): Arrow in, Arrow out.

Commits (types 0, 1 with a value) are folded to runs; other readable records travel whole; unreadable ones
become `failure` rows. Rows come out by partition, within a partition in record order. Runs never cross
partitions or the border of a batch. Nothing here raises on any bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from rebalance_monitor.decoders import rows
from rebalance_monitor.decoders.hashing import bucket_of
from rebalance_monitor.decoders.record import Decoded, Failure, decode_record
from rebalance_monitor.decoders.records.classic import OffsetCommitKey, OffsetCommitValue
from rebalance_monitor.decoders.rows import ROW_SCHEMA, Row


@dataclass(slots=True)
class _Run:
    """A commit run that may still grow."""

    group: str
    commit_ts: int
    record_ts: int
    first_offset: int
    last_offset: int
    topic: str = ""
    partitions: list[bytes] = field(default_factory=list)
    offsets: list[bytes] = field(default_factory=list)

    def add(self, key: OffsetCommitKey, value: OffsetCommitValue, offset: int) -> None:
        same = bool(self.partitions) and key.topic == self.topic
        self.partitions.append(rows.partition_entry(None if same else key.topic.encode(), key.partition))
        self.offsets.append(value.offset.to_bytes(8, "big", signed=True))
        self.topic, self.last_offset = key.topic, offset

    def row(self, shard: int, buckets: int) -> Row:
        return Row(
            shard,
            bucket_of(self.group, buckets),
            rows.COMMIT_RUN,
            self.first_offset,
            self.last_offset,
            self.record_ts,
            self.group,
            self.commit_ts,
            len(self.offsets),
            rows.run_body(b"".join(self.partitions), b"".join(self.offsets)),
        )


@dataclass(frozen=True, slots=True)
class Source:
    """One record as the Kafka source gives it; `timestamp` in ms."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def decode_batch(batch: pa.RecordBatch, buckets: int = 1) -> pa.RecordBatch:
    """Turn a batch with the Kafka source's columns into rows of `ROW_SCHEMA`.

    Needs `key`, `value` (binary), `partition` (int32), `offset` (int64) and `timestamp` (timestamp or ms as
    int64); other columns are ignored. `buckets` is the number of state keys per partition.
    """
    found: list[Row] = []
    by_partition: dict[int, list[Source]] = {}
    for source in sources(batch):
        by_partition.setdefault(source.partition, []).append(source)
    for shard in sorted(by_partition):
        found.extend(fold(sorted(by_partition[shard], key=lambda s: s.offset), shard, buckets))
    return to_batch(found)


def sources(batch: pa.RecordBatch) -> Iterator[Source]:
    """Yield the records of a batch in its own order."""
    columns = (
        batch.column("partition").to_pylist(),
        batch.column("offset").to_pylist(),
        milliseconds(batch.column("timestamp")).to_pylist(),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
    )
    return (Source(*row) for row in zip(*columns, strict=True))


def milliseconds(column: pa.Array) -> pa.Array:
    """Return a timestamp column (any unit and zone, or integers) as int64 ms, -1 for null."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).view(pa.int64())
    return column.cast(pa.int64()).fill_null(-1)


def fold(records: list[Source], shard: int, buckets: int) -> Iterator[Row]:
    """Fold the records of one partition, in order, to rows: the definition the kernel is held against."""
    run: _Run | None = None
    for source in records:
        decoded = decode_record(source.key, source.value)
        if isinstance(decoded, Decoded) and isinstance(decoded.value, OffsetCommitValue):
            key, value = decoded.key, decoded.value
            if run is None or (run.group, run.commit_ts) != (key.group, value.commit_timestamp):
                if run is not None:
                    yield run.row(shard, buckets)
                stamp = value.commit_timestamp
                run = _Run(key.group, stamp, source.timestamp, source.offset, source.offset)
            run.add(key, value, source.offset)  # type: ignore[arg-type] # such a value has such a key
            continue
        if run is not None:
            yield run.row(shard, buckets)
            run = None
        yield single(source, decoded, buckets)
    if run is not None:
        yield run.row(shard, buckets)


def single(source: Source, decoded: Decoded | Failure, buckets: int) -> Row:
    """Make the row of a record that belongs to no run."""
    if isinstance(decoded, Failure):
        group = decoded.key.group if decoded.key is not None else ""
        kind = rows.FAILURE
        body = rows.failure_body(
            rows.FailureRow(
                decoded.reason,
                decoded.part,
                decoded.at,
                decoded.field,
                decoded.type,
                source.key,
                source.value,
            )
        )
    else:
        group, kind = decoded.key.group, rows.RECORD
        body = rows.record_body(source.key or b"", source.value)
    at = source.offset
    bucket = bucket_of(group, buckets)
    return Row(source.partition, bucket, kind, at, at, source.timestamp, group, -1, 1, body)


def to_batch(found: list[Row]) -> pa.RecordBatch:
    """Lay rows out as Arrow."""
    columns = [[getattr(row, name) for row in found] for name in ROW_SCHEMA.names]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, ROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)
