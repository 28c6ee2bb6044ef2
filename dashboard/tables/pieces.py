"""Pieces of a table's files, kept in memory as long as they are asked for: a closed file never changes.

A piece is a row group of a Parquet file; the file's footer says which times it holds, so that a query for the
newest rows reads few pieces. A file that is replaced has another size or age, and is another file here. What
is kept of pieces is bounded in bytes, what is kept of footers is three numbers a piece of what still lies
there. Refuses nothing: a piece whose footer has no times may hold any.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from rebalance_monitor.checkpoints.storage.places import is_remote
from rebalance_monitor.dashboard.tables.parquet import parquet_file
from rebalance_monitor.dashboard.tables.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow.parquet as pq

    from rebalance_monitor.checkpoints.storage.places import Place

_T = TypeVar("_T")
_R = TypeVar("_R")

KEPT_BYTES = 64 * 1024 * 1024
_REMOTE_AT_ONCE = 8
_SMALL_BYTES = 256 * 1024
# A small piece takes as long to open as to read, and is kept the sooner.
_LARGE_ROWS = 500
_NEVER, _EVER = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class File:
    """One closed file. size: bytes, written: ns since epoch."""

    name: str
    size: int
    written: int
    place: Place = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Piece:
    """One row group of a file. first, last: the least and the greatest time of its rows, both in it."""

    file: File
    number: int
    rows: int
    first: int = _NEVER
    last: int = _EVER

    @property
    def is_large(self) -> bool:
        """Whether some of its columns are read much quicker than all."""
        return self.rows >= _LARGE_ROWS


class Pieces:
    """Reads pieces of files of one schema, whose times are in column `by`. Safe to share by threads.

    Blocks for the disk or the network. Raises FileNotFoundError for a file that has gone meanwhile, OSError
    for one that is damaged.
    """

    def __init__(self, schema: pa.Schema, by: str, kept_bytes: int = KEPT_BYTES) -> None:
        self._schema, self._by = schema, by
        # Small pieces take longer to read than as many rows in large ones, which must not push them out.
        self._small, self._large = Shelf[Piece](kept_bytes - kept_bytes // 4), Shelf[Piece](kept_bytes // 4)
        self._footers: dict[str, tuple[File, tuple[Piece, ...]]] = {}
        # Readers that come at once wait for one that reads the footers instead of each reading all.
        self._footers_lock = Lock()

    @property
    def kept_bytes(self) -> int:
        """How much is kept of pieces just now, at most what was allowed."""
        return self._small.held + self._large.held

    def of(self, paths: Iterable[Place]) -> list[Piece]:
        """Return the pieces of files, in no order."""
        found = [_file(path) for path in paths]
        with self._footers_lock:
            unknown = [file for file in found if self._footers.get(file.name, (None,))[0] != file]
            far = bool(unknown) and is_remote(unknown[0].place)
            for file, pieces in zip(unknown, _each(self._read_piece, unknown, far=far), strict=True):
                self._footers[file.name] = file, pieces
            return [piece for file in found for piece in self._footers[file.name][1]]

    def read(self, pieces: Sequence[Piece], columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of pieces in one table, in the order of the pieces; all columns, or these alone."""
        tables = self._kept(pieces)
        missing: defaultdict[File, list[Piece]] = defaultdict(list)
        for piece in pieces:
            if piece not in tables:
                missing[piece.file].append(piece)
        far = bool(missing) and is_remote(pieces[0].file.place)
        for some in _each(partial(self._fetch, columns=columns), list(missing.values()), far=far):
            tables.update(some)
        found = [self._schema.empty_table(), *(tables[piece] for piece in pieces)]
        return pa.concat_tables(found if columns is None else [table.select(columns) for table in found])

    def keep_only(self, names: set[str]) -> bool:
        """Forget what lies in none of the files of these names; whether there was such a file."""
        with self._footers_lock:
            gone = [name for name in self._footers if name not in names]
            pieces = [piece for name in gone for piece in self._footers.pop(name)[1]]
        self._small.drop(pieces)
        self._large.drop(pieces)
        return bool(gone)

    def _kept(self, pieces: Sequence[Piece]) -> dict[Piece, pa.Table]:
        return self._small.find(pieces) | self._large.find(pieces)

    def _keep(self, tables: Mapping[Piece, pa.Table]) -> None:
        self._small.put({piece: table for piece, table in tables.items() if not piece.is_large})
        self._large.put({piece: table for piece, table in tables.items() if piece.is_large})

    def _read_piece(self, file: File) -> tuple[Piece, ...]:
        opened = parquet_file(file.place)
        pieces = pieces_of(file, opened.metadata, self._by)
        if is_remote(file.place) and file.size <= _SMALL_BYTES:
            # It is here already: what is small came as a whole.
            self._keep(self._tables_of(opened, pieces))
        return pieces

    def _fetch(self, pieces: Sequence[Piece], columns: Sequence[str] | None) -> dict[Piece, pa.Table]:
        """Read pieces of one file: all columns, or some, of the large ones."""
        opened = parquet_file(pieces[0].file.place)
        large = [piece for piece in pieces if columns is not None and piece.is_large]
        whole = self._tables_of(opened, [piece for piece in pieces if piece not in large])
        self._keep(whole)
        return whole | self._tables_of(opened, large, columns)

    def _tables_of(
        self, opened: pq.ParquetFile, pieces: Sequence[Piece], columns: Sequence[str] | None = None
    ) -> dict[Piece, pa.Table]:
        names = self._schema.names if columns is None else list(columns)
        schema = pa.schema([self._schema.field(name) for name in names])
        try:
            return {
                piece: fitted(opened.read_row_group(piece.number, columns=names, use_threads=False), schema)
                for piece in pieces
            }
        except ValueError as error:
            raise _damaged(pieces[0].file, error) from error


def pieces_of(file: File, footer: Any, by: str) -> tuple[Piece, ...]:  # noqa: ANN401 - pyarrow has no types
    """Return the pieces that a footer lists; `by`: the column of the times."""
    column = footer.schema.names.index(by) if by in footer.schema.names else None
    return tuple(
        _piece(file, number, footer.row_group(number), column) for number in range(footer.num_row_groups)
    )


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table in this schema: columns it lacks (older versions) are null. Raises ValueError."""
    if table.schema.equals(schema):
        return table
    known = set(table.column_names)
    columns = [
        table[field.name].cast(field.type) if field.name in known else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _piece(file: File, number: int, group: Any, column: int | None) -> Piece:  # noqa: ANN401 - as above
    statistics = group.column(column).statistics if column is not None else None
    if statistics is None or not statistics.has_min_max or statistics.null_count:
        return Piece(file, number, group.num_rows)
    return Piece(file, number, group.num_rows, statistics.min, statistics.max)


def _file(path: Place) -> File:
    stat = path.stat()
    return File(str(path), stat.st_size, stat.st_mtime_ns, path)


def _damaged(file: File, error: Exception) -> OSError:
    return OSError(f"{file.name} is damaged: {error}")


def _each(work: Callable[[_T], _R], items: Sequence[_T], *, far: bool) -> list[_R]:
    """Do the work for each; what has to be fetched is fetched several at once."""
    if not far or len(items) < 2:  # noqa: PLR2004 - one needs no helpers
        return [work(item) for item in items]
    with ThreadPoolExecutor(_REMOTE_AT_ONCE) as pool:
        return list(pool.map(work, items))
