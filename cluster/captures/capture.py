"""Captures: the offsets topic in a folder, with the Kafka source's own columns.

`records.parquet` (zstd, sorted by partition and offset, no row group spans two partitions) and, where the
probe ran, `sightings.jsonl` and `ends.jsonl`. What the records come from stands in the Parquet metadata as
one JSON object. A bare Parquet file is taken too: it has no samples, and what its metadata lacks has
defaults. Reading and writing hold a few batches at a time. Refuses, with a CaptureError, what is neither.
"""

from __future__ import annotations

from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_monitor.cluster.captures.captured import (
    BATCH_ROWS,
    DAMAGE,
    ENDS,
    FORMAT,
    METADATA_KEY,
    RECORDS,
    SIGHTINGS,
    CaptureError,
    Metadata,
)
from rebalance_monitor.cluster.captures.recording import CaptureWriter, write_capture
from rebalance_monitor.cluster.captures.spool import Spool
from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC
from rebalance_monitor.cluster.clients.reader import RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Capture", "CaptureError", "CaptureWriter", "Metadata", "conform", "read_capture", "write_capture"]

Ints = npt.NDArray[np.int64]
SIGHTING, SAMPLE_OF_ENDS = "sighting", "sample of ends"
"""What a line of each file is, as its errors say it."""

NEEDED = ("key", "value", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class Capture:
    """An opened capture: `records` is the Parquet file, `sightings` and `ends` JSON lines or None."""

    path: Path
    records: Path
    sightings: Path | None
    ends: Path | None
    metadata: Metadata
    rows: int

    def batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield all records in file order, in RECORD_SCHEMA. Raises CaptureError where damaged."""
        yield from _read(self, None, batch_rows)

    def places(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield partition, offset and timestamp (ms) of all records, many at a time, without their bytes."""
        columns = ("partition", "offset", "timestamp")
        with _damage_reported(self), pq.ParquetFile(self.records) as file:
            for batch in file.iter_batches(columns=list(columns)):
                kinds = [RECORD_SCHEMA.field(name).type for name in columns]
                arrays = [
                    pc.cast(batch.column(n), k, safe=False) for n, k in zip(columns, kinds, strict=True)
                ]
                partition, offset, stamp = (pc.cast(array, pa.int64()).to_numpy() for array in arrays)
                yield partition, offset, stamp

    def sample_lines(self) -> Iterator[str]:
        """Yield the probe's sightings as JSON lines, in order of `at`; none if it did not run."""
        return _sampled(self.sightings, SIGHTING)

    def ends_lines(self) -> Iterator[str]:
        """Yield the samples of topics' ends as JSON lines, in order of `at`; none where none were taken."""
        return _sampled(self.ends, SAMPLE_OF_ENDS)

    @contextmanager
    def by_partition(self, batch_rows: int = BATCH_ROWS) -> Iterator[dict[int, Iterator[pa.RecordBatch]]]:
        """Give a stream of records for each partition, in offset order; they may be read side by side.

        A file that is not laid out by partition is sorted into a temporary folder first. The streams raise
        CaptureError where offsets do not rise.
        """
        groups = _row_groups(self)
        if groups is not None:
            yield {p: _rising(self, p, _read(self, mine, batch_rows)) for p, mine in groups.items()}
            return
        with Spool() as spool:
            for batch in self.batches(batch_rows):
                spool.add(batch)
            yield {p: _rising(self, p, spool.read(p)) for p in spool.partitions()}


def read_capture(path: Path) -> Capture:
    """Open a capture folder or a bare Parquet file. Raises CaptureError, also for a newer format."""
    folder = path.is_dir()
    records = path / RECORDS if folder else path
    if not records.is_file():
        missing = f"has no {RECORDS}" if folder else "does not exist"
        raise CaptureError(f"the capture {path} {missing}: give a capture folder or a Parquet file")
    try:
        with pq.ParquetFile(records) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise CaptureError(
            f"the capture {path} cannot be read as Parquet: {str(error).rstrip('.')}. Make one with "
            "`capture`: dumps of Kafka's own tools, and packed files, are none"
        ) from error
    if lacking := [name for name in NEEDED if name not in schema.names]:
        raise CaptureError(f"the capture {path} lacks the columns {', '.join(lacking)} of the Kafka source")
    if twice := [name for name in RECORD_SCHEMA.names if schema.names.count(name) > 1]:
        raise CaptureError(f"the capture {path} has the columns {', '.join(twice)} more than once: keep one")
    sightings, ends = (
        path / name if folder and (path / name).is_file() else None for name in (SIGHTINGS, ENDS)
    )
    return Capture(path, records, sightings, ends, _metadata(path, schema), rows)


def conform(batch: pa.RecordBatch, topic: str = OFFSETS_TOPIC) -> pa.RecordBatch:
    """Give a batch with at least the needed columns in RECORD_SCHEMA; ValueError where not castable."""
    rows = batch.num_rows
    columns: list[pa.Array] = []
    for want in RECORD_SCHEMA:
        if want.name in batch.schema.names:
            column = batch.column(want.name)
            if column.type != want.type:
                column = pc.cast(column, want.type, safe=not pa.types.is_timestamp(want.type))
        else:
            column = pa.repeat(pa.scalar(topic if want.name == "topic" else 0, want.type), rows)
        if not want.nullable and column.null_count:
            raise ValueError(f"the column {want.name} has nulls")
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def _metadata(path: Path, schema: pa.Schema) -> Metadata:
    text = (schema.metadata or {}).get(METADATA_KEY)
    if text is None:
        return Metadata()
    try:
        found = Metadata.from_json(text)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"the capture {path} has damaged metadata: {error}") from error
    if found.format > FORMAT:
        raise CaptureError(
            f"the capture {path} has format {found.format}, this version knows {FORMAT}: use a newer version"
        )
    return found


