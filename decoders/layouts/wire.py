"""Readers of single wire elements: integers, varints, strings, arrays, tagged fields.

A reader is a plain function `(buffer, offset, notes) -> (value, next offset)`: no cursor, no copy of the
buffer. `notes` is the caller's list of what was legal but unexpected. What cannot be read raises a
`DecodeError`; an `IndexError` or `struct.error` at the end of the buffer is the caller's to translate.
Every count is checked against the bytes that are left before anything is allocated.
"""

import struct
from struct import Struct, calcsize, unpack_from
from typing import Protocol

from rebalance_monitor.decoders.errors import (
    BadLengthError,
    BadMarkerError,
    BadTagsError,
    BadTextError,
    BadVarintError,
    DecodeError,
    TruncatedError,
)
from rebalance_monitor.decoders.layouts.shapes import ENOUGH, AlikeReader

# Kafka's own reader refuses longer strings.
MAX_STRING = 32767
_MAX_INT = 2**31 - 1
# What Python raises when a read runs over the end of the buffer.
ENDED = (IndexError, struct.error)
_MAX_NOTES = 16
_INT32 = Struct(">i").unpack_from
# A varint byte without the bit that says another one follows.
_LAST_SEVEN = 0x7F


class Reader(Protocol):
    """Reads one element of `buffer` at `offset`."""

    def __call__(self, buffer: bytes, offset: int, notes: list[str], /) -> tuple[object, int]:
        """Return (value, offset after it)."""


