"""Arrow tables in memory, those used last, within a bound of bytes."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

K = TypeVar("K")

# Arrow's own objects around the many small buffers of a table of nested columns, as measured.
_OVERHEAD_BYTES = 24 * 1024


class Shelf(Generic[K]):
    """The tables used last, at most `room` bytes of them. Safe to share by threads."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._tables: OrderedDict[K, tuple[pa.Table, int]] = OrderedDict()
        self._lock = Lock()
        self.held = 0

    def find(self, keys: Iterable[K]) -> dict[K, pa.Table]:
        """Return the tables that lie here."""
        with self._lock:
            found = {key: self._tables[key][0] for key in keys if key in self._tables}
            for key in found:
                self._tables.move_to_end(key)
        return found

    def put(self, tables: Mapping[K, pa.Table]) -> None:
        """Keep tables, if need be in the place of others."""
        sizes = {key: table.nbytes + _OVERHEAD_BYTES for key, table in tables.items()}
        with self._lock:
            for key, table in tables.items():
                # What would push out most of the others is read anew each time.
                if sizes[key] <= self._room // 4:
                    self._drop(key)
                    self._tables[key] = table, sizes[key]
                    self.held += sizes[key]
            while self.held > self._room:
                self._drop(next(iter(self._tables)))

    def drop(self, keys: Iterable[K]) -> None:
        """Keep these no longer."""
        with self._lock:
            for key in keys:
                self._drop(key)

    def _drop(self, key: K) -> None:
        self.held -= self._tables.pop(key, (None, 0))[1]
