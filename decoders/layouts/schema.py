"""The vocabulary in which record layouts are written down as data.

A layout is a frozen, slotted dataclass whose fields carry a `Wire`: wire type, versions, null, tag and
default, as in Kafka's message schemas. Readers (`compiler`), the JSON form (`json_form`) and the
reference page (`reference`) are all derived from it; nothing else describes a record.
"""

import dataclasses
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

NEVER = 32767
ZERO_UUID = bytes(16)
# Struct format character of every wire type of fixed width (big endian).
FIXED: dict[str, str] = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "uuid": "16s",
}
_DEFAULTS: dict[str, object] = {"string": "", "bytes": b"", "uuid": ZERO_UUID}


@dataclass(frozen=True, slots=True)
class Wire:
    """How one field stands on the wire.

    `kind` is a wire type's name or the dataclass of a nested structure; `since` and `until` are value
    versions (inclusive); `null_since` is the first version in which null is allowed (`NEVER`: none);
    `tag` makes it a tagged field of a flexible version (KIP-482).
    """

    kind: str | type
    array: bool = False
    since: int = 0
    until: int = NEVER
    null_since: int = NEVER
    tag: int | None = None
    default: object = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a layout: its attribute, Kafka's JSON name, and its wire form."""

    attribute: str
    name: str
    wire: Wire

    def in_version(self, version: int) -> bool:
        """Return whether `version` of the structure has this field."""
        return self.wire.since <= version <= self.wire.until


def wire(
    kind: str | type,
    *,
    since: int = 0,
    until: int = NEVER,
    null_since: int = NEVER,
    tag: int | None = None,
    default: object = ...,
    name: str = "",
) -> Any:  # noqa: ANN401 - like dataclasses.field, it stands where a value of the field's own type belongs
    """Declare a dataclass field; `default` is Kafka's own where the schema names none (0, "", empty)."""
    return _field(Wire(kind, False, since, until, null_since, tag, default, name))  # noqa: FBT003 - positional for brevity here only


def array(
    kind: str | type,
    *,
    since: int = 0,
    until: int = NEVER,
    null_since: int = NEVER,
    tag: int | None = None,
    default: object = ...,
    name: str = "",
) -> Any:  # noqa: ANN401 - see wire
    """Declare a field that holds a tuple of `kind`."""
    return _field(Wire(kind, True, since, until, null_since, tag, default, name))  # noqa: FBT003 - see wire


def _field(spec: Wire) -> object:
    default = spec.default
    if default is ...:
        default = () if spec.array else _DEFAULTS.get(str(spec.kind), 0)
    return dataclasses.field(default=default, metadata={"wire": dataclasses.replace(spec, default=default)})


@cache
def fields_of(layout: type) -> tuple[Field, ...]:
    """Return the fields of a layout in wire order."""
    found = []
    for field in dataclasses.fields(layout):
        spec: Wire = field.metadata["wire"]
        found.append(Field(field.name, spec.name or camel(field.name), spec))
    return tuple(found)


def camel(attribute: str) -> str:
    """Return the JSON name of an attribute: `member_id` is `memberId`."""
    return re.sub(r"_([a-z0-9])", lambda m: m.group(1).upper(), attribute)
