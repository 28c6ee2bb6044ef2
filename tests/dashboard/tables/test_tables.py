"""The tables: every field of a finding survives, and a batch is in the table once or not at all."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import (
    FIELDS,
    CauseEntry,
    Coordinator,
    Finding,
    MemberEntry,
    from_dict,
)
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.dashboard.tables import quarantine_table
from rebalance_monitor.dashboard.tables.files import date_of, files, forget_uncommitted
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA, write_findings
from rebalance_monitor.dashboard.tables.parquet import ROWS_OF_GROUP
from rebalance_monitor.dashboard.tables.quarantine_table import (
    QUARANTINE_SCHEMA,
    Unreadable,
    write_quarantine,
)

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "0b31a4ad-56b8-4b1c-9a39-2a50c2f4e5f1"
DAY = 86_400_000
FULL = Finding(
    id="0123456789abcdef",
    kind=Kind.REBALANCE,
    scope=Scope.GROUP,
    severity=Severity.INFO,
    evidence="read",
    confidence=0.75,
    history=True,
    late=True,
    cluster="c",
    group="orders-ä",
    groups=("a", "b"),
    groups_total=2,
    group_type="classic",
    protocol_type="consumer",
    protocol="range",
    state="Stable",
    shard=49,
    offset=2**62,
    generation=7,
    previous_generation=6,
    leader="m1",
    previous_leader="m2",
    coordinator=Coordinator(3, 12),
    topics=("t",),
    topics_total=1,
    at=1_795_218_556_552,
    detected_at=1_795_218_557_000,
    started_at_min=1,
    started_at_max=2,
    join_ms_min=3,
    join_ms_max=4,
    sync_ms=5,
    stopped_ms_min=6,
    stopped_ms_max=7,
    members_total=2,
    members_affected=1,
    partitions_affected=3,
    causes=(CauseEntry(Cause.SESSION_TIMEOUT, 0.9, "silent for 6.9 s", "m2", "client", "/h", "i"),),
    members=(MemberEntry("m2", "i", "client", "/h", True, "left", 6000, 8000, 9, 6900, 3),),  # noqa: FBT003
    incident="0123456789abcdef",
    phase="opened",
    opened_at=8,
    resolution="completed",
    details={"text": "x", "whole": 1, "real": 0.5},
)


def read(folder: Path) -> list[dict[str, Any]]:
    rows = [row for path in files(folder) for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(rows, key=lambda row: str(row.get("id", row.get("offset"))))


def test_every_field_of_a_finding_survives_the_table(tmp_path: Path) -> None:
    write_findings(tmp_path, [FULL], QUERY, 0)
    (row,) = read(tmp_path)
    assert all(row[field.name] is not None for field in fields(Finding))
    assert from_dict({**row, "details": json.loads(row["details"])}) == FULL


@pytest.mark.parametrize("forged", [2**63, -(2**63) - 1, 2**70])
def test_a_number_that_no_column_holds_is_bounded(tmp_path: Path, forged: int) -> None:
    member = replace(FULL.members[0], silence_ms=forged, session_timeout_ms=forged)
    write_findings(tmp_path, [FULL, replace(FULL, id="f" * 16, sync_ms=forged, members=(member,))], QUERY, 0)
    whole, bounded = read(tmp_path)
    assert whole["sync_ms"] == FULL.sync_ms
    limit = 2**63 - 1 if forged > 0 else -(2**63)
    assert (bounded["sync_ms"], bounded["members"][0]["silence_ms"]) == (limit, limit)
    assert abs(bounded["members"][0]["session_timeout_ms"]) >= 2**31 - 1


def test_the_table_has_the_findings_fields_in_their_order() -> None:
    assert tuple(FINDINGS_SCHEMA.names) == FIELDS


def test_rows_lie_in_the_folder_of_their_own_date(tmp_path: Path) -> None:
    write_findings(tmp_path, [FULL, replace(FULL, id="f" * 16, at=FULL.at + DAY)], QUERY, 3)
    assert sorted(path.parent.name for path in files(tmp_path)) == ["date=2026-11-20", "date=2026-11-21"]


def test_many_rows_of_several_dates_are_all_there_and_in_order(tmp_path: Path) -> None:
    told = [replace(FULL, id=f"{n:016x}", at=FULL.at + n % 3 * DAY) for n in range(4 * ROWS_OF_GROUP + 5)]
    paths = write_findings(tmp_path, told, QUERY, 3)
    found = [[row["id"] for row in pq.ParquetFile(path).read().to_pylist()] for path in paths]
    assert found == [[finding.id for finding in told[day::3]] for day in range(3)]


def test_a_batch_without_findings_leaves_no_file(tmp_path: Path) -> None:
    assert write_findings(tmp_path, [], QUERY, 0) == []
    assert list(tmp_path.iterdir()) == []


def test_a_batch_that_runs_again_replaces_its_own_rows(tmp_path: Path) -> None:
    for _attempt in range(3):
        write_findings(tmp_path, [FULL], QUERY, 5)
    assert len(read(tmp_path)) == 1


def test_what_was_never_committed_is_forgotten(tmp_path: Path) -> None:
    for batch in range(4):
        write_findings(tmp_path, [replace(FULL, id=f"{batch:016d}")], QUERY, batch)
    write_findings(tmp_path, [replace(FULL, id="e" * 16)], "another-query", 0)
    (draft := next(files(tmp_path)).with_name(".x.parquet.draft")).write_bytes(b"half")
    forget_uncommitted(tmp_path, {QUERY: 1})
    assert [row["id"] for row in read(tmp_path)] == ["0" * 16, "0" * 15 + "1"]
    assert not draft.exists()


def test_a_file_no_batch_named_is_kept(tmp_path: Path) -> None:
    (compacted := tmp_path / "date=2026-11-20" / "compacted.parquet").parent.mkdir()
    compacted.write_bytes(b"")
    assert forget_uncommitted(tmp_path, {}) == []
    assert compacted.exists()


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_has_a_date(at: int) -> None:
    assert len(date_of(at)) == 10


AT = 1_795_000_000_000


def unreadable(offset: int) -> Unreadable:
    return Unreadable(
        1, offset, offset, "g", "truncated", "value", 3, "generation", 2, b"\0\2", bytes(offset % 7)
    )


def test_a_quarantined_record_keeps_its_bytes(tmp_path: Path) -> None:
    write_quarantine(tmp_path, [replace(unreadable(4), type=None, value=None)], QUERY, 0, AT)
    (row,) = read(tmp_path)
    assert list(row) == QUARANTINE_SCHEMA.names
    assert (row["key"], row["value"], row["type"]) == (b"\0\2", None, None)


@pytest.mark.parametrize("limit", [1, 7, 10])
def test_the_quarantine_is_bounded_and_keeps_the_newest(tmp_path: Path, limit: int) -> None:
    for batch in range(6):
        sample = [unreadable(batch * 5 + n) for n in range(5)]
        write_quarantine(tmp_path, sample, QUERY, batch, AT, limit)
    offsets = [row["offset"] for row in read(tmp_path)]
    assert 0 < len(offsets) <= limit
    assert max(offsets) == 29


def test_forged_times_make_no_folders_and_small_batches_no_end_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine_table, "FILES_KEPT", 3)
    for batch in range(5):
        forged = [replace(unreadable(batch), timestamp=day * 86_400_000) for day in range(40)]
        write_quarantine(tmp_path, forged, QUERY, batch, AT)
    assert [path.name for path in tmp_path.iterdir()] == [f"date={date_of(AT)}"]
    assert sorted({row["offset"] for row in read(tmp_path)}) == [2, 3, 4]
