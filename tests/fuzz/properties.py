"""What must hold of every record, whatever its bytes: shared by the fuzz target and the mutation run."""

from __future__ import annotations

import time
import timeit
import tracemalloc
from typing import TYPE_CHECKING

import pyarrow as pa

from rebalance_monitor.decoders import Decoded, Failure, Row, decode_batch, decode_record, rows
from tests.oracle.corpus import SCHEMA, TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.fuzz.mutations import Pair

# Bounds with room to spare: what they catch is quadratic time and allocation by a forged count.
ALLOCATED_PER_BYTE, ALLOCATED_BASE = 160, 64 * 1024
SECONDS_PER_BYTE, SECONDS_BASE = 20e-6, 0.02
Read = tuple[object, ...]


class PropertyError(AssertionError):
    """A record that broke a property; the message carries its bytes in hex."""

    def __init__(self, what: str, record: Pair) -> None:
        key, value = record
        texts = ["null" if part is None else part.hex() or "empty" for part in (key, value)]
        super().__init__(f"{what}\nkey   {texts[0]}\nvalue {texts[1]}")


def size_of(record: Pair) -> int:
    """Give the bytes of key and value together."""
    return len(record[0] or b"") + len(record[1] or b"")


def check_record(record: Pair) -> Decoded | Failure:
    """Decode one record: it must come back as a value, in linear time, failures with a place inside it."""
    started = time.thread_time()
    try:
        found = decode_record(*record)
    except BaseException as error:
        raise PropertyError(f"decode_record raised {error!r}", record) from error
    if time.thread_time() - started > _allowed_seconds(record):
        _check_time(record)
    if isinstance(found, Failure):
        _check_failure(found, record)
    elif not isinstance(found, Decoded):
        raise PropertyError(f"decode_record gave {found!r}", record)
    return found


def _allowed_seconds(record: Pair) -> float:
    return SECONDS_BASE + SECONDS_PER_BYTE * size_of(record)


def _check_time(record: Pair) -> None:
    # The garbage collector may have run in the first measurement: the best of three counts.
    best = min(timeit.repeat(lambda: decode_record(*record), time.thread_time, repeat=3, number=1))
    if best > _allowed_seconds(record):
        raise PropertyError(f"decoding took {best:.3f} s of processor time", record)


def _check_failure(found: Failure, record: Pair) -> None:
    part = record[0] if found.part == "key" else record[1]
    if not found.reason or not 0 <= found.at <= len(part or b""):
        raise PropertyError(f"{found} names no place in the record", record)


def check_allocation(record: Pair) -> int:
    """Decode one record under tracemalloc (slow): bytes at the peak, at most a small multiple of its size."""
    tracemalloc.start()
    try:
        decode_record(*record)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > ALLOCATED_BASE + ALLOCATED_PER_BYTE * size_of(record):
        raise PropertyError(f"{peak} bytes allocated for a record of {size_of(record)}", record)
    return peak


def check_batch(records: Sequence[Pair]) -> int:
    """Decode records as one batch: its rows must tell exactly what `decode_record` tells of each record."""
    try:
        found = decode_batch(batch_of(records), 1)
    except BaseException as error:
        raise PropertyError(f"decode_batch raised {error!r}", records[0]) from error
    told = [read for row in found.to_pylist() for read in _of_row(Row(**row))]
    for number, (record, read) in enumerate(zip(records, told, strict=False)):
        if read != _of_record(number, record):
            raise PropertyError(
                f"record {number}: the batch says {read}, the parser {_of_record(number, record)}", record
            )
    if len(told) != len(records):
        raise PropertyError(f"{len(records)} records became {len(told)}", records[0])
    return len(found)


def batch_of(records: Sequence[Pair]) -> pa.RecordBatch:
    """Lay records out as the Kafka source does: one partition, offsets from 0, a millisecond apart."""
    columns = (
        [record[0] for record in records],
        [record[1] for record in records],
        [TOPIC] * len(records),
        [0] * len(records),
        list(range(len(records))),
        list(range(len(records))),
        [0] * len(records),
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _of_record(number: int, record: Pair) -> Read:
    found = decode_record(*record)
    if isinstance(found, Failure):
        group = "" if found.key is None else found.key.group
        return (rows.FAILURE, number, group, found.reason, found.part, found.at, found.field, found.type)
    if found.type in (0, 1) and found.value is not None:
        key, value = found.key, found.value
        place = (key.group, key.topic, key.partition)  # type: ignore[attr-defined] # an OffsetCommitKey
        return (rows.COMMIT_RUN, *place, value.offset, value.commit_timestamp)  # type: ignore[attr-defined] # its value
    return (rows.RECORD, number, found.key.group, *record)


def _of_row(row: Row) -> Iterator[Read]:
    if row.row_kind == rows.COMMIT_RUN:
        run = rows.commit_run(row)
        if run.last_offset - run.first_offset + 1 != run.count or run.record_ts != run.first_offset:
            yield ("a run of", run)
        for topic, partition, offset in run.entries():
            yield (rows.COMMIT_RUN, run.group, topic, partition, offset, run.commit_ts)
    elif row.row_kind == rows.RECORD:
        yield (rows.RECORD, row.first_offset, row.group, *rows.record(row))
    else:
        why = rows.failure(row)
        place = (why.reason, why.part, why.at, why.field, why.type)
        yield (rows.FAILURE, row.first_offset, row.group, *place)
