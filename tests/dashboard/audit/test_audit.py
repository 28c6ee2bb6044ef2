"""Audits: real captures keep every contract, and each planted fault breaks exactly the one that names it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_monitor.dashboard.audit import frames
from rebalance_monitor.dashboard.audit.check import Outcome, quick
from rebalance_monitor.dashboard.audit.contracts import CONTRACTS, FINDINGS, GROUPS, RECORDS
from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA, newest_rows
from rebalance_monitor.engine.audit.auditing import of_capture, records, sentence, tables, unmet
from rebalance_monitor.engine.storage import storage_at
from tests.dashboard.support.played import SCENARIOS
from tests.dashboard.support.tables import write_tables

if TYPE_CHECKING:
    from pathlib import Path

CAPTURE = SCENARIOS / "python-4.1.1" / "capture"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_tables(folder / "tables")
    return folder


@pytest.fixture(scope="module")
def rows(home: Path) -> list[dict[str, Any]]:
    return newest_rows(home / "tables" / "findings", 10_000)


def findings_frame(rows: list[dict[str, Any]], place: None) -> pd.DataFrame:
    return pd.DataFrame.from_records(frames.findings_frame(rows, place))


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
    frame = pd.DataFrame.from_records(records(sampled, 5_000))
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


def checked_quickly(home: Path) -> list[tuple[str, str, bool, int]]:
    storage = storage_at(str(home))
    frames = {RECORDS: records(of_capture(CAPTURE), 2_000), **tables(storage, 2_000, 50)}
    return [(one.suite, one.means, one.holds, one.breaking) for one in quick(frames)]


def test_without_great_expectations_what_is_real_keeps_every_contract(home: Path) -> None:
    outcomes = checked_quickly(home)
    assert len(outcomes) == len(CONTRACTS)
    assert [one for one in outcomes if not one[2]] == []


def test_without_great_expectations_a_planted_fault_breaks_the_contract_that_names_it(
    rows: list[dict[str, Any]],
) -> None:
    frame = frames.findings_frame(rows, None)
    for change, says in (
        ({"id": frame[1]["id"]}, "ids are unique"),
        ({"id": "Z" * 16}, "ids are 16 hex digits"),
        ({"kind": "gremlin"}, "kinds are from the list"),
        ({"confidence": 1.5}, "confidences lie in [0, 1]"),
        ({"date": "1999-01-01"}, "a row lies in the folder of its own date"),
    ):
        planted = [{**frame[0], **change}, *frame[1:]]
        assert {one.means for one in quick({FINDINGS: planted}) if not one.holds} == {says}


def test_a_share_of_the_records_may_be_unreadable() -> None:
    frame = records(of_capture(CAPTURE), 1_000)
    for bad, holds in ((10, True), (11, False)):
        planted = [{**row, "reason": "truncated" if n < bad else ""} for n, row in enumerate(frame)]
        outcomes = {one.means: one for one in quick({RECORDS: planted})}
        assert outcomes["at least 99% of the records are readable"].holds is holds


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
    told = [(one["suite"], one["contract"], one["holds"] == "yes", one["breaking"]) for one in outcomes]
    assert sorted(told) == sorted(checked_quickly(home))
    assert code == 1
    assert {one["contract"] for one in outcomes if one["holds"] != "yes"} == {
        "ids are unique",
        "a row lies in the folder of its own date",
    }
