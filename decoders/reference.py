"""The reference page of record types (`docs/records.md`), written from the table and the layouts."""

from collections.abc import Iterator

from rebalance_monitor.decoders.layouts.schema import NEVER, Field, Wire, fields_of
from rebalance_monitor.decoders.registry import RECORD_TYPES, RecordType

_HEAD = """\
# Record types of `__consumer_offsets`

Generated from the decoders' own table (`make docs`); do not edit.

A key is an int16 type and the key's fields, never flexible. A value is an int16 version and the value's
fields; a null value is a tombstone. Names are those of Kafka's JSON. *flexible* values have compact lengths
and may carry tagged fields; unknown tags are skipped and noted. `?` after a type: null is allowed, from the
version given if not from the start. Times are in ms since 1970, timeouts in ms.

A type that is not listed, and a value version above the newest listed, is a failure (`unknown_type`,
`unknown_version`): Kafka gives no rule that would make a guess safe. So are strings that are not UTF-8
(`bad_text`; Kafka's Java readers would put U+FFFD there, which can make two groups one) and tagged fields out
of order, repeated or of another size than announced (`bad_tags`). Trailing bytes are noted.
"""


def records_markdown() -> str:
    """Return the page."""
    parts = [_HEAD, _overview(), *(_section(record) for record in RECORD_TYPES.values())]
    return "\n".join(parts)


def _overview() -> str:
    lines = ["| type | name | value versions | since |", "|---|---|---|---|"]
    for record in RECORD_TYPES.values():
        versions = "retired" if record.value is None else _versions(record)
        lines.append(f"| {record.id} | {record.name} | {versions} | {record.history[0].release} |")
    return "\n".join([*lines, ""])


def _versions(record: RecordType) -> str:
    return "0" if record.newest == 0 else f"0 to {record.newest}"


def _section(record: RecordType) -> str:
    lines = [f"## {record.id} {record.name}", "", f"Tombstone: {record.tombstone}.", ""]
    lines += [f"- {_change(c.release, c.kip, c.text)}" for c in record.history]
    lines += ["", "Key:", "", *_table(record.key)]
    if record.value is None:
        return "\n".join([*lines, "", "The value is kept as bytes and noted as retired.", ""])
    flexible = "" if record.flexible > record.newest else f" (flexible from version {record.flexible})"
    lines += ["", f"Value{flexible}:", "", *_table(record.value)]
    for structure in _structures(record.value):
        lines += ["", f"`{structure.__name__}`:", "", *_table(structure)]
    return "\n".join([*lines, ""])


def _change(release: str, kip: str, text: str) -> str:
    return f"{release}{f', {kip}' if kip else ''}: {text}"


def _table(layout: type) -> list[str]:
    rows = (_row(field) for field in fields_of(layout))
    return ["| field | type | versions | default |", "|---|---|---|---|", *rows]


def _row(field: Field) -> str:
    spec = field.wire
    versions = f"{spec.since}+" if spec.until == NEVER else _span(spec)
    tag = "" if spec.tag is None else f", tag {spec.tag}"
    return f"| {field.name} | {_kind(spec)} | {versions}{tag} | {_default(spec)} |"


def _span(spec: Wire) -> str:
    return str(spec.since) if spec.since == spec.until else f"{spec.since} to {spec.until}"


def _kind(spec: Wire) -> str:
    name = spec.kind if isinstance(spec.kind, str) else f"`{spec.kind.__name__}`"
    null = "" if spec.null_since == NEVER else "?"
    later = f" ({spec.null_since}+)" if NEVER > spec.null_since > spec.since else ""
    return f"{'[]' if spec.array else ''}{name}{null}{later}"


def _default(spec: Wire) -> str:
    """Return the default where a version or a missing tag makes it be seen."""
    if spec.tag is None and spec.since == 0 and spec.until == NEVER:
        return ""
    if spec.default is None:
        return "null"
    return str(spec.default) if isinstance(spec.default, int) else "empty"


def _structures(layout: type) -> Iterator[type]:
    """Yield the nested structures of a layout, each once, outer ones first."""
    found: dict[type, None] = {}
    waiting = [layout]
    while waiting:
        kinds = (field.wire.kind for field in fields_of(waiting.pop(0)))
        inner = [kind for kind in kinds if isinstance(kind, type) and kind not in found]
        found |= dict.fromkeys(inner)
        waiting += inner
    yield from found
