"""The JSON form of a record: field for field what Kafka's `CoordinatorRecordJsonConverters` (4.x) print.

Fields come in the order of Kafka's schemas; a field that a version lacks is left out, and so is a tagged one
that has its default; uuids are printed as Kafka does (URL-safe base64 without padding), bytes as base64.
Around it stands one object per record, in the order `partition, offset, timestamp, key, value, error`, then
`raw`, `notes` and `expanded` where there is something to say.
"""

import base64
import json
from collections.abc import Callable
from functools import cache
from struct import unpack_from
from typing import cast

from rebalance_monitor.decoders.embedded.expand import expand
from rebalance_monitor.decoders.layouts.schema import Field, fields_of
from rebalance_monitor.decoders.record import Decoded, Failure, decode_record
from rebalance_monitor.decoders.records.common import RetiredValue

_Form = Callable[[object], object]


def record_json(
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    *,
    expanded: bool = False,
) -> dict[str, object]:
    """Return the JSON object of one record; `timestamp` in ms. `expanded` adds the embedded protocols.

    >>> record_json(0, 12, 99, bytes.fromhex("000200026731"), None)["key"]
    {'type': 2, 'data': {'group': 'g1'}}
    """
    found = decode_record(key, value)
    line: dict[str, object] = {"partition": partition, "offset": offset, "timestamp": timestamp}
    if isinstance(found, Failure):
        return line | _failure(found, key, value)
    line["key"] = {"type": found.type, "data": layout_json(found.key, 0)}
    line["value"] = _value(found)
    line["error"] = None
    if found.notes:
        line["notes"] = list(found.notes)
    inside = expand(found) if expanded else None
    return line | {"expanded": inside} if inside else line


def to_line(line: dict[str, object]) -> str:
    """Return the object as one line of JSON, not escaped beyond need, as Kafka prints it."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def layout_json(found: object, version: int) -> dict[str, object]:
    """Return one structure (a dataclass of `records`) as `version` of it is printed."""
    return {
        name: form(value)
        for attribute, name, skip, form in _plan(cast("type", type(found)), version)
        if (value := getattr(found, attribute)) != skip
    }


@cache
def _plan(layout: type, version: int) -> tuple[tuple[str, str, object, _Form], ...]:
    return tuple(
        (f.attribute, f.name, _ALWAYS if f.wire.tag is None else f.wire.default, _form(f, version))
        for f in fields_of(layout)
        if f.in_version(version)
    )


def _form(field: Field, version: int) -> _Form:
    kind = field.wire.kind
    one = _nested(version) if isinstance(kind, type) else _SCALARS.get(kind, _as_is)
    return _many(one) if field.wire.array else one


def _nested(version: int) -> _Form:
    return lambda found: None if found is None else layout_json(found, version)


def _many(one: _Form) -> _Form:
    return lambda found: [one(item) for item in found] if isinstance(found, tuple) else None


def _as_is(found: object) -> object:
    return found


def uuid_text(uuid: bytes) -> str:
    """Return a uuid's 16 bytes as Kafka prints it.

    >>> uuid_text(bytes(16))
    'AAAAAAAAAAAAAAAAAAAAAA'
    """
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def _base64(data: object) -> str | None:
    return base64.b64encode(data).decode() if isinstance(data, bytes) else None


def _uuid(data: object) -> str | None:
    return uuid_text(data) if isinstance(data, bytes) else None


_SCALARS: dict[str, _Form] = {"bytes": _base64, "uuid": _uuid}
# A marker no field is ever equal to: untagged fields are always printed.
_ALWAYS = object()


def _value(found: Decoded) -> dict[str, object] | None:
    if found.value is None or found.value_version is None:
        return None
    data = None if isinstance(found.value, RetiredValue) else layout_json(found.value, found.value_version)
    return {"version": found.value_version, "data": data}


def _failure(found: Failure, key: bytes | None, value: bytes | None) -> dict[str, object]:
    data = None if found.key is None else layout_json(found.key, 0)
    error = {"reason": found.reason, "part": found.part, "at": found.at, "field": found.field}
    return {
        "key": None if found.type is None else {"type": found.type, "data": data},
        "value": None if value is None else {"version": _version(value), "data": None},
        "error": error,
        "raw": {"key": _base64(key), "value": _base64(value)},
    }


def _version(value: bytes) -> int | None:
    return unpack_from(">h", value)[0] if len(value) > 1 else None
