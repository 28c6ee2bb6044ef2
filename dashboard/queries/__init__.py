"""The questions that people ask the tables, as SQL: one file each, over views for DuckDB or Spark.

The queries are written in what both understand; what differs (nested columns, JSON) is in the views.
"""

from __future__ import annotations

import re
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from rebalance_monitor.dashboard.tables.delta_log import is_delta
from rebalance_monitor.dashboard.tables.files import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.checkpoints.storage.places import Place

ENGINES = ("duckdb", "spark")
# How each writes a quote inside a text.
_DUCKDB = str.maketrans({"'": "''"})
_SPARK = str.maketrans({"'": "\\'", "\\": "\\\\"})
_WILD = {"*": ".*", "?": "."}
_PIECE = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
"""A set of characters, or one character."""


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


def views(engine: str, findings: Place, groups: Place, teams: Mapping[str, str] | None = None) -> str:
    """Return the SQL that makes the views over the two table folders for one of `ENGINES`.

    `teams`: pattern of groups -> team; of several that match the first counts (config/teams.py).

    DuckDB is given a Delta table's files as they are now, by name: later ones need the views anew.
    Raises OSError where its log cannot be read.
    """
    quoted = _DUCKDB if engine == "duckdb" else _SPARK
    paths = {"findings": str(findings).translate(quoted), "groups": str(groups).translate(quoted)}
    paths["team"] = team_sql(engine, teams or {})
    paths["format"] = "delta" if is_delta(findings) else "parquet"
    paths["files"] = f"'{paths['findings']}/*/*.parquet'"
    if is_delta(findings):
        names = [str(path).translate(quoted) for path in sorted(files(findings), key=str)]
        paths["files"] = "[" + ", ".join(f"'{name}'" for name in names) + "]"
    return Template(_read(f"views.{engine}")).safe_substitute(paths)


def team_sql(engine: str, teams: Mapping[str, str]) -> str:
    """Return the SQL expression of a group's team, '' for a group of none."""
    quoted = _DUCKDB if engine == "duckdb" else _SPARK
    matches = "regexp_matches(\"group\", '{}')" if engine == "duckdb" else "`group` RLIKE '{}'"
    cases = [
        f"WHEN {matches.format(_expression(pattern).translate(quoted))} THEN '{team.translate(quoted)}'"
        for pattern, team in teams.items()
    ]
    return f"CASE {' '.join(cases)} ELSE '' END" if cases else "''"


def _expression(pattern: str) -> str:
    """Return the regular expression of a pattern of names; what both engines understand."""
    found = _PIECE.sub(_piece, pattern)
    return f"(?s)^{found}$"


def _piece(match: re.Match[str]) -> str:
    piece = match[0]
    if piece in _WILD:
        return _WILD[piece]
    if len(piece) > 1:
        return f"[^{piece[2:]}" if piece[1] == "!" else piece
    return re.escape(piece)


def _read(name: str) -> str:
    return (resources.files(__package__) / f"{name}.sql").read_text(encoding="utf-8")
