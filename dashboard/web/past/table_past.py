"""The findings table as the API's past: read from its newest piece on, until nothing older can be wanted.

Which files there are is asked each time; what they hold is read once (`pieces`). A merge shows its file
before it deletes the small ones: when a file has gone the table is listed once more, so that no row is
missed, and rows that are there twice meanwhile have one id.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_monitor.dashboard.tables.files import date_of, files, read_again
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA, finding_of
from rebalance_monitor.dashboard.tables.pieces import KEPT_BYTES, Pieces
from rebalance_monitor.dashboard.web.past.past import newest
from rebalance_monitor.dashboard.web.past.sieve import columns, fitting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.tables.pieces import Piece
    from rebalance_monitor.dashboard.web.past.past import Wanted

_AT_ONCE = 200
_MOST_ROWS = 50_000
_BEFORE_ALL = -(2**63)
_DATE = re.compile(r"^date=\d{4}-\d{2}-\d{2}$")


class TablePast:
    """The findings of the table in `folder`; keeps at most `kept_bytes` of it. Safe to share by threads."""

    source = "table"

    def __init__(self, folder: Place, kept_bytes: int = KEPT_BYTES) -> None:
        self._folder = folder
        self._pieces = Pieces(FINDINGS_SCHEMA, "at", kept_bytes)

    @property
    def kept_bytes(self) -> int:
        """How much of the table is kept in memory."""
        return self._pieces.kept_bytes

    def find(self, wanted: Wanted) -> list[Finding]:
        """Return at most `wanted.limit` findings, newest first. Raises OSError."""
        return read_again(partial(self._find, wanted))

    def _find(self, wanted: Wanted) -> list[Finding]:
        found: dict[str, Finding] = {}
        for paths in self._days(wanted):
            for pieces, older in _windows(self._wanted_pieces(paths, wanted), wanted.limit):
                found |= self._fitting(pieces, wanted)
                if sum(finding.at > older for finding in found.values()) >= wanted.limit:
                    return newest(found.values(), wanted.limit)
        return newest(found.values(), wanted.limit)

    def _days(self, wanted: Wanted) -> Iterator[list[Place]]:
        """Yield the files of each day that is asked for, the newest day first."""
        first, last = f"date={date_of(wanted.since)}", f"date={date_of(wanted.last)}"
        days: defaultdict[str, list[Place]] = defaultdict(list)
        for path in self._listed():
            # Times that no calendar has stand under the first date of all.
            day = path.parent.name
            if first <= day <= last and _DATE.match(day):
                days[day].append(path)
        for day in sorted(days, reverse=True):
            yield days[day]

    def _listed(self) -> list[Place]:
        found = list(files(self._folder))
        if self._pieces.keep_only({str(path) for path in found}):
            found = list(files(self._folder))
        return found

    def _wanted_pieces(self, paths: Sequence[Place], wanted: Wanted) -> list[Piece]:
        pieces = self._pieces.of(paths)
        return [one for one in pieces if one.first <= wanted.last and one.last >= wanted.since]

    def _fitting(self, pieces: Sequence[Piece], wanted: Wanted) -> dict[str, Finding]:
        """Return the newest findings of some pieces that fit, as many as are wanted, by their ids."""
        found: dict[str, Finding] = {}
        try:
            for finding in filter(wanted.takes, self._read(pieces, wanted)):
                found[finding.id] = finding
                if len(found) >= wanted.limit:
                    break
        except (ValueError, KeyError, TypeError) as error:
            raise OSError(f"the findings table has a row that cannot be read: {error}") from error
        return found

    def _read(self, pieces: Sequence[Piece], wanted: Wanted) -> Iterator[Finding]:
        """Yield findings, newest first, made as they are asked for."""
        # One chunk a column: to filter many small ones took most of a request's time.
        table = self._pieces.read(self._promising(pieces, wanted)).combine_chunks()
        rows = pa.array(_numbers(fitting(table, wanted)))
        keys = table.select(["at", "id"]).take(rows)
        order = rows.take(pc.sort_indices(keys, [("at", "descending"), ("id", "descending")]))
        for first in range(0, len(order), _AT_ONCE):
            yield from map(finding_of, table.take(order.slice(first, _AT_ONCE)).to_pylist())

    def _promising(self, pieces: Sequence[Piece], wanted: Wanted) -> Sequence[Piece]:
        """Return the pieces that may hold something wanted, by the columns of their footers."""
        publication = columns(wanted)
        if publication == ["at"]:
            # Their footers said so.
            return pieces
        rows = _numbers(fitting(self._pieces.read(pieces, publication), wanted))
        ends = np.cumsum([piece.rows for piece in pieces])
        return [pieces[number] for number in np.unique(np.searchsorted(ends, rows, side="right"))]


def _numbers(fits: pa.ChunkedArray) -> Any:  # noqa: ANN401 - numpy's own type says no more
    """Return the numbers of the rows that fit."""
    return np.flatnonzero(fits.combine_chunks().fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003 - Arrow's own


def _windows(pieces: Sequence[Piece], rows: int) -> Iterator[tuple[list[Piece], int]]:
    """Yield pieces from the newest on, more each time, with the newest time that those behind may hold."""
    left = sorted(pieces, key=lambda piece: piece.last, reverse=True)
    while left:
        taken, held, rows = 0, 0, min(2 * rows, _MOST_ROWS)
        while taken < len(left) and held < rows:
            held += left[taken].rows
            taken += 1
        window, left = left[:taken], left[taken:]
        yield window, left[0].last if left else _BEFORE_ALL
        rows *= 2
