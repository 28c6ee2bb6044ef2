"""Parquet tables written batch by batch, each batch exactly once.

A table is a folder with Hive partitions `date=YYYY-MM-DD` (UTC). A batch writes at most one file per date,
named by (query id, batch id), which appears by rename. What a batch wrote that was never committed goes
before it runs again, at the next start at the latest. Readers see whole files only.
`files` also knows a Delta table, whose log says which files count (`delta_log`); nothing here writes one.
Refuses a folder of the other format; raises OSError as the file system gives it.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.dashboard.tables.delta_log import is_delta, read_log
from rebalance_monitor.dashboard.tables.parquet import ROWS_OF_GROUP, parquet_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rebalance_monitor.checkpoints.storage.places import Place

T = TypeVar("T")
SUFFIX = ".parquet"
_TRIES = 3


def date_of(at: int) -> str:
    """Return the UTC date of `at` (ms since epoch); times no calendar has (broken records) are 1970-01-01."""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return "1970-01-01"


def file_name(query_id: str, batch_id: int) -> str:
    """Return the name that makes a batch's file its own."""
    return f"{query_id}-{batch_id:010d}{SUFFIX}"


def write_rows(
    folder: Place, schema: pa.Schema, rows: Iterable[tuple[int, dict[str, Any]]], name: str
) -> list[Place]:
    """Write rows, each with its time (ms), to one file `name` per date; return the files."""
    waiting: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    tables: defaultdict[str, list[pa.Table]] = defaultdict(list)
    for at, row in rows:
        date = date_of(at)
        waiting[date].append(row)
        # Rows take several times what they take as a table, and a long history has many.
        if len(waiting[date]) >= ROWS_OF_GROUP:
            tables[date].append(table_of(waiting.pop(date), schema))
    for date, left in waiting.items():
        tables[date].append(table_of(left, schema))
    return [
        _write(folder / f"date={date}", pa.concat_tables(found), name)
        for date, found in sorted(tables.items())
    ]


def forget_batch(folder: Place, query_id: str, batch_id: int) -> None:
    """Delete what a batch wrote: it runs again, and may have no findings of some day, or none at all."""
    for path in folder.glob(f"date=*/{file_name(query_id, batch_id)}"):
        path.unlink(missing_ok=True)


def forget_uncommitted(folder: Place, batches: Mapping[str, int]) -> list[Place]:
    """Delete what no committed batch wrote: drafts, and files past `batches` (query id -> last batch)."""
    gone = list(folder.glob("date=*/.*.draft"))
    gone += [path for path in files(folder) if not is_committed(path, batches)]
    for path in gone:
        path.unlink(missing_ok=True)
    return gone


def files(folder: Place, day: str = "date=*") -> Iterator[Place]:
    """Return the files of the table in `folder`, or those of one day (`date=…`), in no order.

    Raises OSError for a Delta table whose log cannot be read.
    """
    if not is_delta(folder):
        return iter(folder.glob(f"{day}/[!.]*{SUFFIX}"))
    return (folder / name for name in read_log(folder).files if fnmatchcase(name.partition("/")[0], day))


def read_again(read: Callable[[], T]) -> T:
    """Return what `read` finds in a table's files; anew where one was merged or deleted since it was listed.

    Raises what `read` does: FileNotFoundError where it happens too often.
    """
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError):
            return read()
    return read()


def require_format(folder: Place, *, delta: bool) -> None:
    """Raise ConfigError where the table in `folder` is there already and of the other format."""
    if delta and not is_delta(folder) and any(files(folder)):
        raise ConfigError(
            f"{folder} holds a Parquet table, and `tables.format` is delta: move the folder away, make it a "
            "Delta table (CONVERT TO DELTA, partitioned by date DATE), or set `tables.format: parquet`."
        )
    if not delta and is_delta(folder):
        raise ConfigError(
            f"{folder} holds a Delta table, and `tables.format` is parquet: set `tables.format: delta`, "
            "or move the folder away."
        )


def is_committed(path: Place, batches: Mapping[str, int]) -> bool:
    """Whether no batch will replace this file; `batches`: query id -> last committed batch."""
    query_id, _, batch = path.name.removesuffix(SUFFIX).rpartition("-")
    # A file that no batch named (compacted by hand, say) is none of ours to delete.
    return not batch.isdigit() or int(batch) <= batches.get(query_id, -1)


def _write(folder: Place, table: pa.Table, name: str) -> Place:
    make_folder(folder)
    path = folder / name
    replace_file(path, parquet_bytes(table))
    return path


def table_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return the rows as a table; whole numbers that no column can hold become the largest it can."""
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (OverflowError, pa.ArrowInvalid):
        # Differences of forged times have no place in a column: the batch must not fail for ever over them.
        row = pa.struct(schema)
        return pa.Table.from_pylist([_bounded(one, row) for one in rows], schema=schema)


def _bounded(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - whatever a row holds
    """Return `value` with every whole number within the range of its column."""
    if isinstance(value, dict):
        return {name: _bounded(value[name], kind.field(name).type) for name in value}
    if isinstance(value, list):
        return [_bounded(one, kind.value_type) for one in value]
    if isinstance(value, int) and pa.types.is_signed_integer(kind):
        limit = 1 << kind.bit_width - 1
        return max(-limit, min(value, limit - 1))
    return value
