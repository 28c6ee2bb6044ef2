"""Fills the Markdown templates of docs/templates/ with tables that the code gives.

A template holds the prose. A line `<!-- NAME -->` in it is replaced by the table of that name.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "docs" / "templates"
_SLOT = re.compile(r"^<!-- ([A-Z_]+) -->$", re.MULTILINE)


def fill(name: str, tables: Mapping[str, str]) -> str:
    """Return the page of template `name`. Raises KeyError for a slot that no table fills."""
    return _SLOT.sub(lambda slot: tables[slot[1]].rstrip("\n"), template(name))


def template(name: str) -> str:
    """Return the text of docs/templates/<name>.md."""
    return (TEMPLATES / f"{name}.md").read_text(encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