def uvarint(buffer: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint of up to five bytes; longer or beyond 31 bits is `BadVarintError`."""
    value = 0
    for place in range(5):
        byte = buffer[at + place]
        value |= (byte & _LAST_SEVEN) << (7 * place)
        if byte <= _LAST_SEVEN:
            if value > _MAX_INT:
                break
            return value, at + place + 1
    raise BadVarintError(at)


def note(notes: list[str], text: str) -> None:
    """Add a note; a record with thousands of oddities gets the first few."""
    if len(notes) < _MAX_NOTES:
        notes.append(text)


def bad_length(length: int, at: int, *, text: bool) -> DecodeError:
    """Say why a string (`text`) or bytes field of `length` at `at` could not be taken."""
    if length < 0 or (text and length > MAX_STRING):
        return BadLengthError(at)
    return TruncatedError(at)


def fixed(code: str) -> Reader:
    """Make the reader of one fixed-width element of struct format `code`."""
    packed = Struct(">" + code)

    def read(buffer: bytes, at: int, notes: list[str]) -> tuple[object, int]:  # noqa: ARG001 - a Reader
        return packed.unpack_from(buffer, at)[0], at + packed.size

    return read


def text(*, compact: bool, nullable: bool) -> Reader:
    """Make the reader of a string: int16 length, or varint length + 1."""

    def read(buffer: bytes, at: int, notes: list[str]) -> tuple[object, int]:  # noqa: ARG001 - a Reader
        length, start = _length(buffer, at, ">h", compact=compact)
        if length == -1 and nullable:
            return None, start
        end = start + length
        if not 0 <= length <= MAX_STRING or end > len(buffer):
            raise bad_length(length, at, text=True)
        try:
            return buffer[start:end].decode(), end
        except UnicodeDecodeError as error:
            raise BadTextError(start + error.start) from None

    return read


def blob(*, compact: bool, nullable: bool) -> Reader:
    """Make the reader of a bytes field: int32 length, or varint length + 1."""

    def read(buffer: bytes, at: int, notes: list[str]) -> tuple[object, int]:  # noqa: ARG001 - a Reader
        length, start = _length(buffer, at, ">i", compact=compact)
        if length == -1 and nullable:
            return None, start
        end = start + length
        if length < 0 or end > len(buffer):
            raise bad_length(length, at, text=False)
        return buffer[start:end], end

    return read


def _length(buffer: bytes, at: int, code: str, *, compact: bool) -> tuple[int, int]:
    if compact:
        found, start = uvarint(buffer, at)
        return found - 1, start
    return unpack_from(code, buffer, at)[0], at + calcsize(code)


def count(buffer: bytes, at: int, width: int) -> tuple[int, int]:
    """Read an array's count (-1: null) and refuse one whose elements of >= `width` bytes cannot be there."""
    (found,) = _INT32(buffer, at)
    if found < -1:
        raise BadLengthError(at)
    if found * width > len(buffer) - at - 4:
        raise TruncatedError(at)
    return found, at + 4


def compact_count(buffer: bytes, at: int, width: int) -> tuple[int, int]:
    """Read a count that is written as a varint of itself plus one, otherwise as `count` does."""
    found, start = uvarint(buffer, at)
    if (found - 1) * width > len(buffer) - start:
        raise TruncatedError(at)
    return found - 1, start


def ints(code: str, width: int, *, compact: bool, nullable: bool) -> Reader:
    """Make the reader of an array of fixed-width elements (struct format `code`)."""
    counted = compact_count if compact else count

    def read(buffer: bytes, at: int, notes: list[str]) -> tuple[object, int]:  # noqa: ARG001 - a Reader
        found, start = counted(buffer, at, width)
        if found < 0:
            return _null(at, start, nullable=nullable)
        return unpack_from(f">{found}{code}", buffer, start), start + found * width

    return read


def sequence(
    element: Reader, width: int, alike: AlikeReader | None, *, compact: bool, nullable: bool
) -> Reader:
    """Make the reader of an array whose elements take at least `width` bytes each.

    `alike`, if there is one, reads elements that follow some of the same size.
    """
    counted = compact_count if compact else count

    def read(buffer: bytes, at: int, notes: list[str]) -> tuple[object, int]:
        found, here = counted(buffer, at, width)
        if found < 0:
            return _null(at, here, nullable=nullable)
        items: list[object] = []
        size = alike_sizes = 0
        try:
            while len(items) < found:
                item, after = element(buffer, here, notes)
                items.append(item)
                alike_sizes = alike_sizes + 1 if after - here == size else 1
                size = after - here
                if alike_sizes == ENOUGH and alike is not None:
                    after = alike(buffer, after, here, found - len(items), items)
                    alike_sizes = 0
                here = after
        except DecodeError as error:
            raise error.under(f"[{len(items)}]") from None
        except ENDED:
            raise TruncatedError(here, f"[{len(items)}]") from None
        return tuple(items), here

    return read


def optional(structure: Reader, *, tagged: bool) -> Reader:
    """Make the reader of a nullable structure: int8 -1 or 1 before it; in a tagged field a varint 0 or 1."""
    absent, present = (0, 1) if tagged else (0xFF, 1)

    def read(buffer: bytes, at: int, notes: list[str]) -> tuple[object, int]:
        marker = buffer[at]
        if marker == present:
            return structure(buffer, at + 1, notes)
        if marker == absent:
            return None, at + 1
        raise BadMarkerError(at)

    return read


def tags(
    buffer: bytes, at: int, notes: list[str], known: dict[int, tuple[str, Reader]], owner: str
) -> tuple[dict[int, object], int]:
    """Read a tagged-field section; unknown tags are skipped by size and noted."""
    found, at = _short(buffer, at)
    if found * 2 > len(buffer) - at:
        raise TruncatedError(at)
    values: dict[int, object] = {}
    previous = -1
    for _ in range(found):
        start = at
        tag, at = _short(buffer, at)
        size, at = _short(buffer, at)
        if tag <= previous:
            raise BadTagsError(start)
        if size > len(buffer) - at:
            raise TruncatedError(start)
        previous, end = tag, at + size
        if tag in known:
            values[tag] = _tagged(buffer, at, end, notes, known[tag])
        else:
            note(notes, f"unknown tag {tag} of {owner} at byte {start}, {size} bytes")
        at = end
    return values, at


def _short(buffer: bytes, at: int) -> tuple[int, int]:
    byte = buffer[at]
    return (byte, at + 1) if byte <= _LAST_SEVEN else uvarint(buffer, at)


def _tagged(buffer: bytes, at: int, end: int, notes: list[str], known: tuple[str, Reader]) -> object:
    name, reader = known
    try:
        value, after = reader(buffer, at, notes)
    except DecodeError as error:
        raise error.under(name) from None
    except ENDED:
        raise TruncatedError(at, name) from None
    if after != end:
        raise BadTagsError(at, name)
    return value


def _null(at: int, after: int, *, nullable: bool) -> tuple[None, int]:
    if not nullable:
        raise BadLengthError(at)
    return None, after
