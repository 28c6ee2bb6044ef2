"""Writes a capture: records sorted through a spool, samples line by line, the folder whole or not at all.

The folder is built beside its place under a hidden name and renamed when finished.
"""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TextIO

import pyarrow.parquet as pq

from rebalance_monitor.cluster.captures.captured import (
    BATCH_ROWS,
    ENDS,
    METADATA_KEY,
    RECORDS,
    SIGHTINGS,
    CaptureError,
    Metadata,
)
from rebalance_monitor.cluster.captures.spool import Spool
from rebalance_monitor.cluster.clients.reader import RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa


class CaptureWriter:
    """Collects records, sightings and samples of ends; `finish` makes the capture. Use as a context manager.

    Left without `finish` nothing remains. Raises CaptureError where `path` is taken or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._work = path.parent / f".{path.name}.partial"
        self._lines: dict[str, TextIO] = {}
        _check_free(path)
        try:
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(parents=True)
        except OSError as error:
            raise CaptureError(f"the capture {path} cannot be written: {error.strerror}") from error
        self._spool = Spool(self._work)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            # Arrow names no file, and neither does a write.
            error.filename = str(self.path)
        with suppress(OSError):
            # What is buffered finds no room either.
            self._close_lines()
        shutil.rmtree(self._work, ignore_errors=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take records in RECORD_SCHEMA: in offset order within a partition, partitions mixed at will."""
        self._spool.add(batch)

    def add_samples(self, lines: Iterable[str]) -> None:
        """Take sightings as JSON lines; called even once with none, the capture has a sightings file."""
        self._add_lines(SIGHTINGS, lines)

    def add_ends(self, lines: Iterable[str]) -> None:
        """Take samples of the topics' ends as JSON lines; called even once with none, they have a file."""
        self._add_lines(ENDS, lines)

    def finish(self, metadata: Metadata) -> None:
        """Write the records with this metadata and put the folder in its place."""
        schema = RECORD_SCHEMA.with_metadata({METADATA_KEY: metadata.to_json().encode()})
        with pq.ParquetWriter(self._work / RECORDS, schema, compression="zstd") as out:
            for batch in self._sorted():
                out.write_batch(batch.replace_schema_metadata(schema.metadata), row_group_size=BATCH_ROWS)
        self._close_lines()
        self._spool.close()
        if self.path.is_dir():
            self.path.rmdir()
        self._work.rename(self.path)

    def _add_lines(self, name: str, lines: Iterable[str]) -> None:
        if name not in self._lines:
            self._lines[name] = (self._work / name).open("w", encoding="utf-8")
        self._lines[name].writelines(f"{line}\n" for line in lines)

    def _close_lines(self) -> None:
        for file in self._lines.values():
            file.close()

    def _sorted(self) -> Iterator[pa.RecordBatch]:
        for partition in self._spool.partitions():
            yield from self._spool.read(partition)


def write_capture(
    path: Path,
    batches: Iterable[pa.RecordBatch],
    metadata: Metadata,
    sightings: Iterable[str] | None = None,
    ends: Iterable[str] | None = None,
) -> None:
    """Write a capture folder from batches in RECORD_SCHEMA and, unless None, samples as JSON lines."""
    with CaptureWriter(path) as writer:
        for batch in batches:
            writer.add(batch)
        if sightings is not None:
            writer.add_samples(sightings)
        if ends is not None:
            writer.add_ends(ends)
        writer.finish(metadata)


def _check_free(path: Path) -> None:
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise CaptureError(f"the capture {path} exists already: remove it or choose another folder")
