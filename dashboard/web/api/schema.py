"""JSON schemas of the page's shapes, by msgspec, with every field required and no other allowed.

So a schema that accepts an answer says all about it. Raises TypeError for a type that has no JSON schema: a
shape that cannot be described must not be served.
"""

from __future__ import annotations

from typing import Any

from msgspec.json import schema_components

Schema = dict[str, Any]
_PLACE = "#/components/schemas/{name}"


def reference(name: str) -> Schema:
    """Return the reference to a named schema of the document."""
    return {"$ref": _PLACE.format(name=name)}


def schemas(*roots: type) -> dict[str, Schema]:
    """Return the schemas of the shapes and of every shape within them, by name."""
    _, found = schema_components(roots, ref_template=_PLACE)
    return {name: _whole(schema) for name, schema in sorted(found.items())}


def _whole(schema: Schema) -> Schema:
    """Return the schema of a shape that has all of its fields and no other."""
    fields = schema.get("properties")
    return schema if fields is None else {**schema, "required": list(fields), "additionalProperties": False}
