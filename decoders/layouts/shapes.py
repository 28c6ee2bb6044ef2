"""Arrays with elements of one shape: further elements of a known shape are read with one `struct` call each.

Members of one group tend to have strings of the same lengths: ids end in a UUID, one application has one
client id and one size of assignment. Where some elements of an array had the same size, those that follow are
tried with one `struct` call each. The lengths which that call reads are compared with those it was made for,
so an element of another shape is seen, and read field by field as ever; so is one that cannot be read.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Protocol

from rebalance_monitor.decoders.layouts.schema import FIXED, Field

Lengths = tuple[int, ...]
Unpack = Callable[[bytes, int], tuple[object, ...]]
# So many elements of one size in a row are no accident.
ENOUGH = 3
# A string: its length, then its bytes. Anything else is a code of `struct`.
_LENGTHS = {"text": Struct(">h"), "blob": Struct(">i")}
_SIZES = {code: Struct(">" + code).size for code in FIXED.values()} | {"text": 2, "blob": 4}


class AlikeReader(Protocol):
    """Appends elements from `offset` on to `items`: at most `left`, in the shape of the one at `model`."""

    def __call__(self, buffer: bytes, offset: int, model: int, left: int, items: list[object], /) -> int:
        """Return the offset behind them."""


def codes(fields: Sequence[Field]) -> tuple[str, ...]:
    """Return a `struct` code for each number, "text" or "blob" for what has a length; () for other fields."""
    kinds = [field.wire.kind for field in fields]
    if any(field.wire.array or isinstance(field.wire.kind, type) for field in fields):
        return ()
    return tuple(FIXED[str(k)] if k in FIXED else "blob" if k == "bytes" else "text" for k in kinds)


def shape_at(layout: tuple[str, ...], buffer: bytes, at: int) -> tuple[int, Unpack, Lengths]:
    """Return width, reader and lengths (-1: null) of the element that was read at `at`."""
    lengths = []
    for code in layout:
        if code in _LENGTHS:
            (length,) = _LENGTHS[code].unpack_from(buffer, at)
            lengths.append(length)
            at += max(length, 0)
        at += _SIZES[code]
    return _shape(layout, tuple(lengths))


@lru_cache(maxsize=1024)
def _shape(layout: tuple[str, ...], lengths: Lengths) -> tuple[int, Unpack, Lengths]:
    rest = iter(lengths)
    parts = [
        f"{_LENGTHS[code].format[1:]}{max(next(rest), 0)}s" if code in _LENGTHS else code for code in layout
    ]
    packed = Struct(">" + "".join(parts))
    return packed.size, packed.unpack_from, lengths
