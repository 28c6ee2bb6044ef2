"""Parquet files of a storage folder, wherever it lies: opened, and made as bytes.

Files are read as a whole where they are remote: they are small, and one request is quicker than several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_monitor.checkpoints.places import is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.checkpoints.places import Place


def parquet_file(path: Place) -> pq.ParquetFile:
    """Open the Parquet file at `path`. Raises OSError, pa.ArrowInvalid for a damaged one."""
    return pq.ParquetFile(pa.BufferReader(path.read_bytes()) if is_remote(path) else str(path))


def sources_of(paths: Sequence[Place]) -> tuple[list[str], Any]:
    """Return the names of files of one table as pyarrow's data sets know them, and their file system."""
    if paths and is_remote(paths[0]):
        return [path.key for path in paths if is_remote(path)], paths[0].remote.filesystem
    return [str(path) for path in paths], None


def parquet_bytes(table: pa.Table) -> bytes:
    """Return the table as a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content
