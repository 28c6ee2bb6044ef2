"""How data reaches stdout: `-o table` for people, `-o json` for one document, `-o jsonl` for one line a row.

JSON lines are written as they come; a table and a document need all rows first. Names come from clients:
what would steer a terminal or turn its text around (control and bidirectional characters) is escaped in every
form, in JSON by escapes that read back as the same text.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

import click

from rebalance_monitor.engine.outputs.console import plain, safe_json

if TYPE_CHECKING:
    from rich.console import Console

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
        text = json.dumps([dict(row) for row in rows], indent=2, ensure_ascii=False)
        out.write(safe_json(text) + "\n")
    else:
        write_table(list(rows), columns, out)


def to_line(row: Mapping[str, object]) -> str:
    """Return the row as one line of JSON, without spaces, in its own order of keys."""
    return safe_json(json.dumps(dict(row), separators=(",", ":"), ensure_ascii=False))


def write_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None, out: TextIO) -> None:
    """Write a table as wide as the terminal; off a terminal cells are never cut."""
    from rich.table import Table

    names = list(columns or (rows[0] if rows else ()))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        # A long name is folded on a terminal: what is cut cannot be copied.
        table.add_column(name, overflow="fold")
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    for row_cells in cells:
        table.add_row(*row_cells)
    width = None if out.isatty() else _width([names, *cells])
    # `:x:` in a name is no picture.
    console(out, width=width, soft_wrap=not out.isatty(), markup=False, emoji=False).print(table)


def console(out: TextIO, **settings: Any) -> "Console":  # noqa: ANN401 - rich's own
    """Return rich's console on `out`; a reader that has had enough is told as everywhere else."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Plain(file=out, **settings)


def _width(lines: Sequence[Sequence[str]]) -> int:
    """Return columns enough for all cells; a character takes two at most."""
    columns = zip(*lines, strict=True)
    return max(80, sum(2 * max(map(len, cells)) + 2 for cells in columns))


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | tuple) else str(value)
    return plain(text)
