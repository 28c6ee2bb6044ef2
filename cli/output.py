"""How data reaches stdout: `-o table` for people, `-o json` for one document, `-o jsonl` for one line a row.

A table on a terminal leaves out what a verb calls optional, as far as its width asks for it; `-o wide`, and a
table that a program reads, have every column. JSON lines are written as they come; a table and a document
need all rows first. Names come from clients: what would steer a terminal or turn its text around (control and
bidirectional characters) is escaped in every form, in JSON by escapes that read back as the same text.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

import click

from rebalance_monitor.engine.outputs.colours import takes_colours
from rebalance_monitor.engine.outputs.console import plain, safe_json

if TYPE_CHECKING:
    from rich.console import Console

MIN_PROSE, INDENT = 20, "    "
P = ParamSpec("P")
R = TypeVar("R")


class Form(StrEnum):
    """The forms in which a verb can write its data."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"

    @property
    def is_table(self) -> bool:
        """Whether people read it: every column (`wide`), or those that fit the terminal."""
        return self in {Form.TABLE, Form.WIDE}


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
    optional: Sequence[str] = (),
) -> None:
    """Write the rows; a table has `columns`, or those of its first row.

    Of the `optional` ones the last is left out first where a terminal is too narrow.
    """
    out = stream or sys.stdout
    if form is Form.JSONL:
        for row in rows:
            out.write(to_line(row) + "\n")
        out.flush()
    elif form is Form.JSON:
        text = json.dumps([dict(row) for row in rows], indent=2, ensure_ascii=False)
        out.write(safe_json(text) + "\n")
    else:
        write_table(list(rows), columns, out, optional, wide=form is Form.WIDE)


def to_line(row: Mapping[str, object]) -> str:
    """Return the row as one line of JSON, without spaces, in its own order of keys."""
    return safe_json(json.dumps(dict(row), separators=(",", ":"), ensure_ascii=False))


def write_table(
    rows: Sequence[Mapping[str, object]],
    columns: Sequence[str] | None,
    out: TextIO,
    optional: Sequence[str] = (),
    *,
    wide: bool = False,
    below: Sequence[str] = (),
) -> None:
    """Write a table as wide as the terminal; a wide one, and any off a terminal, is whole: no cell is cut.

    `below`: columns of prose, which stand under their row where the terminal is too narrow for the table.
    """
    from rich.table import Table

    wide = wide or not out.isatty()
    names = list(columns or (rows[0] if rows else ()))
    if not wide:
        room = console(out).width
        if below and fitting(names, rows, room, below) != names:
            beside = fitting([name for name in names if name not in below], rows, room, optional)
            _write_below(beside, below, rows, out, room)
            return
        names = fitting(names, rows, room, optional)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        # A long name is folded on a terminal: what is cut cannot be copied.
        table.add_column(name, overflow="fold")
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    for row_cells in cells:
        table.add_row(*row_cells)
    width = _width([names, *cells]) if wide else None
    # `:x:` in a name is no picture.
    console(out, width=width, soft_wrap=wide, markup=False, emoji=False).print(table)


def _write_below(
    names: Sequence[str],
    below: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    out: TextIO,
    width: int,
) -> None:
    """Write each row as a line of its short cells, and under it its prose, indented."""
    lines = [
        dict(zip(names, names, strict=True)),
        *({name: _cell(row.get(name)) for name in names} for row in rows),
    ]
    sizes = {name: max(len(line[name]) for line in lines) for name in names}
    head, *texts = ["  ".join(line[name].ljust(sizes[name]) for name in names).rstrip() for line in lines]
    out.write((click.style(head, bold=True) if takes_colours(out) else head) + "\n")
    for text, row in zip(texts, rows, strict=True):
        out.write(text + "\n")
        for prose in filter(None, (_cell(row.get(name)) for name in below)):
            room = max(MIN_PROSE, width - len(INDENT))
            out.writelines(f"{INDENT}{line}\n" for line in wrap(prose, room, break_on_hyphens=False))


def fitting(
    names: Sequence[str], rows: Sequence[Mapping[str, object]], width: int, optional: Sequence[str]
) -> list[str]:
    """Return the columns that `width` has room for; of the optional ones the last is left out first."""
    room = {name: max(map(len, (name, *(_cell(row.get(name)) for row in rows)))) + 2 for name in names}
    kept = list(names)
    for name in reversed(optional):
        if sum(room[one] for one in kept) - 2 <= width:
            break
        kept.remove(name)
    return kept


def console(out: TextIO, **settings: Any) -> "Console":  # noqa: ANN401 - rich's own
    """Return rich's console on `out`; a closed pipe ends the program as everywhere else."""
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
