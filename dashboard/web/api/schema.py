"""JSON schemas of typed shapes: TypedDicts, dataclasses, enums, unions with None, lists, tuples and maps.

Every field is required and no other is allowed, so a schema that accepts an answer says all about it.
Refuses (TypeError) any other type: a shape that cannot be described must not be served.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

Schema = dict[str, Any]

_PLAIN: dict[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}


def reference(name: str) -> Schema:
    """Return the reference to a named schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def schemas(*roots: type) -> dict[str, Schema]:
    """Return the schemas of the shapes and of every shape within them, by name."""
    found: dict[str, Schema] = {}
    for root in roots:
        schema_of(root, found)
    return dict(sorted(found.items()))


def schema_of(kind: Any, found: dict[str, Schema]) -> Schema:  # noqa: ANN401 - any annotation
    """Return the schema of an annotation; named shapes are added to `found` and referred to."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if is_typeddict(kind) or is_dataclass(kind):
        return _named(kind, found)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        found.setdefault(kind.__name__, {"type": "string", "enum": [str(member) for member in kind]})
        return reference(kind.__name__)
    return _generic(get_origin(kind), get_args(kind), found)


def _generic(origin: object, parts: tuple[Any, ...], found: dict[str, Schema]) -> Schema:
    if origin in {Union, UnionType}:
        return {"anyOf": [schema_of(part, found) for part in parts]}
    if origin in {list, tuple}:
        return {"type": "array", "items": schema_of(parts[0], found)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(parts[1], found)}
    raise TypeError(f"no JSON schema for {origin} of {parts}")


def _named(kind: Any, found: dict[str, Schema]) -> Schema:  # noqa: ANN401 - a TypedDict is no plain type
    name = kind.__name__
    if name not in found:
        found[name] = {}
        fields = get_type_hints(kind)
        found[name] = {
            "type": "object",
            "description": " ".join((kind.__doc__ or "").split()),
            "properties": {field: schema_of(hint, found) for field, hint in fields.items()},
            "required": list(fields),
            "additionalProperties": False,
        }
    return reference(name)
