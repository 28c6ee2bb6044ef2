"""The quarantine table: a bounded sample, newest kept, of the records that could not be read.

It exists to answer "what are these records?"; how many there are is what `unreadable_records` findings
count. The table keeps at most `limit` rows and `FILES_KEPT` files: whole files go, oldest first. A row lies
in the folder of the day on which it was read: what the record says of its own time may be forged.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from rebalance_monitor.dashboard.tables.files import file_name, files, write_rows
from rebalance_monitor.dashboard.tables.parquet import parquet_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.checkpoints.storage.places import Place

ROWS_KEPT = 10_000
FILES_KEPT = 1_000

QUARANTINE_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("group", pa.string()),
        ("reason", pa.string()),
        ("part", pa.string()),
        ("at", pa.int32()),
        ("field", pa.string()),
        ("type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One record that could not be read. `timestamp` is the record's (ms), `at` the byte that failed.

    key and value are the raw bytes, None for null, each cut at 64 KiB; `group` is "" where unknown.
    """

    partition: int
    offset: int
    timestamp: int
    group: str
    reason: str
    part: str
    at: int
    field: str
    type: int | None
    key: bytes | None
    value: bytes | None


def write_quarantine(
    folder: Place,
    sample: Sequence[Unreadable],
    query_id: str,
    batch_id: int,
    wall: int,
    limit: int = ROWS_KEPT,
) -> list[Place]:
    """Write a batch's sample, read at `wall` (ms), and delete the oldest files past `limit` rows."""
    newest_first = sorted(sample, key=lambda row: (row.timestamp, row.offset), reverse=True)
    rows = ((wall, asdict(row)) for row in newest_first[:limit])
    written = write_rows(folder, QUARANTINE_SCHEMA, rows, file_name(query_id, batch_id))
    if written:
        _prune(folder, limit)
    return written


def _prune(folder: Place, limit: int) -> None:
    kept = 0
    newest_first = sorted(files(folder), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for number, path in enumerate(newest_first):
        kept += _rows(path) if number < FILES_KEPT else limit
        if kept > limit:
            path.unlink()


@lru_cache(maxsize=ROWS_KEPT)
def _rows(path: Place) -> int:
    """Return the rows of one file, asked for once: every batch counts them all, over the network perhaps."""
    return int(parquet_file(path).metadata.num_rows)
