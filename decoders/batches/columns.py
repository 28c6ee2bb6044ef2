"""Numpy views over Arrow binary columns, and slices of them compared and copied eight bytes at a time.

Nothing is copied but a buffer that ends within eight bytes of its last value (so that a word may be read at
any position of a value). Slices longer than `LONG` bytes, which only a forged record has, are handled one by
one: one of them must not set the number of rounds for a whole batch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

WORD = 8
LONG = 512
_HIGH_BITS = np.uint64(0x8080808080808080)


@dataclass(frozen=True, slots=True)
class Cells:
    """A binary column: `data` (readable 8 bytes past every value), and per row start, size and validity."""

    data: Bytes
    starts: Ints
    sizes: Ints
    valid: Mask

    def cell(self, row: int) -> bytes | None:
        """Return one value, or None for null."""
        if not self.valid[row]:
            return None
        start = int(self.starts[row])
        return self.data[start : start + int(self.sizes[row])].tobytes()

    def take(self, order: Ints) -> "Cells":
        """Return the rows in another order, over the same data."""
        return Cells(self.data, self.starts[order], self.sizes[order], self.valid[order])


def cells(column: pa.Array) -> Cells:
    """View a binary, large_binary or otherwise castable column; honours the array's own offset."""
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        column = column.cast(pa.large_binary())
    rows = len(column)
    if not rows:
        none = np.zeros(0, np.int64)
        return Cells(np.zeros(WORD, np.uint8), none, none, np.zeros(0, np.bool_))
    _, offsets, data = column.buffers()
    width = np.int32 if pa.types.is_binary(column.type) else np.int64
    bounds = np.frombuffer(offsets, width)[column.offset : column.offset + rows + 1].astype(np.int64)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return Cells(_padded(data, int(bounds[-1])), bounds[:-1], np.diff(bounds), valid)


def _padded(data: pa.Buffer | None, end: int) -> Bytes:
    view = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    if len(view) >= end + WORD:
        return view
    return np.concatenate([view[:end], np.zeros(WORD, np.uint8)])


def view(data: Bytes, dtype: str) -> npt.NDArray[Any]:
    """Return `data` as elements of `dtype` starting at *every* byte position."""
    width = np.dtype(dtype).itemsize
    return np.ndarray((len(data) - width + 1,), dtype, data, strides=(1,))


def same(data: Bytes, left: Ints, right: Ints, sizes: Ints) -> Mask:
    """Return for each pair of slices of one size whether their bytes are equal."""
    words = view(data, "<u8")
    equal = np.ones(len(sizes), np.bool_)
    active = np.flatnonzero((sizes > 0) & (sizes <= LONG))
    for row in np.flatnonzero(sizes > LONG):
        a, b, size = int(left[row]), int(right[row]), int(sizes[row])
        equal[row] = bool(np.array_equal(data[a : a + size], data[b : b + size]))
    left, right, sizes = left[active], right[active], sizes[active]
    while len(active):
        differs = ((words[left] ^ words[right]) << _beyond(sizes)) != 0
        equal[active[differs]] = False
        on = ~differs & (sizes > WORD)
        active, left, right, sizes = _further(on, active, left, right, sizes)
        left, right, sizes = left + WORD, right + WORD, sizes - WORD
    return equal


def ascii_only(data: Bytes, starts: Ints, sizes: Ints) -> Mask:
    """Return for each slice whether all its bytes are ASCII (False for one longer than `LONG`)."""
    words = view(data, "<u8")
    plain = sizes <= LONG
    active = np.flatnonzero(plain & (sizes > 0))
    starts, sizes = starts[active], sizes[active]
    while len(active):
        high = ((words[starts] & _HIGH_BITS) << _beyond(sizes)) != 0
        plain[active[high]] = False
        active, starts, sizes = _further(~high & (sizes > WORD), active, starts, sizes)
        starts, sizes = starts + WORD, sizes - WORD
    return plain


def _further(on: Mask, *arrays: Ints) -> tuple[Ints, ...]:
    """Keep the slices that go on, without a copy where that is all of them."""
    return arrays if on.all() else tuple(array[on] for array in arrays)


def _beyond(left: Ints) -> npt.NDArray[np.uint64]:
    """Return the shift that drops what a little-endian word holds beyond `left` bytes."""
    return (64 - 8 * np.minimum(left, WORD)).astype(np.uint64)


def copy(target: Bytes, to: Ints, data: Bytes, starts: Ints, sizes: Ints) -> None:
    """Copy slices of `data` to positions of `target`, which must not overlap."""
    usual = (sizes >= WORD) & (sizes <= LONG)
    for row in np.flatnonzero(sizes > LONG):
        a, b, size = int(to[row]), int(starts[row]), int(sizes[row])
        target[a : a + size] = data[b : b + size]
    _copy_bytes(target, data, *(x[sizes < WORD] for x in (to, starts, sizes)))
    if not usual.all():
        to, starts, sizes = to[usual], starts[usual], sizes[usual]
    if not len(sizes):
        return
    write, read = view(target, "<u8"), view(data, "<u8")
    # The last word ends where the slice ends, over the one before it: nothing beyond it is touched.
    last = sizes - WORD
    write[to + last] = read[starts + last]
    done = 0
    while len(active := np.flatnonzero(last > done)):
        write[to[active] + done] = read[starts[active] + done]
        done += WORD
        to, starts, last = (x[active] if len(active) < len(x) else x for x in (to, starts, last))


def _copy_bytes(target: Bytes, data: Bytes, to: Ints, starts: Ints, sizes: Ints) -> None:
    """Copy slices shorter than a word byte by byte."""
    ahead = np.cumsum(sizes) - sizes
    run = np.arange(int(sizes.sum()))
    target[np.repeat(to - ahead, sizes) + run] = data[np.repeat(starts - ahead, sizes) + run]


def gather(data: Bytes, starts: Ints, sizes: Ints, kind: pa.DataType) -> pa.Array:
    """Return slices as an Arrow array of `kind` (binary or string; 32-bit offsets)."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    target = np.empty(int(bounds[-1]) + WORD, np.uint8)
    copy(target, bounds[:-1], data, starts, sizes)
    return from_bounds(kind, bounds, target)


def from_bounds(kind: pa.DataType, bounds: Ints, data: Bytes) -> pa.Array:
    """Make an Arrow array of `kind` without nulls over `data`, value i being bytes bounds[i]:bounds[i+1]."""
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(bounds) - 1, buffers)
