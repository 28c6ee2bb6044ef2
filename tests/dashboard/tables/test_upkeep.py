"""Merging small files and deleting old days: no row is lost or doubled, wherever it dies."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
from rebalance_monitor.cli.main import run
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.dashboard.tables import findings_table, upkeep
from rebalance_monitor.dashboard.tables.files import files, forget_uncommitted
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA, read_newest, write_findings
from rebalance_monitor.dashboard.tables.keeper import Chore, Keeper
from rebalance_monitor.dashboard.tables.upkeep import NOTE, delete_days, mend, merge_small, table_lock
from rebalance_monitor.engine.storage import Storage
from tests.dashboard.support.tables import QUERY
from tests.dashboard.tables.test_tables import DAY, FULL

if TYPE_CHECKING:
    from collections.abc import Callable


class DiedError(Exception):
    """The process was killed."""


def written(folder: Path, batches: int, per_batch: int = 2) -> list[str]:
    """Write batches over two days; return the ids of all findings."""
    ids = []
    for batch in range(batches):
        findings = [
            replace(FULL, id=f"{batch:08d}{n:08d}", at=FULL.at + (batch % 2) * DAY) for n in range(per_batch)
        ]
        write_findings(folder, findings, QUERY, batch)
        ids += [finding.id for finding in findings]
    return sorted(ids)


def ids(folder: Path) -> list[str]:
    return sorted(i for path in files(folder) for i in pq.ParquetFile(path).read()["id"].to_pylist())


def test_a_merge_meanwhile_keeps_nobody_from_the_newest_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = written(tmp_path, 4)
    listed = [list(files(tmp_path))]
    merge_small(tmp_path, FINDINGS_SCHEMA, {QUERY: 3})
    monkeypatch.setattr(findings_table, "files", lambda folder: listed.pop() if listed else files(folder))
    assert sorted(one.id for one in read_newest(tmp_path, 100)) == sorted(ids)
    assert listed == []


def test_small_files_become_one_a_day_with_every_row(tmp_path: Path) -> None:
    expected = written(tmp_path, 8)
    before = {f.id: f for f in read_newest(tmp_path, 1_000)}
    report = merge_small(tmp_path, FINDINGS_SCHEMA, {QUERY: 7})
    assert (report.merged, report.into, report.rows) == (8, 2, 16)
    assert len(list(files(tmp_path))) == 2
    assert ids(tmp_path) == expected
    assert {f.id: f for f in read_newest(tmp_path, 1_000)} == before
    assert merge_small(tmp_path, FINDINGS_SCHEMA, {QUERY: 7}).merged == 0


def test_files_that_a_batch_may_still_replace_are_left_alone(tmp_path: Path) -> None:
    expected = written(tmp_path, 10)
    merge_small(tmp_path, FINDINGS_SCHEMA, {QUERY: 6})
    write_findings(tmp_path, [replace(FULL, id="again")], QUERY, 8)
    assert ids(tmp_path) == sorted([i for i in expected if not i.startswith("00000008")] + ["again"])
    forget_uncommitted(tmp_path, {QUERY: 6})
    assert ids(tmp_path) == [i for i in expected if int(i[:8]) <= 6]


def test_merged_files_are_merged_again_until_they_are_large(tmp_path: Path) -> None:
    expected = written(tmp_path, 12)
    size = max(path.stat().st_size for path in files(tmp_path))
    merge_small(tmp_path, FINDINGS_SCHEMA, {QUERY: 99}, small_bytes=2 * size + 1)
    assert len(list(files(tmp_path))) > 2
    assert ids(tmp_path) == expected


def test_files_of_an_older_schema_are_taken_along(tmp_path: Path) -> None:
    expected = written(tmp_path, 4)
    path = min(files(tmp_path))
    old = pq.ParquetFile(path).read().drop_columns(["resolution", "details"])
    pq.write_table(old, path)
    merge_small(tmp_path, FINDINGS_SCHEMA, {QUERY: 99})
    assert ids(tmp_path) == expected
    for merged in files(tmp_path):
        assert pq.ParquetFile(merged).schema_arrow.names == FINDINGS_SCHEMA.names


def mortal(monkeypatch: pytest.MonkeyPatch, dies_at: int) -> None:
    """Let the process die at the n-th step that changes a file's name."""
    steps = count()

    def step(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - stands for several functions
            if next(steps) == dies_at:
                raise DiedError
            return function(*given, **named)

        return call

    monkeypatch.setattr(upkeep, "replace_file", step(upkeep.replace_file))
    monkeypatch.setattr(upkeep, "sync_folder", step(upkeep.sync_folder))
    monkeypatch.setattr(Path, "unlink", step(Path.unlink))
    monkeypatch.setattr(Path, "replace", step(Path.replace))


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 40), st.integers(2, 9))
def test_wherever_a_merge_dies_every_row_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, dies_at: int, batches: int
) -> None:
    folder = tmp_path_factory.mktemp("table")
    expected = written(folder, batches)
    with pytest.MonkeyPatch.context() as patch:
        mortal(patch, dies_at)
        try:
            merge_small(folder, FINDINGS_SCHEMA, {QUERY: 99})
        except DiedError:
            assert set(ids(folder)) == set(expected)
    mend(folder)
    assert ids(folder) == expected
    assert not list(folder.glob(f"date=*/{NOTE}"))
    merge_small(folder, FINDINGS_SCHEMA, {QUERY: 99})
    assert ids(folder) == expected


