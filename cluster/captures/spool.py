"""Sorts records by partition and offset on disk: memory stays bounded however much is read.

Records come in offset order within a partition, partitions mixed. Each partition gets a file of Arrow IPC
streams, one after the other; reading them back partition by partition gives the sorted order.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

BUFFER_BYTES = 64 * 1024 * 1024
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Spool:
    """A temporary folder of records by partition; use as a context manager, which removes the folder.

    All batches must have one schema with `partition` and `offset`.
    """

    def __init__(self, parent: Path | None = None, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=".spool-", dir=parent))
        self._buffer: list[pa.RecordBatch] = []
        self._bytes = 0
        self._limit = buffer_bytes
        self._partitions: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch; what is buffered goes to disk above the limit."""
        self._buffer.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered to the partitions' files."""
        if not self._buffer:
            return
        table = pa.Table.from_batches(self._buffer).combine_chunks()
        table = table.take(pc.sort_indices(table, [("partition", "ascending"), ("offset", "ascending")]))
        for partition, start, length in runs(table.column("partition")):
            self._append(partition, table.slice(start, length))
        self._buffer, self._bytes = [], 0

    def partitions(self) -> list[int]:
        """Give the partitions that have records, ascending."""
        self.flush()
        return sorted(self._partitions)

    def read(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the partition's records in offset order."""
        self.flush()
        with pa.OSFile(str(self._file(partition))) as file:
            while file.tell() < file.size():
                with pa.ipc.open_stream(file) as stream:
                    yield from stream

    def _append(self, partition: int, table: pa.Table) -> None:
        self._partitions.add(partition)
        with (
            self._file(partition).open("ab") as sink,
            pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as out,
        ):
            out.write_table(table, max_chunksize=32_768)

    def _file(self, partition: int) -> Path:
        return self._folder / f"{partition}.arrows"


def runs(column: pa.ChunkedArray | pa.Array) -> Iterator[tuple[int, int, int]]:
    """Yield (value, start, length) of each run of equal values."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = pc.run_end_encode(whole)
    start = 0
    for value, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield value, start, end - start
        start = end
