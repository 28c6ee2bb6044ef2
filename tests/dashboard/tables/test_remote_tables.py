"""The tables in a folder that is a URI: written, forgotten, merged, aged and read as on a path."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard.tables.files import files, forget_uncommitted
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA, read_newest, write_findings
from rebalance_monitor.dashboard.tables.groups_table import GroupsTable, read_groups
from rebalance_monitor.dashboard.tables.quarantine_table import Unreadable, write_quarantine
from rebalance_monitor.dashboard.tables.upkeep import delete_days, mend, merge_small
from rebalance_monitor.dashboard.view.snapshot import Known, Update
from rebalance_monitor.dashboard.web.past.past import Wanted
from rebalance_monitor.dashboard.web.past.table_past import TablePast
from tests.alerts.support.findings import AT, finding
from tests.checkpoints.stores import faulty_place, s3_place

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.findings.finding import Finding

DAY = 86_400_000


@pytest.fixture(params=["path", "moves_onto_nothing", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "path":
            return tmp_path / "findings"
        case "moves_onto_nothing":
            return faulty_place(tmp_path) / "findings"
        case _:
            return s3_place(request.getfixturevalue("s3"), uuid.uuid4().hex) / "findings"


def some(number: int, days: int = 0) -> Finding:
    at = AT + number + days * DAY
    return replace(finding(Kind.REBALANCE, at=at, detected_at=at), id=f"f{number}")


def ids(folder: Place) -> list[str]:
    return sorted(found.id for found in read_newest(folder, 1_000))


def test_a_batch_that_runs_again_replaces_its_files_and_the_uncommitted_goes(folder: Place) -> None:
    for batch in (0, 1, 1, 2):
        write_findings(folder, [some(batch), some(batch + 10, days=1)], "q", batch)
    assert ids(folder) == ["f0", "f1", "f10", "f11", "f12", "f2"]
    assert len(forget_uncommitted(folder, {"q": 1})) == 2
    assert ids(folder) == ["f0", "f1", "f10", "f11"]


def test_small_files_are_merged_without_losing_or_doubling_a_row(folder: Place) -> None:
    for batch in range(6):
        write_findings(folder, [some(batch)], "q", batch)
    done = merge_small(folder, FINDINGS_SCHEMA, {"q": 4})
    assert (done.merged, done.into, done.rows) == (5, 1, 5)
    assert len(list(files(folder))) == 2
    assert ids(folder) == [f"f{number}" for number in range(6)]
    assert mend(folder) == 0


def test_old_days_go(folder: Place) -> None:
    for days in range(4):
        write_findings(folder, [some(days, days)], "q", days)
    now = datetime.fromtimestamp((AT + 3 * DAY) / 1_000, UTC)
    assert delete_days(folder, 2, now) == 2
    assert ids(folder) == ["f2", "f3"]


def test_the_past_is_looked_up_by_what_is_asked(folder: Place) -> None:
    for days in range(3):
        write_findings(folder, [some(days, days)], "q", days)
    past = TablePast(folder)
    assert [found.id for found in past.find(Wanted())] == ["f2", "f1", "f0"]
    assert [found.id for found in past.find(Wanted(since=AT + DAY, until=AT + 2 * DAY))] == ["f1"]
    assert past.find(Wanted(kind="storm")) == []


def test_what_groups_are_now_comes_back(folder: Place) -> None:
    groups = folder.parent / "groups"
    assert read_groups(groups) == Known()
    known = Known().after(Update(findings=[some(0)], now=AT, wall=AT))
    for _ in range(2):
        GroupsTable(groups).write(known, AT)
    assert set(read_groups(groups).groups) == set(known.groups)


def test_the_quarantine_keeps_the_newest_rows(folder: Place) -> None:
    for batch in range(5):
        record = Unreadable(0, batch, AT + batch, "g", "bad", "key", 0, "f", None, b"k", None)
        write_quarantine(folder, [record] * 2, "q", batch, AT, limit=6)
    assert sum(1 for _ in files(folder)) == 3


def test_a_day_that_was_deleted_can_be_written_again(folder: Place) -> None:
    write_findings(folder, [some(0)], "q", 0)
    assert delete_days(folder, 1, datetime.fromtimestamp((AT + DAY) / 1_000, UTC)) == 1
    write_findings(folder, [some(1)], "q", 1)
    assert ids(folder) == ["f1"]
