"""The rows that cross from the decode stage to the coordinator: one Arrow schema, three kinds of row.

- `commit_run`: adjacent commits (types 0, 1, with a value) of one group with one commit timestamp, which one
  OffsetCommit request writes. Kept: group, commit and record time, first and last offset, every topic,
  partition and committed offset. Dropped: leader epoch, metadata, expiry and topic id of each commit.
- `record`: any other readable record, whole: key and value bytes.
- `failure`: an unreadable record: why, where, and its bytes, each cut at 64 KiB.

All columns are non-null, with -1 or "" for absent. Bodies start with a version byte; integers are big endian.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from struct import Struct, pack, unpack_from

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

BODY_VERSION = 1
COMMIT_RUN, RECORD, FAILURE = "commit_run", "record", "failure"
# Of an unreadable record at most this much of the key and of the value is kept.
RAW_LIMIT = 64 * 1024
SAME_TOPIC = 0xFFFF

ROW_SCHEMA = pa.schema(
    [
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("row_kind", pa.string(), nullable=False),
        pa.field("first_offset", pa.int64(), nullable=False),
        pa.field("last_offset", pa.int64(), nullable=False),
        pa.field("record_ts", pa.int64(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("commit_ts", pa.int64(), nullable=False),
        pa.field("count", pa.int32(), nullable=False),
        pa.field("body", pa.binary(), nullable=False),
    ]
)

_RUN_HEAD = Struct(">BI")
_RUN_HEAD_SIZE = _RUN_HEAD.size
_RECORD_HEAD = Struct(">BI")


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row; fields as in `ROW_SCHEMA`, timestamps in ms."""

    shard: int
    bucket: int
    row_kind: str
    first_offset: int
    last_offset: int
    record_ts: int
    group: str
    commit_ts: int
    count: int
    body: bytes


class RowError(ValueError):
    """A row body that this version of the code did not write."""


@dataclass(frozen=True, slots=True)
class CommitRun:
    """The commits of one `commit_run` row.

    `partitions_bytes` (T) equal to the run before: the same partitions; `offsets_bytes` (O) equal too:
    nothing advanced. `record_ts` is the first record's.
    """

    group: str
    commit_ts: int
    record_ts: int
    first_offset: int
    last_offset: int
    count: int
    partitions_bytes: bytes
    offsets_bytes: bytes

    def partitions(self) -> Iterator[tuple[str, int]]:
        """Yield (topic, partition) of each commit, in record order."""
        return listed_partitions(self.partitions_bytes)

    def offsets(self) -> tuple[int, ...]:
        """Return the committed offset of each commit, in record order."""
        return unpack_from(f">{self.count}q", self.offsets_bytes)

    def entries(self) -> tuple[tuple[str, int, int], ...]:
        """Return (topic, partition, committed offset) of each commit, in record order."""
        return tuple((t, p, o) for (t, p), o in zip(self.partitions(), self.offsets(), strict=True))


@dataclass(frozen=True, slots=True)
class FailureRow:
    """The content of a `failure` row; `raw_key` and `raw_value` are None where the record had none."""

    reason: str
    part: str
    at: int
    field: str
    type: int | None
    raw_key: bytes | None
    raw_value: bytes | None


def made_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of a batch of `ROW_SCHEMA`."""
    # Through numpy: values of Python's own, made in C.
    columns = (column.to_numpy(zero_copy_only=False).tolist() for column in batch.columns)
    return starmap(Row, zip(*columns, strict=True))


def unreadable(batch: pa.RecordBatch) -> Iterator[str]:
    """Yield why, of each record of a batch of `ROW_SCHEMA` that could not be read."""
    some = batch.filter(pc.equal(batch.column("row_kind"), FAILURE))
    return (failure(row).reason for row in made_rows(some))


def run_body(partitions: bytes, offsets: bytes) -> bytes:
    """Make the body of a `commit_run` row from T and O."""
    return _RUN_HEAD.pack(BODY_VERSION, len(partitions)) + partitions + offsets


def partition_entry(topic: bytes | None, partition: int) -> bytes:
    """Make one entry of T; `topic` None says "as the one before"."""
    if topic is None:
        return pack(">Hi", SAME_TOPIC, partition)
    return pack(">H", len(topic)) + topic + pack(">i", partition)


def commit_run(row: Row) -> CommitRun:
    """Open a `commit_run` row. Raises `RowError` for another version's body."""
    partitions, offsets = run_parts(row)
    return CommitRun(
        row.group,
        row.commit_ts,
        row.record_ts,
        row.first_offset,
        row.last_offset,
        row.count,
        partitions,
        offsets,
    )


def run_parts(row: Row) -> tuple[bytes, bytes]:
    """Give T and O of a `commit_run` row and nothing else: what the fold of every run needs, and cheap.

    Raises `RowError` for another version's body.
    """
    body = row.body
    if row.row_kind != COMMIT_RUN or not body or body[0] != BODY_VERSION:
        _check(row, COMMIT_RUN, body)
    end = _RUN_HEAD_SIZE + _RUN_HEAD.unpack_from(body)[1]
    return body[_RUN_HEAD_SIZE:end], body[end:]


def listed_partitions(partitions: bytes) -> Iterator[tuple[str, int]]:
    """Yield the (topic, partition) pairs that T lists, in its order."""
    at, topic = 0, ""
    while at < len(partitions):
        (length,) = unpack_from(">H", partitions, at)
        at += 2
        if length != SAME_TOPIC:
            topic = partitions[at : at + length].decode()
            at += length
        yield topic, unpack_from(">i", partitions, at)[0]
        at += 4


def record_body(key: bytes, value: bytes | None) -> bytes:
    """Make the body of a `record` row."""
    head = _RECORD_HEAD.pack(BODY_VERSION, len(key))
    return b"".join((head, key, b"\0" if value is None else b"\1", value or b""))


def record(row: Row) -> tuple[bytes, bytes | None]:
    """Open a `record` row: (key, value or None). Raises `RowError` for another version's body."""
    body = bytes(row.body)
    _check(row, RECORD, body)
    start = _RECORD_HEAD.size
    end = start + _RECORD_HEAD.unpack_from(body)[1]
    return body[start:end], body[end + 1 :] if body[end] else None


def failure_body(found: FailureRow) -> bytes:
    """Make the body of a `failure` row."""
    content = {
        "reason": found.reason,
        "part": found.part,
        "at": found.at,
        "field": found.field,
        "type": found.type,
        "key": _raw(found.raw_key),
        "value": _raw(found.raw_value),
    }
    return bytes((BODY_VERSION,)) + json.dumps(content, separators=(",", ":")).encode()


def failure(row: Row) -> FailureRow:
    """Open a `failure` row. Raises `RowError` for another version's body."""
    body = bytes(row.body)
    _check(row, FAILURE, body)
    content = json.loads(body[1:])
    return FailureRow(
        content["reason"],
        content["part"],
        content["at"],
        content["field"],
        content["type"],
        _unraw(content["key"]),
        _unraw(content["value"]),
    )


def _raw(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data[:RAW_LIMIT]).decode()


def _unraw(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _check(row: Row, kind: str, body: bytes) -> None:
    if row.row_kind != kind:
        raise RowError(f"a {row.row_kind} row was opened as {kind}")
    if not body or body[0] != BODY_VERSION:
        raise RowError(f"{kind} row with body version {body[:1].hex() or 'none'}; known: {BODY_VERSION}")
