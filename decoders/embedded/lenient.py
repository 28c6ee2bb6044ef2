"""Reads structures that clients may cut short: all of a field or nothing of it, the rest is Kafka's default.

An int16 version stands first. Between fields the bytes may end (noted); within a field they may not.
A version above the newest known is read as the newest, and what follows is noted.
"""

from functools import cache
from struct import unpack_from
from typing import TypeVar, cast

from rebalance_monitor.decoders.errors import DecodeError, TruncatedError, UnknownVersionError
from rebalance_monitor.decoders.layouts import compiler
from rebalance_monitor.decoders.layouts.schema import fields_of
from rebalance_monitor.decoders.layouts.wire import ENDED, Reader

T = TypeVar("T")


@cache
def _readers(layout: type, version: int) -> tuple[tuple[str, str, Reader], ...]:
    return tuple(
        (f.attribute, f.name, compiler.field_reader(f, version, flexible=False))
        for f in fields_of(layout)
        if f.in_version(version)
    )


def read_prefix(layout: type[T], data: bytes, newest: int, start: int = 0) -> tuple[int, T, tuple[str, ...]]:
    """Read (version, structure, notes) from `data` at `start`; raises `DecodeError`."""
    if len(data) < start + 2:
        raise TruncatedError(start, "version")
    version = unpack_from(">h", data, start)[0]
    if version < 0:
        raise UnknownVersionError(start, "version")
    found, end, notes = read_fields(layout, data, min(version, newest), start + 2)
    if end < len(data):
        notes.append(f"{len(data) - end} bytes after the fields of version {min(version, newest)}")
    return version, found, tuple(notes)


def read_fields(layout: type[T], data: bytes, version: int, at: int) -> tuple[T, int, list[str]]:
    """Read the fields of one known version up to the end of `data`; the first must be there."""
    notes: list[str] = []
    values: dict[str, object] = {}
    readers = _readers(cast("type", layout), version)
    for attribute, name, read in readers:
        if at == len(data) and values:
            notes.append(f"version {version} ends before {name}")
            break
        try:
            values[attribute], at = read(data, at, notes)
        except DecodeError as error:
            raise error.under(name) from None
        except ENDED:
            raise TruncatedError(at, name) from None
    return layout(**values), at, notes
