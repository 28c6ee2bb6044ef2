"""The dashboard among the sinks: what is committed is shown, once, across restarts, with Spark's measures."""

from __future__ import annotations

import subprocess
import sys
import time
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.config.dashboard import Audit, Tables
from rebalance_monitor.config.durations import Duration
from rebalance_monitor.config.model import Settings
from rebalance_monitor.config.web import Web
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.dashboard.audit.check import Outcome
from rebalance_monitor.dashboard.metrics.collector import exposition
from rebalance_monitor.dashboard.metrics.tallies import Limits, Tallies
from rebalance_monitor.dashboard.tables.groups_table import FILE, read_groups
from rebalance_monitor.engine.audit import auditor as auditing
from rebalance_monitor.engine.audit.auditor import Auditor
from rebalance_monitor.engine.batch.batches import BatchKey
from rebalance_monitor.engine.batch.progress import Progress
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.outputs.serving import Serving
from rebalance_monitor.engine.outputs.sinks import FindingsTable
from rebalance_monitor.engine.outputs.upkeep import ParquetFindings
from rebalance_monitor.engine.storage import Storage
from tests.streaming.support.batches import BATCHES, QUERY, SETTINGS, DiedError, MortalLedger

if TYPE_CHECKING:
    from pathlib import Path

QUIET = Settings(
    web=Web(enabled=False), audit=Audit(every_batches=0), tables=Tables(groups_interval=Duration("999s"))
)


def serving_at(storage: Storage) -> Serving:
    return Serving(QUIET, storage, "c1", Notices(), ParquetFindings(storage))


def writer_of(storage: Storage, serving: Serving, ledger: Ledger | None = None) -> BatchWriter:
    ledger = ledger or Ledger(storage.ledger)
    sinks = [FindingsTable(storage.findings), serving]
    return BatchWriter(
        ledger,
        ledger.load().on_topic("topic", "c1"),
        sinks,
        Parts(SETTINGS, "c1", list),
        wall_ms=lambda: 70_000,
    )


def scraped(serving: Serving) -> str:
    return exposition(serving.metrics, "")[0].decode()


def test_what_batches_say_is_shown_and_counted(tmp_path: Path) -> None:
    serving = serving_at(Storage(tmp_path))
    writer = writer_of(Storage(tmp_path), serving)
    for number, batch in enumerate(BATCHES):
        writer.apply(BatchKey(QUERY, number), batch)
    assert serving.snapshot.known.health.batch == len(BATCHES) - 1
    assert serving.snapshot.known.health.is_ready
    page = scraped(serving)
    for line in (
        f'rebalance_monitor_batches_total{{cluster="c1"}} {len(BATCHES)}.0',
        'rebalance_monitor_records_read_total{cluster="c1",type="group_metadata"}',
        'rebalance_monitor_records_read_total{cluster="c1",type="offset_commit"}',
        'rebalance_monitor_records_unreadable_total{cluster="c1",reason="truncated"} 3.0',
        'rebalance_monitor_findings_total{cluster="c1",kind="rebalance",severity="info"}',
    ):
        assert line in page


def test_a_batch_that_runs_again_counts_once(tmp_path: Path) -> None:
    serving, ledger = serving_at(Storage(tmp_path)), MortalLedger(Storage(tmp_path).ledger)
    writer = writer_of(Storage(tmp_path), serving, ledger)
    ledger.dies = "before"
    with pytest.raises(DiedError):
        writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    assert serving.snapshot.known.health.batch == -1
    ledger.dies = ""
    writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    assert 'rebalance_monitor_batches_total{cluster="c1"} 1.0' in scraped(serving)


@pytest.mark.parametrize("batches", [3, 4, 5])
def test_a_stopped_job_begins_where_it_was(tmp_path: Path, batches: int) -> None:
    storage = Storage(tmp_path)
    serving = serving_at(storage)
    with serving:
        writer = writer_of(storage, serving)
        for number, batch in enumerate(BATCHES[:batches]):
            writer.apply(BatchKey(QUERY, number), batch)
        assert not (storage.groups / FILE).exists()
    assert (storage.groups / FILE).exists()
    again = serving_at(storage)
    writer_of(storage, again)
    before, after = serving.snapshot.known, again.snapshot.known
    assert {name: view.summary for name, view in after.groups.items()} == {
        name: dict(view.summary) for name, view in before.groups.items()
    }
    assert bool(before.groups) == (batches < 5)
    for name, view in before.groups.items():
        assert {f.id for f in after.groups[name].recent} == {f.id for f in view.recent}
    assert after.incidents.open.keys() == before.incidents.open.keys()
    assert not after.health.is_ready
    assert read_groups(storage.groups).groups.keys() == before.groups.keys()