def _read(capture: Capture, row_groups: list[int] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
    with _damage_reported(capture), pq.ParquetFile(capture.records, pre_buffer=False) as file:
        names = [name for name in RECORD_SCHEMA.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_rows, row_groups=row_groups, columns=names):
            yield conform(batch, capture.metadata.topic)


@contextmanager
def _damage_reported(capture: Capture) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CaptureError(f"the capture {capture.path} is damaged: {error}") from error


def _row_groups(capture: Capture) -> dict[int, list[int]] | None:
    """Give the row groups of each partition by the file's statistics, None where one mixes partitions."""
    found: dict[int, list[int]] = {}
    with pq.ParquetFile(capture.records) as file:
        column = file.schema_arrow.get_field_index("partition")
        if not pa.types.is_integer(file.schema_arrow.field(column).type):
            # What else stands there is cast, or refused, as it is read.
            return None
        nested = file.metadata.num_columns != len(file.schema_arrow.names)
        for number in range(file.num_row_groups):
            statistics: Any = None if nested else file.metadata.row_group(number).column(column).statistics
            if statistics is None or not statistics.has_min_max or statistics.min != statistics.max:
                return None
            found.setdefault(int(statistics.min), []).append(number)
    return dict(sorted(found.items()))


def _rising(capture: Capture, partition: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    last = -1
    for batch in batches:
        offsets = batch.column("offset").to_numpy()
        steps = np.diff(offsets, prepend=last)
        if len(offsets) and steps.min() <= 0:
            first = int(np.argmax(steps <= 0))
            wrong = (
                f"has offset {offsets[first]} of partition {partition} twice: give one capture of one cluster"
                if steps[first] == 0
                else f"is not in offset order in partition {partition}: sort it first"
            )
            raise CaptureError(f"the capture {capture.path} {wrong}")
        last = int(offsets[-1]) if len(offsets) else last
        yield batch


class _Timed(msgspec.Struct):
    at: int


def _sampled(path: Path | None, what: str) -> Iterator[str]:
    """Yield the lines of samples by time: a clock that was set back, or another tool, left them unsorted."""
    if path is None:
        return
    times, places, place = array("q"), array("q"), 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                times.append(msgspec.json.decode(line.decode(), type=_Timed).at)
            except DAMAGE as error:
                raise CaptureError(f"{path}, line {number} is no {what}: {error}") from error
            places.append(place)
            place += len(line)
        for number in np.argsort(np.frombuffer(times, np.int64), kind="stable").tolist():
            lines.seek(places[number])
            yield lines.readline().decode().rstrip("\n")
