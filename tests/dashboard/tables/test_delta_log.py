"""The log of a Delta table, read without Spark: which files count."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_monitor.cluster.jars.jars import delta_coordinate
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.dashboard import queries
from rebalance_monitor.dashboard.tables.delta_log import LOG, DeltaState, is_delta, read_log
from rebalance_monitor.dashboard.tables.files import files, require_format
from rebalance_monitor.dashboard.tables.findings_table import read_newest, write_findings
from rebalance_monitor.dashboard.web.past.past import Wanted
from rebalance_monitor.dashboard.web.past.table_past import TablePast
from rebalance_monitor.streaming.storage.delta import EXTENSION, EXTENSIONS, session_settings
from tests.dashboard.tables.test_tables import FULL

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS: list[list[dict[str, Any]]] = [
    [
        {"metaData": {"id": "x", "configuration": {}}},
        {"txn": {"appId": "q", "version": 0}},
        {"add": {"path": "date=2026-01-01/a%20b.parquet"}},
    ],
    [{"txn": {"appId": "q", "version": 4}}, {"add": {"path": "date=2026-01-02/c.parquet"}}],
    [
        {"remove": {"path": "date=2026-01-01/a%20b.parquet"}},
        {"add": {"path": "date=2026-01-01/d.parquet"}},
    ],
]


def committed(folder: Path, version: int, actions: list[dict[str, Any]]) -> None:
    (folder / LOG).mkdir(parents=True, exist_ok=True)
    # As Delta writes it: text is left as it is.
    text = "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions)
    (folder / LOG / f"{version:020d}.json").write_text(text, encoding="utf-8")


def test_adds_count_until_they_are_removed(tmp_path: Path) -> None:
    for version, actions in enumerate(VERSIONS):
        committed(tmp_path, version, actions)
    state = read_log(tmp_path)
    assert state.files == {"date=2026-01-01/d.parquet", "date=2026-01-02/c.parquet"}
    assert state.transactions == {"q": 4}
    assert [path.name for path in files(tmp_path, "date=2026-01-02")] == ["c.parquet"]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_checkpoint_says_what_the_versions_before_it_said(tmp_path: Path, at: int) -> None:
    before = DeltaState()
    for version, actions in enumerate(VERSIONS):
        if version <= at:
            before.apply(actions)
        else:
            committed(tmp_path, version, actions)
    rows = [
        {"add": {"path": path.replace(" ", "%20")}, "remove": None, "txn": None, "metaData": None}
        for path in before.files
    ]
    said = {"appId": "q", "version": before.transactions["q"]}
    rows.append({"add": None, "remove": {"path": "gone"}, "txn": said, "metaData": None})
    rows.append({"add": None, "remove": None, "txn": None, "metaData": {"configuration": [("a", "b")]}})
    path = pa.struct({"path": pa.string()})
    schema = pa.schema(
        {
            "add": path,
            "remove": path,
            "txn": pa.struct({"appId": pa.string(), "version": pa.int64()}),
            "metaData": pa.struct({"configuration": pa.map_(pa.string(), pa.string())}),
        }
    )
    (tmp_path / LOG).mkdir(exist_ok=True)
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, tmp_path / LOG / f"{at:020d}.checkpoint.parquet")
    state = read_log(tmp_path)
    assert state.files == {"date=2026-01-01/d.parquet", "date=2026-01-02/c.parquet"}
    assert state.transactions == {"q": 4}


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"add": {"path": "a", "deletionVector": {"storageType": "u"}}}, "deletion vector"),
        ({"metaData": {"configuration": {"delta.columnMapping.mode": "name"}}}, "maps its columns"),
        ({"protocol": {"minReaderVersion": 9}}, "newer reader"),
        ({"add": {"size": 1}}, "cannot be read"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(tmp_path: Path, action: dict[str, Any], why: str) -> None:
    committed(tmp_path, 0, [action])
    with pytest.raises(OSError, match=why):
        read_log(tmp_path)


def test_names_with_what_unicode_counts_as_a_line_break_end_no_line_of_the_log(tmp_path: Path) -> None:
    statistics = json.dumps({"minValues": {"group": "a\u2028b\x85c"}}, ensure_ascii=False)
    committed(tmp_path, 0, [{"add": {"path": "date=2026-01-01/a.parquet", "stats": statistics}}])
    assert read_log(tmp_path).files == {"date=2026-01-01/a.parquet"}


def test_a_gap_in_the_log_is_refused(tmp_path: Path) -> None:
    committed(tmp_path, 0, VERSIONS[0])
    committed(tmp_path, 2, VERSIONS[2])
    with pytest.raises(OSError, match="lacks version 1"):
        read_log(tmp_path)


def test_every_reader_leaves_out_what_was_removed(tmp_path: Path) -> None:
    (kept,) = write_findings(tmp_path, [FULL], "q", 1)
    (gone,) = write_findings(tmp_path, [FULL], "q", 2)
    names = [str(path.relative_to(tmp_path)) for path in (kept, gone)]
    committed(tmp_path, 0, [{"add": {"path": name}} for name in names])
    committed(tmp_path, 1, [{"remove": {"path": names[1]}}])
    assert [finding.id for finding in read_newest(tmp_path, 10)] == [FULL.id]
    assert [finding.id for finding in TablePast(tmp_path).find(Wanted())] == [FULL.id]
    views = queries.views("duckdb", tmp_path, tmp_path)
    assert str(kept) in views
    assert str(gone) not in views
    assert "USING delta" in queries.views("spark", tmp_path, tmp_path)


def test_a_table_of_the_other_format_is_refused_by_name(tmp_path: Path) -> None:
    write_findings(tmp_path / "old", [FULL], "q", 1)
    require_format(tmp_path / "old", delta=False)
    with pytest.raises(ConfigError, match="holds a Parquet table"):
        require_format(tmp_path / "old", delta=True)
    committed(tmp_path / "new", 0, VERSIONS[0])
    require_format(tmp_path / "new", delta=True)
    with pytest.raises(ConfigError, match="holds a Delta table"):
        require_format(tmp_path / "new", delta=False)
    require_format(tmp_path / "none", delta=True)
    assert not is_delta(tmp_path / "none")


def test_delta_follows_sparks_minor_release() -> None:
    assert str(delta_coordinate("4.0.5", "2.13.16")) == "io.delta:delta-spark_2.13:4.0.0"
    assert str(delta_coordinate("3.5.7", "2.12")) == "io.delta:delta-spark_2.12:3.3.2"
    with pytest.raises(ConfigError, match=r"no Delta is known for Spark 9\.9\.9"):
        delta_coordinate("9.9.9", "2.13")


def test_other_extensions_stay_and_databricks_keeps_its_own() -> None:
    assert session_settings({EXTENSIONS: "a.B"}, {})[EXTENSIONS] == f"{EXTENSION},a.B"
    assert session_settings({"x": "y"}, {"DATABRICKS_RUNTIME_VERSION": "17"}) == {"x": "y"}
