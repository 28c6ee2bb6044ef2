"""Audits: real captures keep every contract, and each planted fault breaks exactly the one that names it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_monitor.dashboard.audit.check import Outcome
from rebalance_monitor.dashboard.audit.contracts import CONTRACTS, FINDINGS, GROUPS, RECORDS
from rebalance_monitor.dashboard.audit.frames import findings_frame
from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA, newest_rows
from rebalance_monitor.engine.audit.auditing import of_capture, records, sentence, unmet
from tests.dashboard.support.played import SCENARIOS
from tests.dashboard.support.tables import write_tables

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

CAPTURE = SCENARIOS / "python-4.1.1" / "capture"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_tables(folder / "tables")
    return folder


@pytest.fixture(scope="module")
def rows(home: Path) -> list[dict[str, Any]]:
    return newest_rows(home / "tables" / "findings", 10_000)


def broken(frame: pd.DataFrame) -> set[str]:
    """The columns of judgement that say no."""
    wrong = {name for name in ("phase_fits", "incident_fits", "generation_grows") if not frame[name].all()}
    return wrong | {name for name in ("strange_causes", "strange_details") if (frame[name] != "").any()}


def test_real_findings_break_nothing(rows: list[dict[str, Any]]) -> None:
    frame = findings_frame(rows, None)
    assert broken(frame) == set()
    assert (frame["date"] == frame["date_of_at"]).all()


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ("rebalance", {"generation": -7, "causes": []}, "generation_grows"),
        ("rebalance", {"details": '{"nonsense": 1}'}, "strange_details"),
        ("rebalance", {"details": "not json"}, "strange_details"),
        ("rebalance", {"phase": "opened", "incident": "i"}, "phase_fits"),
        ("group_empty", {"incident": None}, "incident_fits"),
        ("rebalance", {"causes": [{"cause": "gremlins", "confidence": 1.0}]}, "strange_causes"),
    ],
)
def test_a_planted_fault_is_seen(
    rows: list[dict[str, Any]], kind: str, change: dict[str, Any], says: str
) -> None:
    number = [n for n, row in enumerate(rows) if row["kind"] == kind][-1]
    planted = [*rows[:number], {**rows[number], **change}, *rows[number + 1 :]]
    assert broken(findings_frame(planted, None)) == {says}


def test_a_group_that_was_removed_begins_anew(rows: list[dict[str, Any]]) -> None:
    rebalance = next(row for row in rows if row["kind"] == "rebalance")
    removed = next(row for row in rows if row["kind"] == "group_removed")
    plain = {**rebalance, "causes": [], "group": "g", "offset": 1}
    first = {**plain, "generation": 5, "at": 1}
    gone = {**removed, "group": "g", "at": 2, "cluster": plain["cluster"]}
    again = {**plain, "generation": 1, "at": 3}
    assert findings_frame([first, gone, again], None)["generation_grows"].all()
    assert not findings_frame([first, again], None)["generation_grows"].all()


def test_records_lie_where_their_groups_hash_says() -> None:
    sampled = of_capture(CAPTURE)
    frame = records(sampled, 5_000)
    assert len(frame) == 5_000
    assert (frame["partition"] == frame["partition_of_group"]).all()
    assert (frame["reason"] == "").all()
    assert not frame.duplicated(["partition", "offset"]).any()


def test_what_does_not_hold_is_one_sentence_and_a_number_per_suite() -> None:
    outcomes = [Outcome("findings", "ids are unique", holds=False, rows=9, breaking=2)]
    outcomes.append(Outcome("groups", "every group stands there once", holds=True, rows=9, breaking=0))
    assert unmet(outcomes) == {"findings": 1, "groups": 0}
    assert "findings: ids are unique (2 rows)" in sentence(outcomes)
    assert sentence(outcomes[1:]) == ""


def test_every_suite_has_contracts_in_words() -> None:
    assert {contract.suite for contract in CONTRACTS} == {RECORDS, FINDINGS, GROUPS}
    assert all(contract.means for contract in CONTRACTS)


def audited(home: Path) -> tuple[int, list[dict[str, Any]]]:
    # In a process of its own, as always: the library takes seconds to import, and warns as it does.
    code = "import sys; from rebalance_monitor.cli.main import main; main()"
    given = ["audit", "--capture", str(CAPTURE), "--set", f"storage.path={home}", "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *given], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
def test_great_expectations_passes_what_is_real_and_names_what_is_planted(home: Path) -> None:
    """Two runs of the verb: over real tables, then with one finding written twice in the wrong folder."""
    pytest.importorskip("great_expectations")
    code, outcomes = audited(home)
    assert [one for one in outcomes if one["holds"] != "yes"] == []
    assert code == 0
    assert len(outcomes) == len(CONTRACTS)
    index = (home / "audit" / "index.html").read_text(encoding="utf-8")
    assert all(suite in index for suite in (RECORDS, FINDINGS, GROUPS))
    table = pq.ParquetFile(min(files(home / "tables" / "findings"))).read().slice(0, 1)
    twice = home / "tables" / "findings" / "date=1999-01-01" / "planted.parquet"
    twice.parent.mkdir()
    pq.write_table(pa.table(table, schema=FINDINGS_SCHEMA), twice)
    code, outcomes = audited(home)
    assert code == 1
    assert {one["contract"] for one in outcomes if one["holds"] != "yes"} == {
        "ids are unique",
        "a row lies in the folder of its own date",
    }
