"""Compiles the layout of a structure, at one version, into a straight-line reader.

Like `dataclasses` itself it writes the source of a function and runs it once: adjacent fields of fixed
width (and the length of a string behind them) are read by one `struct` call, and no field costs a Python
call unless it is an array or a structure. The source is made from the layouts of this package only, never
anything read. `source(layout, version, ...)` shows it. Elements that are alike have another reader: `shapes`.
"""

from functools import cache
from struct import Struct

from rebalance_monitor.decoders.errors import DecodeError, Run, locate
from rebalance_monitor.decoders.layouts import wire
from rebalance_monitor.decoders.layouts.schema import FIXED, Field, Wire, fields_of
from rebalance_monitor.decoders.layouts.shapes import AlikeReader, codes, shape_at
from rebalance_monitor.decoders.layouts.twins import open_twin
from rebalance_monitor.decoders.layouts.wire import Reader


@cache
def reader(layout: type, version: int, *, flexible: bool) -> Reader:
    """Return the reader `(buffer, offset, notes) -> (value of layout, next offset)` of one version.

    `flexible` says whether that version has compact lengths and tagged fields. The reader raises
    `DecodeError` with position and field path, whatever the bytes are.
    """
    work = _Compilation(layout, version, flexible=flexible)
    names = work.names
    exec(work.source(), names)  # noqa: S102 - the source comes from the layouts alone
    made: Reader = names["read"]  # type: ignore[assignment] # exec fills a dict of objects
    return made


def source(layout: type, version: int, *, flexible: bool) -> str:
    """Return the Python source that `reader` compiles, for people and tests."""
    return _Compilation(layout, version, flexible=flexible).source()


@cache
def alike_reader(layout: type, version: int, *, flexible: bool) -> AlikeReader | None:
    """Return the reader of elements that are alike; None where there are no strings, or more than strings."""
    work = _Compilation(layout, version, flexible=flexible)
    text = work.source_alike()
    if not text:
        return None
    exec(text, work.names)  # noqa: S102 - the source comes from the layouts alone
    return work.names["read_alike"]  # type: ignore[return-value] # as above


@cache
def least_size(layout: type, version: int, *, flexible: bool) -> int:
    """Return the fewest bytes that one structure can take: the bound that a forged count is held against."""
    fields = [f for f in fields_of(layout) if f.in_version(version)]
    plain = sum(_least(f.wire, version, flexible=flexible) for f in fields if f.wire.tag is None)
    return plain + (1 if flexible else 0)


def field_reader(field: Field, version: int, *, flexible: bool) -> Reader:
    """Return the reader of one field alone, for structures that may end between fields."""
    spec = field.wire
    nullable = version >= spec.null_since
    if spec.array:
        return _array_reader(spec, version, flexible=flexible, nullable=nullable)
    if isinstance(spec.kind, type):
        inner = reader(spec.kind, version, flexible=flexible)
        return wire.optional(inner, tagged=spec.tag is not None) if nullable else inner
    if spec.kind in FIXED:
        return wire.fixed(FIXED[spec.kind])
    if spec.kind == "bytes":
        return wire.blob(compact=flexible, nullable=nullable)
    return wire.text(compact=flexible, nullable=nullable)


def _array_reader(spec: Wire, version: int, *, flexible: bool, nullable: bool) -> Reader:
    if isinstance(spec.kind, type):
        element = reader(spec.kind, version, flexible=flexible)
        width = least_size(spec.kind, version, flexible=flexible)
        alike = alike_reader(spec.kind, version, flexible=flexible)
        return wire.sequence(element, width, alike, compact=flexible, nullable=nullable)
    if spec.kind in FIXED:
        code = FIXED[spec.kind]
        return wire.ints(code, Struct(code).size, compact=flexible, nullable=nullable)
    text = wire.text(compact=flexible, nullable=False)
    return wire.sequence(text, 1 if flexible else 2, None, compact=flexible, nullable=nullable)


def _least(spec: Wire, version: int, *, flexible: bool) -> int:
    if isinstance(spec.kind, type) and not spec.array:
        nullable = version >= spec.null_since
        return 1 if nullable else least_size(spec.kind, version, flexible=flexible)
    if not spec.array and spec.kind in FIXED:
        return Struct(">" + FIXED[str(spec.kind)]).size
    if flexible:
        return 1
    return 2 if spec.kind == "string" and not spec.array else 4