def test_a_damaged_table_costs_the_dashboard_its_memory_and_nothing_else(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.groups.mkdir(parents=True)
    (storage.groups / FILE).write_bytes(b"no parquet")
    serving = serving_at(storage)
    writer_of(storage, serving).apply(BatchKey(QUERY, 0), BATCHES[0])
    assert serving.snapshot.known.health.batch == 0


def test_a_batch_that_cannot_be_shown_is_published_all_the_same(tmp_path: Path) -> None:
    serving = serving_at(Storage(tmp_path))
    writer = writer_of(Storage(tmp_path), serving)
    odd = deepcopy(BATCHES[0])
    odd.stats[0][1].data["groups"] = "many"
    writer.apply(BatchKey(QUERY, 0), odd)
    writer.apply(BatchKey(QUERY, 1), BATCHES[1])
    assert serving.snapshot.known.health.batch == 1


def test_an_engines_report_gives_stages_lag_and_the_memory_of_its_stores(tmp_path: Path) -> None:
    serving = serving_at(Storage(tmp_path))
    serving.on_progress(Progress(None, {"addBatch": 0.25, "walCommit": 0.04}, 2, 340))
    assert 'rebalance_monitor_lag_records{cluster="c1"} 2.0' in scraped(serving)
    assert 'rebalance_monitor_state_store_memory_bytes{cluster="c1"} 340.0' in scraped(serving)
    assert 'rebalance_monitor_batch_stage_seconds_count{cluster="c1",stage="addBatch"} 1.0' in scraped(
        serving
    )


PATIENCE_S = 60.0


class Audited:
    """An auditor whose process is a function of the test."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, found: Any) -> None:  # noqa: ANN401 - as sent
        monkeypatch.setattr(auditing, "LOOK_S", 0.01)
        monkeypatch.setattr(Auditor, "_apart", lambda _: found)
        self.tallies, self.notices = Tallies(Limits()), Notices()
        settings = QUIET.model_copy(update={"audit": Audit(every_batches=3)})
        self.auditor = Auditor(settings, Storage(path), self.tallies, self.notices)

    def after(self, batches: int, wait_s: float = 0.1) -> str | None:
        with self.auditor:
            self.tallies.batches = batches
            deadline = time.monotonic() + wait_s
            while self._told() is None and time.monotonic() < deadline:
                time.sleep(0.01)
        return self._told()

    def _told(self) -> str | None:
        return self.notices.condition(Cause.CONTRACT_BROKEN)


BROKEN = [Outcome("findings", "ids are unique", holds=False, rows=9, breaking=2)]


def test_an_audit_comes_after_so_many_batches_and_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Audited(tmp_path, monkeypatch, BROKEN)
    assert one.after(2) is None
    two = Audited(tmp_path, monkeypatch, BROKEN)
    assert "ids are unique" in (two.after(3, PATIENCE_S) or "")
    assert two.tallies.audits == {"findings": 1}
    fine = [Outcome("findings", "ids are unique", holds=True, rows=9, breaking=0)]
    assert Audited(tmp_path, monkeypatch, fine).after(3, PATIENCE_S) == ""


def test_what_an_audit_found_does_not_stay_open_once_nothing_is_audited(tmp_path: Path) -> None:
    notices = Notices()
    settings = QUIET.model_copy(update={"audit": Audit(every_batches=0)})
    Auditor(settings, Storage(tmp_path), Tallies(Limits()), notices)
    assert notices.condition(Cause.CONTRACT_BROKEN) == ""


def test_an_audit_that_fails_says_nothing_about_contracts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Audited(tmp_path, monkeypatch, "DependencyError: no broker")
    assert failed.after(3) is None
    assert failed.tallies.audits == {}


# In a process of its own: what other tests of this one log is not what an audit leaves on a job's log.
AUDITING = """
import sys, time
from pathlib import Path
from rebalance_monitor.config.dashboard import Audit
from rebalance_monitor.config.model import Settings
from rebalance_monitor.dashboard.metrics.tallies import Limits, Tallies
from rebalance_monitor.engine.audit.auditor import Auditor
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.storage import Storage

settings = Settings(kafka={"bootstrap_servers": "127.0.0.1:1"}, audit=Audit(every_batches=1))
tallies = Tallies(Limits())
print(repr(Auditor(settings, Storage(Path(sys.argv[1])), tallies, Notices())._apart()))
tallies.batches = 1
with Auditor(settings, Storage(Path(sys.argv[1])), tallies, Notices()) as auditor:
    while auditor._process is None:
        time.sleep(0.01)
print(tallies.audits)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_audit_runs_in_a_process_of_its_own_and_an_ended_one_is_no_error(
    tmp_path: Path,
) -> None:
    """The real process, without a broker: it says so. Then one that is ended at once. The log stays ours."""
    done = subprocess.run(
        [sys.executable, "-c", AUDITING, tmp_path], check=True, capture_output=True, text=True, timeout=280
    )
    said, audits = done.stdout.splitlines()
    assert "BrokerUnreachableError" in said
    assert audits == "{}"
    assert done.stderr == ""
