"""Damage for records: truncation, flipped bits, forged lengths, odd varints, swapped keys and values."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

Pair = tuple[bytes | None, bytes | None]
INT16 = [struct.pack(">h", n) for n in (-32768, -2, -1, 0, 1, 4, 127, 32767)]
INT32 = [struct.pack(">i", n) for n in (-(2**31), -2, -1, 0, 1, 65536, 2**30, 2**31 - 1)]
VARINTS = [
    b"\x00",
    b"\x7f",
    b"\x80\x00",
    b"\xff\x7f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x70",
    b"\x80\x80\x80\x80\x80\x00",
    b"\xff" * 10,
]
# One unknown tag, a repeated tag, descending tags, a count without tags.
TAGS = [b"\x01\x63\x02ab", b"\x02\x00\x00\x00\x00", b"\x02\x05\x00\x03\x00", b"\xff\xff\xff\xff\x07"]
TEXT = [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\xbd", b"\xf0\x9f\x98\x80", b"\x00"]


def forged(record: Pair) -> Iterator[Pair]:
    """Yield `record` with every odd length, count and varint written over every position of its value."""
    key, value = record
    for at in range(2, len(value or b"")):
        for new in (*INT16, *INT32, *VARINTS):
            yield key, (value or b"")[:at] + new + (value or b"")[at + len(new) :]


def damaged(record: Pair, others: Sequence[Pair], chance: random.Random) -> Pair:
    """Give `record` with its key, its value, or both damaged, or with the key or value of another."""
    key, value = record
    kind = chance.random()
    if kind < 0.06:
        return _crossed(record, chance.choice(others), chance)
    if kind < 0.25:
        return changed(key, chance), value
    if kind < 0.90:
        return key, changed(value, chance)
    return changed(key, chance), changed(value, chance)


def _crossed(record: Pair, other: Pair, chance: random.Random) -> Pair:
    return chance.choice([(record[0], other[1]), (other[0], record[1]), (None, record[1]), (record[0], None)])


def changed(data: bytes | None, chance: random.Random) -> bytes | None:
    """Give `data` with one to four changes of any kind."""
    if data is None:
        return chance.choice([b"", b"\x00", b"\x00\x00", None])
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(_WAYS)(data, chance.randrange(len(data) + 1), chance)
    return data


def _cut(data: bytes, at: int, chance: random.Random) -> bytes:  # noqa: ARG001 - all ways have one form
    return data[:at]


def _flip(data: bytes, at: int, chance: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    changed[min(at, len(changed) - 1)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _overwrite(choices: list[bytes]) -> Callable[[bytes, int, random.Random], bytes]:
    def way(data: bytes, at: int, chance: random.Random) -> bytes:
        new = chance.choice(choices)
        return data[:at] + new + data[at + len(new) :]

    return way


def _insert(choices: list[bytes]) -> Callable[[bytes, int, random.Random], bytes]:
    return lambda data, at, chance: data[:at] + chance.choice(choices) + data[at:]


def _replace_one(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + chance.choice(VARINTS) + data[at + 1 :]


def _replace_end(data: bytes, at: int, chance: random.Random) -> bytes:  # noqa: ARG001 - all ways have one form
    # The last byte of most flexible values is an empty tag section.
    return data[:-1] + chance.choice(TAGS)


def _remove(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + data[at + chance.randrange(1, 9) :]


def _repeat(data: bytes, at: int, chance: random.Random) -> bytes:
    return data[:at] + data[max(0, at - chance.randrange(1, 40)) : at] + data[at:]


def _version(data: bytes, at: int, chance: random.Random) -> bytes:  # noqa: ARG001 - all ways have one form
    return struct.pack(">h", chance.choice((-1, 0, 1, 2, 3, 4, 5, 9, 16, 18, 23, 24, 25, 99))) + data[2:]


def _append(data: bytes, at: int, chance: random.Random) -> bytes:  # noqa: ARG001 - all ways have one form
    return data + chance.randbytes(chance.randrange(1, 20))


_WAYS: list[Callable[[bytes, int, random.Random], bytes]] = [
    _cut,
    _flip,
    _flip,
    _overwrite(INT16),
    _overwrite(INT32),
    _overwrite(TEXT),
    _insert(VARINTS),
    _insert(TEXT),
    _replace_one,
    _replace_end,
    _remove,
    _repeat,
    _version,
    _append,
]