class _Compilation:
    """The source of one reader and the names it uses."""

    def __init__(self, layout: type, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.layout = layout
        self.names: dict[str, object] = {
            "C": layout,
            "Open": open_twin(layout),
            "locate": locate,
            "uvarint": wire.uvarint,
            "bad_length": wire.bad_length,
            "ERRORS": (DecodeError, UnicodeDecodeError, *wire.ENDED),
        }
        self.lines: list[str] = []
        self.values: list[str] = []
        self.runs: list[Run] = []
        self.pending: list[tuple[Field, str]] = []

    def source(self) -> str:
        """Write the function."""
        if not self.lines:
            self._body()
        self.names["RUNS"] = tuple(self.runs)
        head = ["def read(buf, at, notes):", "    size = len(buf)", "    step = p = 0", "    try:"]
        tail = [
            "    except ERRORS as error:",
            "        raise locate(error, RUNS[step], size, at, p) from None",
        ]
        return "\n".join([*head, *("        " + line for line in self.lines), *tail, ""])

    def source_alike(self) -> str:
        """Write the reader of elements that have the shape of one before; "" where that is not possible."""
        fields = fields_of(self.layout)
        there = [f for f in fields if f.in_version(self.version) and f.wire.tag is None]
        layout = () if self.flexible else codes(there)
        if not {"text", "blob"} & set(layout):
            return ""
        self._body()
        self.names |= {"shape_at": shape_at, "CODES": layout}
        read = {f"v{number}": field for number, field in enumerate(fields) if field in there}
        lengths = {v: f"n{v}" for v, field in read.items() if field.wire.kind not in FIXED}
        targets = ", ".join(f"{lengths[v]}, {v}" if v in lengths else v for v in read)
        values = [self._value_alike(read[v], v) if v in lengths else v for v in self.values]
        body = [
            f"{targets} = unpack(buf, at)",
            f"if ({', '.join(lengths.values())},) != lengths:",
            "    break",
            *self._made(values),
            "append(made)",
            "at += width",
        ]
        return "\n".join(
            [
                "def read_alike(buf, at, model, left, items):",
                "    width, unpack, lengths = shape_at(CODES, buf, model)",
                "    append = items.append",
                "    try:",
                "        for _ in range(left):",
                *("            " + line for line in body),
                "    except ERRORS:",
                "        pass",
                "    return at",
                "",
            ]
        )

    def _value_alike(self, field: Field, variable: str) -> str:
        some = variable if field.wire.kind == "bytes" else f"{variable}.decode()"
        return f"None if n{variable} < 0 else {some}" if self.version >= field.wire.null_since else some

    def _body(self) -> None:
        for number, field in enumerate(fields_of(self.layout)):
            self._field(field, f"v{number}")
        self._flush()
        if self.flexible:
            self._tags()
        self.lines += [*self._made(self.values), "return made, at"]

    def _made(self, values: list[str]) -> list[str]:
        """Make the frozen dataclass without its constructor, whose price is a call per field."""
        attributes = [field.attribute for field in fields_of(self.layout)]
        filled = [f"made.{name} = {value}" for name, value in zip(attributes, values, strict=True)]
        return ["made = Open()", *filled, "made.__class__ = C"]

    def _field(self, field: Field, variable: str) -> None:
        spec = field.wire
        if not field.in_version(self.version) or spec.tag is not None:
            self.names["d" + variable] = spec.default
            self.values.append("d" + variable)
            return
        self.values.append(variable)
        if spec.array or isinstance(spec.kind, type):
            self._call(field, variable)
        elif spec.kind in FIXED:
            self.pending.append((field, variable))
        elif self.flexible:
            self._compact_text(field, variable)
        else:
            self._text(field, variable)

    def _step(self, run: Run) -> None:
        self.runs.append(run)
        if len(self.runs) > 1:
            self.lines.append(f"step = {len(self.runs) - 1}")

    def _flush(self, tail: tuple[str, str, str] | None = None) -> None:
        """Read all pending fixed-width fields, and a length of format tail[2] for field tail[0], at once."""
        if not self.pending and tail is None:
            return
        codes = [FIXED[str(f.wire.kind)] for f, _ in self.pending]
        names = [f.name for f, _ in self.pending]
        variables = [v for _, v in self.pending]
        if tail is not None:
            codes, names, variables = [*codes, tail[2]], [*names, tail[0]], [*variables, tail[1]]
        packed = Struct(">" + "".join(codes))
        self._step(tuple(zip(names, (Struct(">" + c).size for c in codes), strict=True)))
        unpack = f"u{len(self.runs)}"
        self.names[unpack] = packed.unpack_from
        self.lines.append(f"{', '.join(variables)}, = {unpack}(buf, at)")
        self.lines.append(f"at += {packed.size}" if tail is None else f"p = at + {packed.size}")
        self.pending = []

    def _text(self, field: Field, variable: str) -> None:
        width, code = (4, "i") if field.wire.kind == "bytes" else (2, "h")
        self._flush((field.name, "n", code))
        self._slice(field, variable, "n >= 0", "n")
        if self.version >= field.wire.null_since:
            self.lines += ["elif n == -1:", f"    {variable} = None", "    at = p"]
        self._refuse("n", f"p - {width}", field)

    def _compact_text(self, field: Field, variable: str) -> None:
        self._flush()
        self._step(((field.name, 1),))
        self.lines += ["n = buf[at]", "if n > 127:", "    n, p = uvarint(buf, at)", "else:", "    p = at + 1"]
        limit = "n > 0" if field.wire.kind == "bytes" else f"0 < n <= {wire.MAX_STRING + 1}"
        self._slice(field, variable, limit, "n - 1")
        if self.version >= field.wire.null_since:
            self.lines += ["elif n == 0:", f"    {variable} = None", "    at = p"]
        self._refuse("n - 1", "at", field)

    def _slice(self, field: Field, variable: str, test: str, length: str) -> None:
        decode = "" if field.wire.kind == "bytes" else ".decode() if e > p else ''"
        self.lines += [
            f"if {test} and (e := p + {length}) <= size:",
            f"    {variable} = buf[p:e]{decode}",
            "    at = e",
        ]

    def _refuse(self, length: str, at: str, field: Field) -> None:
        limit = field.wire.kind != "bytes"
        self.lines += ["else:", f"    raise bad_length({length}, {at}, text={limit})"]

    def _call(self, field: Field, variable: str) -> None:
        self._flush()
        self._step(((field.name, 1),))
        made = f"r{len(self.runs)}"
        self.names[made] = field_reader(field, self.version, flexible=self.flexible)
        self.lines.append(f"{variable}, at = {made}(buf, at, notes)")

    def _tags(self) -> None:
        tagged = [
            (number, field)
            for number, field in enumerate(fields_of(self.layout))
            if field.wire.tag is not None and field.in_version(self.version)
        ]
        readers = {f.wire.tag: (f.name, field_reader(f, self.version, flexible=True)) for _, f in tagged}
        self.names |= {"tags": wire.tags, "KNOWN": readers}
        self._step((("tags", 1),))
        self.lines += ["if not buf[at]:", "    at += 1"]
        self._lone_tag(tagged)
        self.lines += ["else:", f"    found, at = tags(buf, at, notes, KNOWN, {self.layout.__name__!r})"]
        for number, field in tagged:
            self.lines.append(f"    v{number} = found.get({field.wire.tag}, dv{number})")
            self.lines.insert(0, f"v{number} = dv{number}")
            self.values[number] = f"v{number}"

    def _lone_tag(self, tagged: list[tuple[int, Field]]) -> None:
        """Read a section that holds one field of fixed width and nothing else: what brokers write."""
        for number, field in tagged:
            if field.wire.array or field.wire.kind not in FIXED:
                continue
            packed = Struct(">" + FIXED[str(field.wire.kind)])
            end = 3 + packed.size
            # One field; its tag; its size.
            head = bytes([1, field.wire.tag or 0, packed.size])
            self.names |= {f"t{number}": packed.unpack_from, f"h{number}": head}
            self.lines += [
                f"elif buf[at:at + 3] == h{number} and at + {end} <= size:",
                f"    v{number}, = t{number}(buf, at + 3)",
                f"    at += {end}",
            ]
