"""One record: key and value bytes to a typed record, or to a failure that says why, where and in what.

Every type and version in `registry` is read. Refused: types and value versions Kafka has not defined
(it gives no rule that would make a guess safe), and bytes that are not what they claim to be.
Trailing bytes and unknown tagged fields are allowed and noted. Nothing here raises on any bytes.
"""

import struct
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from rebalance_monitor.decoders.errors import (
    DecodeError,
    NullKeyError,
    TruncatedError,
    UnknownTypeError,
    UnknownVersionError,
)
from rebalance_monitor.decoders.layouts import compiler
from rebalance_monitor.decoders.layouts.twins import quickly_made
from rebalance_monitor.decoders.layouts.wire import Reader, note
from rebalance_monitor.decoders.records.common import RetiredValue
from rebalance_monitor.decoders.registry import RECORD_TYPES, RecordType

Part = Literal["key", "value"]


class Key(Protocol):
    """What all keys have in common: the group they belong to."""

    @property
    def group(self) -> str:
        """The group id."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Decoded:
    """A record that could be read.

    `value` is None for a tombstone, and then so is `value_version`; `notes` says what was legal but
    unexpected (unknown tags, trailing bytes, a retired type).
    """

    type: int
    key: Key
    value: object | None
    value_version: int | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that could not be read: `reason` in `part` at byte `at`, in `field` (a path, or "").

    `type` and `key` are there when they could be read before the failure.
    """

    reason: str
    part: Part
    at: int
    field: str
    type: int | None = None
    key: Key | None = None


def decode_record(key: bytes | None, value: bytes | None) -> Decoded | Failure:
    """Read one record of `__consumer_offsets`; never raises, whatever the bytes.

    >>> decode_record(bytes.fromhex("00020002 6731"), None)
    Decoded(type=2, key=GroupMetadataKey(group='g1'), value=None, value_version=None, notes=())
    >>> decode_record(bytes.fromhex("00020005 6731"), None)
    Failure(reason='truncated', part='key', at=2, field='group', type=2, key=None)
    """
    if key is None:
        return Failure(NullKeyError.reason, "key", 0, "")
    # The usual is read without the bookkeeping that failures need; `_examine` is the same with it.
    notes: list[str] = []
    content = version = None
    try:
        (kind,) = _INT16(key)
        read_key, versions = _KNOWN[kind]
        found, end = read_key(key, 2, notes)
        if end != len(key):
            return _examine(key, value)
        if value is not None:
            (version,) = _INT16(value)
            content, end = versions[version](value, 2, notes)
            if end != len(value):
                return _examine(key, value)
    except _UNUSUAL:
        return _examine(key, value)
    return Decoded(kind, found, content, version, tuple(notes) if notes else ())


def _examine(key: bytes, value: bytes | None) -> Decoded | Failure:
    """Read what is not as usual: wrong, odd, or the first of its type and version."""
    part: Part = "key"
    kind: int | None = None
    found: Key | None = None
    notes: list[str] = []
    content, version = None, None
    try:
        (kind,) = _INT16(key)
        found, end = _key_reader(kind)(key, 2, notes)
        if end != len(key):
            note(notes, f"{len(key) - end} trailing bytes in the key at byte {end}")
        if value is not None:
            part = "value"
            (version,) = _INT16(value)
            content, end = _value_reader(kind, version)(value, 2, notes)
            if end != len(value):
                note(notes, f"{len(value) - end} trailing bytes in the value at byte {end}")
    except DecodeError as error:
        return Failure(error.reason, part, error.at, error.field, kind, found)
    except struct.error:
        name = "type" if part == "key" else "version"
        return Failure(TruncatedError.reason, part, 0, name, kind, found)
    return Decoded(kind, found, content, version, tuple(notes))


class _KeyReader(Protocol):
    def __call__(self, buffer: bytes, offset: int, notes: list[str], /) -> tuple[Key, int]: ...


_INT16 = struct.Struct(">h").unpack_from
# The readers that have been asked for: of keys by type, of values by type and version.
_KNOWN: dict[int, tuple[_KeyReader, dict[int, Reader]]] = {}
# Too short for a type or version, one not asked for yet, or a bad content.
_UNUSUAL = (struct.error, KeyError, DecodeError)


def _key_reader(kind: int) -> _KeyReader:
    """Return the reader of the keys of a type. Raises UnknownTypeError."""
    if kind not in _KNOWN:
        if kind not in RECORD_TYPES:
            raise UnknownTypeError(0, "type")
        # Every key layout of the table has a group.
        read = cast("_KeyReader", compiler.reader(RECORD_TYPES[kind].key, 0, flexible=False))
        _KNOWN[kind] = (read, {})
    return _KNOWN[kind][0]


def _value_reader(kind: int, version: int) -> Reader:
    """Return the reader of the values of a known type. Raises UnknownVersionError."""
    record, (_, readers) = RECORD_TYPES[kind], _KNOWN[kind]
    if record.value is None:
        return _retired(record)
    if version not in readers:
        if not 0 <= version <= record.newest:
            raise UnknownVersionError(0, "version")
        readers[version] = compiler.reader(record.value, version, flexible=version >= record.flexible)
    return readers[version]


def _retired(record: RecordType) -> Reader:
    def read(buffer: bytes, at: int, notes: list[str]) -> tuple[RetiredValue, int]:
        note(notes, f"{record.name} (type {record.id}) is retired: its value is not read")
        return RetiredValue(buffer[at:]), len(buffer)

    return read
