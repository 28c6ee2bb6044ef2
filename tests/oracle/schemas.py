"""Oracle (c): kafka-python's JSON-schema codec as an independent writer of records.

It is driven by message schemas of Kafka's form: for types 0 to 2 they stand in `classic_schemas`, for all
types Kafka's own files are read out of its jar. From a schema come three things: random values (Hypothesis),
their bytes (kafka-python's codec), and the JSON that Kafka would print of them.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import uuid
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from kafka.protocol.schemas.fields import StructField

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json = dict[str, Any]
_INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED = 65535
_ZERO = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class Schema:
    """One message schema, with the structures that it shares written out in place."""

    source: Json

    @property
    def record_type(self) -> int:
        """The type number of the record whose key or value this is."""
        return int(self.source["apiKey"])

    @property
    def is_key(self) -> bool:
        """Whether it lays out the key."""
        return str(self.source["type"]).endswith("key")

    @property
    def versions(self) -> range:
        """The valid versions."""
        first, _, last = str(self.source["validVersions"]).partition("-")
        return range(int(first), int(last or first) + 1)

    def encode(self, values: Json, version: int) -> bytes:
        """Give the bytes that kafka-python writes; a key is headed by its type, a value by its version."""
        flexible = _holds(self.source["flexibleVersions"], version)
        body = StructField(_for_codec(self.source)).encode(
            values, version=version, compact=flexible, tagged=flexible
        )
        return struct.pack(">h", self.record_type if self.is_key else version) + bytes(body)

    def values(self, version: int) -> st.SearchStrategy[Json]:
        """Give a strategy of values of one version, named as kafka-python names them."""
        return _struct_values(self.source["fields"], version)

    def kafka_json(self, values: Json, version: int) -> Json:
        """Give what Kafka would print of `values`."""
        return _struct_json(self.source["fields"], values, version)


def parse(text: str) -> Schema:
    """Read a schema file: JSON with whole lines of comment."""
    source = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    _write_out(source["fields"], {s["name"]: s["fields"] for s in source.get("commonStructs", [])})
    return Schema(source)


def in_jar(jar: Path) -> Iterator[Schema]:
    """Yield the schemas of all records in the jar of Kafka's group coordinator."""
    with zipfile.ZipFile(jar) as files:
        for name in sorted(files.namelist()):
            if re.fullmatch(r"common/message/\w+(Key|Value)\.json", name):
                yield parse(files.read(name).decode())


def _write_out(fields: list[Json], shared: dict[str, list[Json]]) -> None:
    for field in fields:
        field.setdefault("versions", field.get("taggedVersions"))
        name = field["type"].removeprefix("[]")
        if name in shared:
            field["fields"] = json.loads(json.dumps(shared[name]))
        if "fields" in field:
            _write_out(field["fields"], shared)


def _for_codec(source: Json) -> Json:
    return {**source, "type": "data"}


def _holds(versions: str | None, version: int) -> bool:
    if not versions or versions == "none":
        return False
    first, _, last = versions.removesuffix("+").partition("-")
    return int(first) <= version and (versions.endswith("+") or version <= int(last or first))


def _name(field: Json) -> str:
    # The codec's own rule for attribute names.
    return re.sub(r"(?<!^)(?=[A-Z])", "_", str(field["name"])).lower()


def _printed_name(field: Json) -> str:
    return str(field["name"])[0].lower() + str(field["name"])[1:]


def _struct_values(fields: list[Json], version: int) -> st.SearchStrategy[Json]:
    names = {_name(f): _field_values(f, version) for f in fields if _holds(f["versions"], version)}
    # The codec writes tags in the order in which it is given them, and they must ascend.
    return st.fixed_dictionaries(names).map(lambda values: {name: values[name] for name in names})


def _field_values(field: Json, version: int) -> st.SearchStrategy[Any]:
    one = _scalar_values(field, version)
    if field["type"].startswith("[]"):
        one = st.lists(one, max_size=4)
    # What the codec cannot write: null in a tagged field, where null is its own default.
    nullable = _holds(field.get("nullableVersions"), version) and "tag" not in field
    return st.none() | one if nullable else one


def _scalar_values(field: Json, version: int) -> st.SearchStrategy[Any]:
    kind = field["type"].removeprefix("[]")
    if "fields" in field:
        return _struct_values(field["fields"], version)
    if kind in _INTS:
        half = 1 << (_INTS[kind] - 1)
        return st.integers(-half, half - 1)
    if kind == "uint16":
        return st.integers(0, _UNSIGNED)
    if kind == "uuid":
        return st.uuids(allow_nil=False)
    if kind == "bytes":
        return st.binary(max_size=200)
    return st.text(max_size=50) | st.text("ab", min_size=120, max_size=140)


def _struct_json(fields: list[Json], values: Json, version: int) -> Json:
    printed = {}
    for field in fields:
        if _holds(field["versions"], version) and not _is_left_out(field, values[_name(field)]):
            printed[_printed_name(field)] = _value_json(field, values[_name(field)], version)
    return printed


def _is_left_out(field: Json, value: object) -> bool:
    """Tell whether a tagged field has its default and is neither written nor printed."""
    if "tag" not in field:
        return False
    if field["type"].startswith("[]"):
        return value == []
    default = field.get("default", _ZERO if field["type"] == "uuid" else 0)
    if "fields" in field:
        # The default of a structure is the structure of defaults.
        return value is None or value == {_name(f): _default(f) for f in field["fields"]}
    return value == (int(default) if default is not _ZERO else _ZERO)


def _default(field: Json) -> object:
    return [] if field["type"].startswith("[]") else int(field.get("default", 0))


def _value_json(field: Json, value: Any, version: int) -> object:  # noqa: ANN401 - of any field's type
    if value is None:
        return None
    if isinstance(value, list):
        return [_value_json({**field, "type": field["type"].removeprefix("[]")}, v, version) for v in value]
    if "fields" in field:
        return _struct_json(field["fields"], value, version)
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
