"""One record: key and value bytes to a typed record, or to a failure that says why, where and in what.

Every type and version in `registry` is read. Refused: types and value versions Kafka has not defined
(it gives no rule that would make a guess safe), and bytes that are not what they claim to be.
Trailing bytes and unknown tagged fields are allowed and noted. Nothing here raises on any bytes.
"""

import struct
from dataclasses import dataclass
from struct import unpack_from
from typing import Literal, Protocol

from rebalance_monitor.decoders import compiler
from rebalance_monitor.decoders.errors import (
    DecodeError,
    NullKeyError,
    TruncatedError,
    UnknownTypeError,
    UnknownVersionError,
)
from rebalance_monitor.decoders.records.common import RetiredValue
from rebalance_monitor.decoders.registry import RECORD_TYPES, RecordType
from rebalance_monitor.decoders.wire import note

Part = Literal["key", "value"]


class Key(Protocol):
    """What all keys have in common: the group they belong to."""

    @property
    def group(self) -> str:
        """The group id."""


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
    notes: list[str] = []
    kind: int | None = None
    try:
        if key is None:
            raise NullKeyError(0)
        kind = _int16(key, "type")
        record = RECORD_TYPES.get(kind)
        if record is None:
            raise UnknownTypeError(0, "type")
        read_key = _read_key(record, key, notes)
    except DecodeError as error:
        return Failure(error.reason, "key", error.at, error.field, kind)
    if value is None:
        return Decoded(kind, read_key, None, None, tuple(notes))
    try:
        version, read_value = _read_value(record, value, notes)
    except DecodeError as error:
        return Failure(error.reason, "value", error.at, error.field, kind, read_key)
    return Decoded(kind, read_key, read_value, version, tuple(notes))


def _read_key(record: RecordType, key: bytes, notes: list[str]) -> Key:
    found, end = compiler.reader(record.key, 0, flexible=False)(key, 2, notes)
    if end != len(key):
        note(notes, f"{len(key) - end} trailing bytes in the key at byte {end}")
    return found  # type: ignore[return-value] # every key layout in the table has a group


def _read_value(record: RecordType, value: bytes, notes: list[str]) -> tuple[int, object]:
    version = _int16(value, "version")
    if record.value is None:
        note(notes, f"{record.name} (type {record.id}) is retired: its value is not read")
        return version, RetiredValue(value[2:])
    if not 0 <= version <= record.newest:
        raise UnknownVersionError(0, "version")
    read = compiler.reader(record.value, version, flexible=version >= record.flexible)
    found, end = read(value, 2, notes)
    if end != len(value):
        note(notes, f"{len(value) - end} trailing bytes in the value at byte {end}")
    return version, found


def _int16(buffer: bytes, name: str) -> int:
    try:
        found: int = unpack_from(">h", buffer)[0]
    except struct.error:
        raise TruncatedError(0, name) from None
    return found
