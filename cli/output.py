"""How data reaches stdout: `-o table` for people, `-o json` for one document, `-o jsonl` for one line a row.

JSON lines are written as they come; a table and a document need all rows first.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import ParamSpec, TextIO, TypeVar

import click

P = ParamSpec("P")
R = TypeVar("R")


class Form(StrEnum):
    """The forms in which a verb can write its data."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


def output_option(default: Form, *forms: Form) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add `-o`, giving the verb the argument `output: Form`; without `forms` all are offered."""
    choice = click.Choice([form.value for form in forms or Form])
    return click.option(
        "-o",
        "--output",
        type=choice,
        default=default.value,
        show_default=True,
        callback=lambda _context, _parameter, value: Form(value),
        help="The form of the data on stdout.",
    )


def write_rows(
    rows: Iterable[Mapping[str, object]],
    form: Form,
    columns: Sequence[str] | None = None,
    stream: TextIO | None = None,
) -> None:
    """Write the rows; a table has `columns`, or those of its first row."""
    out = stream or sys.stdout
    if form is Form.JSONL:
        for row in rows:
            out.write(to_line(row) + "\n")
        out.flush()
    elif form is Form.JSON:
        out.write(json.dumps([dict(row) for row in rows], indent=2, ensure_ascii=False) + "\n")
    else:
        write_table(list(rows), columns, out)


def to_line(row: Mapping[str, object]) -> str:
    """Return the row as one line of JSON, without spaces, in its own order of keys."""
    return json.dumps(dict(row), separators=(",", ":"), ensure_ascii=False)


def write_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None, out: TextIO) -> None:
    """Write a table as wide as the terminal; off a terminal cells are never cut."""
    from rich.console import Console
    from rich.table import Table

    names = list(columns or (rows[0] if rows else ()))
    table = Table(*names, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in names))
    width = None if out.isatty() else 10_000
    Console(file=out, width=width, soft_wrap=not out.isatty(), markup=False).print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | tuple) else str(value)
