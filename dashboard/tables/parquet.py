"""Parquet files of a storage folder, wherever it lies: opened, and made as bytes.

Files are read as a whole where they are remote: they are small, and one request is quicker than several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_monitor.checkpoints.storage.places import is_remote

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.storage.places import Place

# A query for few rows of a merged file reads only the row groups that hold them.
ROWS_OF_GROUP = 1_000
FEW_ROWS = 20
"""A file with fewer is not compressed: that takes thrice as long to write, and is not smaller."""


def parquet_file(path: Place) -> pq.ParquetFile:
    """Open the Parquet file at `path`. Raises OSError, which names a damaged one."""
    try:
        return pq.ParquetFile(pa.BufferReader(path.read_bytes()) if is_remote(path) else str(path))
    except ValueError as error:
        raise OSError(f"{path} is damaged: {error}") from error


def parquet_bytes(table: pa.Table) -> bytes:
    """Return the table as a Parquet file."""
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, table.schema, len(table)) as writer:
        writer.write_table(table, ROWS_OF_GROUP)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def parquet_writer(sink: pa.BufferOutputStream, schema: pa.Schema, rows: int) -> pq.ParquetWriter:
    """Return a writer of a Parquet file with so many `rows`; use as a context manager."""
    return pq.ParquetWriter(sink, schema, compression="zstd" if rows >= FEW_ROWS else "none")
