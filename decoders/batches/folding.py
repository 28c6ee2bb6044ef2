"""Folds records to rows one by one: the readable definition of what `decode_batch` gives.

Small batches are folded this way; `batch` does the same with numpy for large ones.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rebalance_monitor.decoders import rows
from rebalance_monitor.decoders.hashing import bucket_of
from rebalance_monitor.decoders.record import Decoded, Failure, decode_record
from rebalance_monitor.decoders.records.classic import OffsetCommitKey, OffsetCommitValue
from rebalance_monitor.decoders.rows import Row


@dataclass(frozen=True, slots=True)
class Source:
    """One record as the Kafka source gives it; `timestamp` in ms."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class _Run:
    """A commit run that may still grow."""

    source: Source
    group: str
    commit_ts: int
    last_offset: int = -1
    topic: str | None = None
    partitions: list[bytes] = field(default_factory=list)
    offsets: list[bytes] = field(default_factory=list)

    def add(self, key: OffsetCommitKey, value: OffsetCommitValue, offset: int) -> None:
        topic = None if key.topic == self.topic else key.topic.encode()
        self.partitions.append(rows.partition_entry(topic, key.partition))
        self.offsets.append(value.offset.to_bytes(8, "big", signed=True))
        self.topic, self.last_offset = key.topic, offset

    def row(self, buckets: int) -> Row:
        return Row(
            self.source.partition,
            bucket_of(self.group, buckets),
            rows.COMMIT_RUN,
            self.source.offset,
            self.last_offset,
            self.source.timestamp,
            self.group,
            self.commit_ts,
            len(self.offsets),
            rows.run_body(b"".join(self.partitions), b"".join(self.offsets)),
        )


def fold(records: Iterable[Source], buckets: int) -> Iterator[Row]:
    """Fold records, sorted by partition and offset, to rows."""
    run: _Run | None = None
    for source in records:
        decoded = decode_record(source.key, source.value)
        commit = as_commit(decoded)
        if run is not None and not (commit and _continues(run, source, *commit)):
            yield run.row(buckets)
            run = None
        if commit is None:
            yield single(source, decoded, buckets)
            continue
        key, value = commit
        run = run or _Run(source, key.group, value.commit_timestamp)
        run.add(key, value, source.offset)
    if run is not None:
        yield run.row(buckets)


def as_commit(found: Decoded | Failure) -> tuple[OffsetCommitKey, OffsetCommitValue] | None:
    """Return key and value of a commit that is no tombstone, else None."""
    match found:
        case Decoded(key=OffsetCommitKey() as key, value=OffsetCommitValue() as value):
            return key, value
        case _:
            return None


def _continues(run: _Run, source: Source, key: OffsetCommitKey, value: OffsetCommitValue) -> bool:
    here = (source.partition, key.group, value.commit_timestamp)
    return here == (run.source.partition, run.group, run.commit_ts)


def single(source: Source, decoded: Decoded | Failure, buckets: int) -> Row:
    """Make the row of a record that is no commit."""
    if isinstance(decoded, Failure):
        group = decoded.key.group if decoded.key is not None else ""
        kind, body = rows.FAILURE, rows.failure_body(_failure(source, decoded))
    else:
        group = decoded.key.group
        kind, body = rows.RECORD, rows.record_body(source.key or b"", source.value)
    bucket, at = bucket_of(group, buckets), source.offset
    return Row(source.partition, bucket, kind, at, at, source.timestamp, group, -1, 1, body)


def _failure(source: Source, found: Failure) -> rows.FailureRow:
    why = (found.reason, found.part, found.at, found.field, found.type)
    return rows.FailureRow(*why, source.key, source.value)
