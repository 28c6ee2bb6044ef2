"""The rough half of a search for findings: Arrow removes most rows that do not fit, before any is made.

It lets through every row that `Wanted.takes` would, and perhaps some that it would not: that has the last
word. Names are compared as Python folds their case, each distinct name once.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rebalance_monitor.dashboard.web.past.past import Wanted

_SEARCHED = (
    *("group", "kind", "groups", "topics", "causes.cause", "causes.client_id", "causes.host"),
    *("members.client_id", "members.host", "members.instance_id"),
)


def columns(wanted: Wanted) -> list[str]:
    """Return the columns that `fitting` reads."""
    texts = (name.partition(".")[0] for names, _ in _texts(wanted) for name in names)
    return sorted({"at", *(name for name, _ in _values(wanted)), *texts})


def fitting(table: pa.Table, wanted: Wanted) -> pa.ChunkedArray:
    """Return which rows of findings may be wanted; null stands for no."""
    fits = pc.and_(pc.greater_equal(table["at"], wanted.since), pc.less_equal(table["at"], wanted.last))
    for name, value in _values(wanted):
        fits = pc.and_(fits, pc.equal(table[name], value))
    for names, has in _texts(wanted):
        found = pa.concat_arrays([_rows(table, name, has) for name in names])
        fits = pc.and_(fits, pc.is_in(_numbers(table.num_rows), value_set=found))
    return fits


def _values(wanted: Wanted) -> list[tuple[str, str | bool]]:
    given = {"kind": wanted.kind, "severity": wanted.severity, "history": wanted.history}
    return [(name, value) for name, value in given.items() if value not in {"", None}]


def _texts(wanted: Wanted) -> Iterator[tuple[tuple[str, ...], Callable[[str], bool]]]:
    """Yield columns, and what a text in one of them must be."""
    if wanted.group is not None:
        yield ("group", "groups"), wanted.group.__eq__
    if wanted.pattern:
        yield ("group", "groups"), partial(fnmatchcase, pat=wanted.pattern)
    if wanted.among is not None:
        yield ("group", "groups"), wanted.among
    if wanted.incident:
        yield ("incident", "id"), wanted.incident.__eq__
    if wanted.cause:
        yield ("causes.cause",), wanted.cause.__eq__
    # A text with blanks may lie across names: then each of its words lies in one of them.
    for word in wanted.search.split():
        yield _SEARCHED, partial(_holds, word)


def _holds(word: str, name: str) -> bool:
    return word in name.casefold()


def _rows(table: pa.Table, name: str, fits: Callable[[str], bool]) -> pa.Array:
    """Return the numbers of the rows with a fitting text in one column: of text, or of lists of it."""
    column, _, part = name.partition(".")
    texts = table[column].combine_chunks()
    rows = _numbers(len(texts))
    if pa.types.is_list(texts.type):
        rows, texts = pc.list_parent_indices(texts).cast(pa.int64()), texts.flatten()
    if part:
        texts = pc.struct_field(texts, part)
    encoded = texts.dictionary_encode()
    # Null where there is no text, which no filter lets through.
    hits = pa.array([fits(text) for text in encoded.dictionary.to_pylist()], pa.bool_())
    return rows.filter(hits.take(encoded.indices))


def _numbers(count: int) -> pa.Array:
    return pa.array(np.arange(count))
