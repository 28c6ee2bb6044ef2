"""Upkeep of a table of many small files: merge them, and delete old days. Safe beside a running job.

Only files of committed batches are merged: those a batch may still replace stay. A merge is noted in
the day's folder before it shows: whatever kills it, `mend` either undoes it (nothing showed yet) or finishes
it, so that no row is lost or stays twice. Between showing the merged file and deleting the small ones, for a
few milliseconds, a reader may see rows twice; `id` tells.
One upkeep at a time: callers hold `table_lock`.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_monitor.checkpoints.errors import FolderInUseError
from rebalance_monitor.checkpoints.storage.files import locked, remove_folder, replace_file, sync_folder
from rebalance_monitor.checkpoints.storage.places import is_remote
from rebalance_monitor.checkpoints.storage.sealed import parsed
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.dashboard.tables.files import files, is_committed
from rebalance_monitor.dashboard.tables.parquet import parquet_bytes, parquet_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rebalance_monitor.checkpoints.storage.places import Place

# Findings are much alike: forty times as many bytes stand in memory while such a file is made, in the driver.
SMALL_BYTES = 2 * 1024 * 1024
NOTE = ".merge.json"


@dataclass(frozen=True, slots=True)
class Report:
    """What an upkeep did: small files merged, into how many; days deleted; rows rewritten."""

    merged: int = 0
    into: int = 0
    rows: int = 0
    days_deleted: int = 0


@contextmanager
def table_lock(tables: Place) -> Iterator[None]:
    """Hold the tables below `tables` for upkeep. Raises ConfigError at once where another upkeep does."""
    try:
        with locked(tables):
            yield
    except FolderInUseError:
        raise ConfigError(f"another upkeep of the tables in {tables} is running; it ends by itself") from None


def merge_small(
    folder: Place, schema: pa.Schema, committed: Mapping[str, int], small_bytes: int = SMALL_BYTES
) -> Report:
    """Merge each day's small files, up to `small_bytes` a file. `committed`: query id -> last batch.

    Raises OSError; what was merged until then stays merged.
    """
    mend(folder)
    merged, into, rows = 0, 0, 0
    for day in sorted(folder.glob("date=*"), key=str):
        for some in _batches(day, committed, small_bytes):
            rows += _merge(day, some, schema)
            merged, into = merged + len(some), into + 1
    if merged:
        # The job keeps running for months: what a merge took is not its to keep.
        pa.default_memory_pool().release_unused()
    return Report(merged, into, rows)


def delete_days(folder: Place, keep_days: int, now: datetime) -> int:
    """Delete the days before the last `keep_days` (UTC, today counts); return how many. Raises OSError."""
    first = (now.astimezone(UTC) - timedelta(days=keep_days - 1)).date().isoformat()
    old = [day for day in folder.glob("date=*") if day.name.removeprefix("date=") < first]
    for day in old:
        remove_folder(day)
    return len(old)


def has_unfinished(folder: Place) -> bool:
    """Whether a merge was cut short, or goes on."""
    return any(folder.glob(f"date=*/{NOTE}"))


def mend(folder: Place) -> int:
    """Undo or finish merges that were cut short; return how many. Raises OSError."""
    notes = list(folder.glob(f"date=*/{NOTE}"))
    for note in notes:
        body = parsed(note.read_bytes())
        _finish(note.parent, body["into"], body["files"])
    return len(notes)


def _batches(day: Place, committed: Mapping[str, int], small_bytes: int) -> Iterator[list[Place]]:
    """Yield the small files of one day in the order of writing, each time as many as fit into one."""
    taken: list[Place] = []
    size = 0
    for path in sorted(files(day.parent, day.name), key=lambda path: path.stat().st_mtime_ns):
        bytes_ = path.stat().st_size
        if bytes_ >= small_bytes or not is_committed(path, committed):
            continue
        if size + bytes_ > small_bytes:
            if len(taken) > 1:
                yield taken
            taken, size = [], 0
        taken.append(path)
        size += bytes_
    if len(taken) > 1:
        yield taken


def _merge(day: Place, some: Sequence[Place], schema: pa.Schema) -> int:
    """Put one file in the place of some; returns its rows."""
    names = [path.name for path in some]
    # No batch's name ends like this, so the job never takes the file for one of its own.
    name = f"merged-{sha256(json.dumps(names).encode()).hexdigest()[:16]}-m.parquet"
    newest = max(path.stat().st_mtime_ns for path in some)
    tables = [parquet_file(path).read() for path in some]
    # Files of older versions may lack columns.
    whole = pa.concat_tables([schema.empty_table(), *tables], promote_options="default")
    whole = whole.take(pc.sort_indices(whole, [("at", "ascending")]))
    content = parquet_bytes(whole)
    replace_file(day / NOTE, json.dumps({"into": name, "files": names}).encode())
    replace_file(day / name, content)
    if not is_remote(day):
        # A query that reads the newest files first need not read old rows again.
        os.utime(str(day / name), ns=(newest, newest))
    _finish(day, name, names)
    return int(whole.num_rows)


def _finish(day: Place, name: str, names: Sequence[str]) -> None:
    """Delete the small files if the merged one shows, else its draft; then the note."""
    shows = (day / name).exists()
    if shows:
        sync_folder(day)
    for gone in map(day.__truediv__, names) if shows else day.glob(f".{name}*.draft"):
        gone.unlink(missing_ok=True)
    sync_folder(day)
    (day / NOTE).unlink(missing_ok=True)
