"""The findings table as the API's past: whatever happened to its files, it says what a fresh reader would."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard.tables import pieces as pieces_module
from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA, finding_of, write_findings
from rebalance_monitor.dashboard.tables.parquet import parquet_file
from rebalance_monitor.dashboard.tables.upkeep import delete_days, merge_small
from rebalance_monitor.dashboard.web.past import table_past
from rebalance_monitor.dashboard.web.past.past import LATEST_MS, Wanted, newest
from rebalance_monitor.dashboard.web.past.table_past import TablePast
from tests.dashboard.web import known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.findings.finding import Finding

QUERY = "0b31a4ad-56b8"
DAY = 86_400_000
ROOM = 600_000
GROUPS = ("orders", "Straße", "ÇOK İyi", "orders  two")


def told(number: int, at: int, group: str = "orders", kind: Kind = Kind.REBALANCE) -> Finding:
    return known.rebalance(group, number, at, id=f"{number:016x}", kind=kind)


findings = st.builds(
    told,
    st.integers(0, 10**6),
    # Few moments, so that many findings share one, on the border of two days.
    st.sampled_from([known.T0 + days * DAY + ms for days in (0, 1, 2) for ms in (0, 1, 2, 3_600_000)]),
    st.sampled_from(GROUPS),
    st.sampled_from([Kind.REBALANCE, Kind.STORM]),
)
wants = st.builds(
    Wanted,
    group=st.sampled_from([None, None, *GROUPS]),
    kind=st.sampled_from(["", "", "storm", "rebalance"]),
    cause=st.sampled_from(["", "member_joined", "unknown"]),
    search=st.sampled_from(["", "", "strasse", "s-c1 /10", "joined orders", "i̇yi", "none", " ", "s  t"]),
    since=st.sampled_from([0, known.T0 + 1, known.T0 + DAY]),
    until=st.sampled_from([LATEST_MS, known.T0 + DAY + 1]),
    before=st.one_of(st.none(), st.tuples(st.just(known.T0 + DAY), st.sampled_from(["", "0", "f"]))),
    limit=st.sampled_from([1, 2, 5, 1_000]),
)


def everything(folder: Path) -> list[Finding]:
    """Read each file whole, as nothing that is kept does."""
    rows = [row for path in files(folder) for row in pq.ParquetFile(path).read().to_pylist()]
    return list({row["id"]: finding_of(row) for row in rows}.values())


class Table(RuleBasedStateMachine):
    """Batches, batches that run again, merges and retention, while one reader asks again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.folder = Path(self.home.name) / "findings"
        self.past = TablePast(self.folder, ROOM)
        self.batch = 0
        self.number = 0
        self.wrote = 1_700_000_000

    def teardown(self) -> None:
        self.home.cleanup()

    @rule(some=st.lists(findings, min_size=1, max_size=30))
    def append(self, some: list[Finding]) -> None:
        self.batch += 1
        self._write(some)

    @precondition(lambda self: self.batch > 0)
    @rule(some=st.lists(findings, min_size=1, max_size=5))
    def run_again(self, some: list[Finding]) -> None:
        self._write(some)

    @rule(small=st.sampled_from([1 << 24, 60_000]), group=st.sampled_from([3, 4_000]))
    def merge(self, small: int, group: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rebalance_monitor.dashboard.tables.parquet.ROWS_OF_GROUP", group)
            merge_small(self.folder, FINDINGS_SCHEMA, {QUERY: self.batch - 1}, small)

    @rule(days=st.integers(1, 3))
    def retire(self, days: int) -> None:
        delete_days(self.folder, days, datetime.fromtimestamp((known.T0 + 2 * DAY) / 1_000, UTC))

    @rule(wanted=wants)
    def ask(self, wanted: Wanted) -> None:
        fresh = newest(filter(wanted.takes, everything(self.folder)), wanted.limit)
        assert self.past.find(wanted) == fresh

    @invariant()
    def is_bounded(self) -> None:
        assert 0 <= self.past.kept_bytes <= ROOM

    def _write(self, some: list[Finding]) -> None:
        self.number += 10**7
        own = [replace(one, id=f"{self.number + number:016x}") for number, one in enumerate(some)]
        # A batch that runs again does so after a start, so its file has another age.
        self.wrote += 1
        for path in write_findings(self.folder, own, QUERY, self.batch):
            os.utime(path, (self.wrote, self.wrote))


TestTable = Table.TestCase
TestTable.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


def batches(folder: Path, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        write_findings(folder, [told(number, known.T0 + number)], QUERY, number)


def numbers(found: list[Finding]) -> list[int]:
    return [int(finding.id, 16) for finding in found]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are opened from now on."""
    names: list[str] = []

    def noted(path: Place) -> pq.ParquetFile:
        names.append(path.name)
        return parquet_file(path)

    monkeypatch.setattr(pieces_module, "parquet_file", noted)
    return names


def test_a_page_of_the_newest_opens_only_what_is_new(tmp_path: Path, opened: list[str]) -> None:
    batches(tmp_path, 30)
    past = TablePast(tmp_path)
    assert numbers(past.find(Wanted(limit=5))) == [29, 28, 27, 26, 25]
    # Thirty footers, and the rows of no more files than twice the page.
    assert len(opened) == 30 + 10
    opened.clear()
    batches(tmp_path, 1, start=30)
    assert numbers(past.find(Wanted(limit=3))) == [30, 29, 28]
    assert opened == [f"{QUERY}-0000000030.parquet"] * 2


def test_what_does_not_fit_in_memory_is_read_again(tmp_path: Path) -> None:
    batches(tmp_path, 12)
    past = TablePast(tmp_path, kept_bytes=150_000)
    for _ in range(3):
        assert numbers(past.find(Wanted(limit=12))) == list(range(12))[::-1]
        assert 0 < past.kept_bytes <= 150_000
    nothing = TablePast(tmp_path, kept_bytes=0)
    assert numbers(nothing.find(Wanted(limit=12))) == list(range(12))[::-1]
    assert nothing.kept_bytes == 0


def test_files_that_are_merged_between_listing_and_reading_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches(tmp_path, 6)
    merges = iter([True, False])

    def overtaken(folder: Place) -> Iterator[Place]:
        found = list(files(folder))
        if next(merges, False):
            merge_small(folder, FINDINGS_SCHEMA, {QUERY: 5})
        return iter(found)

    monkeypatch.setattr(table_past, "files", overtaken)
    assert numbers(TablePast(tmp_path).find(Wanted())) == [5, 4, 3, 2, 1, 0]


def test_a_listing_that_a_merge_runs_through_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches(tmp_path, 6)
    past = TablePast(tmp_path)
    assert len(past.find(Wanted())) == 6
    # Neither the small files, which were deleted before it came to them, nor the merged one, made behind it.
    torn = iter([[]])
    monkeypatch.setattr(table_past, "files", lambda folder: next(torn, None) or files(folder))
    assert len(past.find(Wanted())) == 6


def test_a_table_that_goes_at_every_look_is_an_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "date=2026-11-18" / "x-1.parquet"
    monkeypatch.setattr(table_past, "files", lambda _folder: iter([gone]))
    with pytest.raises(FileNotFoundError):
        TablePast(tmp_path).find(Wanted())


def test_files_of_other_writers_and_versions_are_read_by_their_names(tmp_path: Path) -> None:
    write_findings(tmp_path, [told(1, known.T0)], QUERY, 1)
    (path,) = files(tmp_path)
    table = pq.ParquetFile(path).read()
    # As Spark names what lists hold, in another order, without a column of a later version.
    element = pa.list_(pa.field("element", table.schema.field("causes").type.value_type))
    place = table.schema.get_field_index("causes")
    table = table.set_column(place, "causes", table["causes"].cast(element)).drop_columns(["sync_ms"])
    pq.write_table(table.select(table.column_names[::-1]), path, write_statistics=False)
    batches(tmp_path, 1, start=2)
    assert numbers(TablePast(tmp_path).find(Wanted(search="member_joined orders-c1"))) == [2, 1]


@pytest.mark.parametrize("before", [(-(10**40), ""), (10**40, "zz"), (known.T0, "\udcff")])
def test_cursors_from_nowhere_are_answered(tmp_path: Path, before: tuple[int, str]) -> None:
    batches(tmp_path, 2)
    wanted = Wanted(before=before)
    assert TablePast(tmp_path).find(wanted) == newest(filter(wanted.takes, everything(tmp_path)), 100)


def test_many_readers_at_once_get_the_same(tmp_path: Path) -> None:
    batches(tmp_path, 40)
    past = TablePast(tmp_path, kept_bytes=200_000)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda limit: numbers(past.find(Wanted(limit=limit))), [40, 3, 17] * 10))
    assert {len(one): one for one in found} == {n: list(range(40))[::-1][:n] for n in (40, 3, 17)}
    assert 0 < past.kept_bytes <= 200_000