def test_old_days_go_and_today_counts(tmp_path: Path) -> None:
    written(tmp_path, 4)
    now = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
    assert delete_days(tmp_path, 2, now) == 0
    assert delete_days(tmp_path, 1, now) == 1
    assert [day.name for day in tmp_path.glob("date=*")] == ["date=2026-11-21"]


def test_the_verb_tends_the_table_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = Storage(tmp_path)
    expected = written(storage.findings, 6)
    Ledger(storage.ledger).commit(Snapshot(batches={QUERY: 5}))
    at = ["--set", f"storage.path={tmp_path}", "-o", "json"]
    assert run(["table", "optimize", *at]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {"files merged": 6, "into": 2, "rows": 12, "days deleted": 0}
    assert ids(storage.findings) == expected
    assert run(["table", "optimize", "--keep", "1d", *at]) == 0
    assert json.loads(capsys.readouterr().out)[0]["days deleted"] >= 1


def test_one_upkeep_at_a_time(tmp_path: Path) -> None:
    with table_lock(tmp_path), pytest.raises(ConfigError, match="another upkeep"), table_lock(tmp_path):
        pytest.fail("two upkeeps at once")


def test_merging_needs_nothing_but_the_columns(tmp_path: Path) -> None:
    schema = pa.schema([("at", pa.int64()), ("x", pa.string())])
    day = tmp_path / "date=2026-01-01"
    day.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"at": [3 - number], "x": [str(number)]}), day / f"q-{number}.parquet")
    merge_small(tmp_path, schema, {"q": 9})
    (path,) = files(tmp_path)
    assert pq.ParquetFile(path).read()["x"].to_pylist() == ["2", "1", "0"]


def test_a_chore_that_fails_runs_again_and_the_last_one_runs_at_the_end() -> None:
    ran: list[str] = []

    def fail() -> None:
        ran.append("fails")
        raise OSError("disk full")

    chores = [Chore("a", 0.01, fail), Chore("b", 999.0, lambda: ran.append("end"), at_end=True)]
    with Keeper([*chores, Chore("never", 0.0, lambda: ran.append("never"))]):
        while ran.count("fails") < 3:
            pass
    assert ran.count("end") == 1
    assert "never" not in ran


def test_a_chore_that_takes_long_rests_longer_than_its_interval() -> None:
    now, ran = [0.0], {"slow": 0, "quick": 0}

    def slow() -> None:
        ran["slow"] += 1
        now[0] += 1_000.0

    def quick() -> None:
        ran["quick"] += 1

    with Keeper([Chore("slow", 0.001, slow), Chore("quick", 0.002, quick)], lambda: now[0]):
        while not ran["slow"] or ran["quick"] < 20:
            pass
    assert ran["slow"] == 1
