"""The questions that people ask the tables, as SQL: one file each, over views for DuckDB or Spark.

The queries are written in what both understand; what differs (nested columns, JSON) is in the views.
"""

from __future__ import annotations

from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from rebalance_monitor.dashboard.tables.delta_log import is_delta
from rebalance_monitor.dashboard.tables.files import files

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.storage.places import Place

ENGINES = ("duckdb", "spark")
# How each writes a quote inside a text.
_DUCKDB = str.maketrans({"'": "''"})
_SPARK = str.maketrans({"'": "\\'", "\\": "\\\\"})


def names() -> list[str]:
    """Return the names of the queries, in their order."""
    found = (entry.name for entry in resources.files(__package__).iterdir())
    return sorted(name.removesuffix(".sql") for name in found if name[:1].isdigit())


def query(name: str) -> str:
    """Return the SQL of one query. Raises FileNotFoundError."""
    return _read(name)


def question(name: str) -> str:
    """Return the question that a query answers: its first line."""
    return _read(name).partition("\n")[0].removeprefix("-- ")


def views(engine: str, findings: Place, groups: Place) -> str:
    """Return the SQL that makes the views over the two table folders for one of `ENGINES`.

    DuckDB is given a Delta table's files as they are now, by name: later ones need the views anew.
    Raises OSError where its log cannot be read.
    """
    quoted = _DUCKDB if engine == "duckdb" else _SPARK
    paths = {"findings": str(findings).translate(quoted), "groups": str(groups).translate(quoted)}
    paths["format"] = "delta" if is_delta(findings) else "parquet"
    paths["files"] = f"'{paths['findings']}/*/*.parquet'"
    if is_delta(findings):
        names = [str(path).translate(quoted) for path in sorted(files(findings), key=str)]
        paths["files"] = "[" + ", ".join(f"'{name}'" for name in names) + "]"
    return Template(_read(f"views.{engine}")).safe_substitute(paths)


def _read(name: str) -> str:
    return (resources.files(__package__) / f"{name}.sql").read_text(encoding="utf-8")
