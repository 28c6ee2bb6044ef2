"""How much one answer holds: rows until their JSON fills a budget, whatever is in each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = TypeVar("Row")

BYTES = 4 * 1024 * 1024
"""JSON of the rows of one list; a usual finding has 2 to 4 KB."""

_encode = msgspec.json.Encoder().encode


def within(rows: Iterable[Row], budget: int = BYTES) -> list[Row]:
    """Return the first rows, until the next one would no longer fit; the very first in any case."""
    found: list[Row] = []
    for row in rows:
        budget -= _size(row)
        if found and budget < 0:
            break
        found.append(row)
    return found


def _size(row: object) -> int:
    try:
        return len(_encode(row))
    except UnicodeEncodeError:
        # Half a surrogate pair somewhere: escaped, each takes six.
        return 6 * len(repr(row))
