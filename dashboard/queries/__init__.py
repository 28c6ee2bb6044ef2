"""The questions that people ask the tables, as SQL: one file each, over views for DuckDB or Spark.

The queries are written in what both understand; what differs (nested columns, JSON) is in the views.
"""

from __future__ import annotations

from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ENGINES = ("duckdb", "spark")


def names() -> list[str]:
    """Return the names of the queries, in their order."""
    found = (entry.name for entry in files(__package__).iterdir())
    return sorted(name.removesuffix(".sql") for name in found if name[:1].isdigit())


def query(name: str) -> str:
    """Return the SQL of one query. Raises FileNotFoundError."""
    return _read(name)


def question(name: str) -> str:
    """Return the question that a query answers: its first line."""
    return _read(name).partition("\n")[0].removeprefix("-- ")


def views(engine: str, findings: Path, groups: Path) -> str:
    """Return the SQL that makes the views over the two table folders for one of `ENGINES`."""
    paths = {"findings": _quoted(findings), "groups": _quoted(groups)}
    return Template(_read(f"views.{engine}")).safe_substitute(paths)


def _quoted(path: Path) -> str:
    # Both engines write a quote inside a text twice; and Spark a backtick inside a name.
    return str(path).replace("'", "''").replace("`", "``")


def _read(name: str) -> str:
    return (files(__package__) / f"{name}.sql").read_text(encoding="utf-8")
