"""A whole job whose findings go to Delta: killed between table and ledger, started again, kept, and read.

The storage is given as a URI and Spark's checkpoint apart from it, as where executors run elsewhere.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import duckdb
import httpx
import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.dashboard import queries
from rebalance_monitor.dashboard.tables.delta_log import read_log
from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.dashboard.tables.findings_table import read_newest
from rebalance_monitor.engine.batch.batches import MONITOR
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.suite.job import Job
from tests.processes import environment, module
from tests.streaming.test_end_to_end import PATIENCE_S, Members, joined

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.engine.storage import Storage
    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
GROUP = "delta"
MAIN = "from rebalance_monitor.cli.main import main; main()"


class Whole:
    """A job, and what lies in its storage folder."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.storage: Storage = storage_at(job.storage)
        # The ledger's snapshot after each batch of the query.
        self.ledgers: dict[int, bytes] = {}

    @property
    def written(self) -> dict[str, int]:
        """Query -> its last batch in the table."""
        if not (self.job.storage / "tables" / "findings" / "_delta_log").is_dir():
            return {}
        return dict(read_log(self.storage.findings).transactions)

    def committed(self) -> int:
        """The last batch in the ledger; what the ledger was after it is kept."""
        try:
            content = (self.job.storage / "ledger" / "snapshot.json").read_bytes()
        except FileNotFoundError:
            return -1
        batches = json.loads(content)["batches"]
        last = max((batch for query, batch in batches.items() if query != MONITOR), default=-1)
        self.ledgers[last] = content
        return last

    def kill(self) -> None:
        os.killpg(self.job._process.pid, signal.SIGKILL)
        self.job._process.wait()

    def kill_after_a_write(self) -> int:
        """Kill driver and JVM as soon as the table has a batch more; return that batch."""
        before = max(self.written.values(), default=-1)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self.committed()
            self.job.require()
            after = max(self.written.values(), default=-1)
            if after > before:
                self.kill()
                return after
            time.sleep(0.01)
        raise AssertionError(self.written)

    def forget(self, batch: int) -> None:
        """Make ledger and checkpoint as they were before `batch` was committed; the table keeps it."""
        newest = max(earlier for earlier in self.ledgers if earlier < batch)
        (self.job.storage / "ledger" / "snapshot.json").write_bytes(self.ledgers[newest])
        for path in self.job.storage.glob("state/*/*/commits/*"):
            if path.name.strip(".").partition(".")[0] == str(batch):
                path.unlink()

    def ids(self) -> list[str]:
        return sorted(finding.id for finding in read_newest(self.storage.findings, 100_000))

    def told(self) -> list[Finding]:
        """What stands in findings.jsonl, which is a folder of parts where the storage is a URI."""
        parts = sorted(path for path in (self.job.storage / "findings.jsonl").glob("[!.]*"))
        lines = b"".join(part.read_bytes() for part in parts).splitlines(keepends=True)
        return [from_json(line.decode()) for line in lines if line.endswith(b"\n")]

    def await_joined(self, client: str) -> None:
        """Wait for the finding that only this client joined."""

        def is_told() -> bool:
            self.job.require()
            return any(f.group == GROUP and joined(f) == {client} for f in self.told())

        assert wait_until(is_told, PATIENCE_S, every_s=0.3), self.told()


def verb(job: Job, *arguments: str) -> str:
    command = [sys.executable, "-c", MAIN, *arguments, "--config", str(job.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def test_a_killed_job_writes_each_finding_once_and_every_reader_finds_them(
    lab_broker: LabBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(lab_broker.bootstrap, tmp_path / "job")
    monkeypatch.setenv("REBALANCE_MONITOR_TABLES__FORMAT", "delta")
    monkeypatch.setenv("REBALANCE_MONITOR_STORAGE__PATH", job.storage.as_uri())
    monkeypatch.setenv("REBALANCE_MONITOR_STORAGE__CHECKPOINT", (job.storage / "state").as_uri())
    monkeypatch.setenv("REBALANCE_MONITOR_WEB__PORT", "0")
    whole = Whole(job)
    with ExitStack() as stack:
        members = Members(lab_broker.bootstrap, GROUP, tmp_path / "workers", stack)
        with job:
            job.wait_ready()
            members.start("stays")
            again = whole.kill_after_a_write()
        whole.committed()
        whole.forget(again)
        before = whole.ids()
        members.start("comes")
        with job:
            whole.await_joined("comes")
            page = httpx.get(f"{job.page()}/api/v1/findings?limit=500").json()
            assert page["source"] == "table"
            assert {row["id"] for row in page["rows"]} <= set(whole.ids())
            job._process.terminate()
            assert job._process.wait(180) == 0
    log = (tmp_path / "job" / "monitor.log").read_text(encoding="utf-8")
    assert f'"batch": {again}, "rows"' in log, "the batch did not run again"
    ids = whole.ids()
    assert len(set(ids)) == len(ids) >= len(before) + 1
    assert set(before) | {finding.id for finding in whole.told()} <= set(ids)
    kept(whole, ids)


def kept(whole: Whole, ids: list[str]) -> None:
    """Upkeep by the verb loses nothing, and everybody reads the same."""
    job, storage = whole.job, whole.storage
    small = len(list(files(storage.findings)))
    (row,) = json.loads(verb(job, "table", "optimize", "--keep", "2d", "-o", "json"))
    assert (row["files merged"], row["into"], row["days deleted"]) == (small, 1, 0)
    assert whole.ids() == ids
    duck = duckdb.connect()
    duck.execute(queries.views("duckdb", storage.findings, storage.groups))
    assert sorted(one for (one,) in duck.execute("SELECT id FROM findings").fetchall()) == ids
    assert all(duck.execute(queries.query(name)).description for name in queries.names())
    groups = json.loads(verb(job, "groups", "--tables", str(job.storage), "-o", "json"))
    assert GROUP in {one["group"] for one in groups}
    history = verb(job, "history", GROUP, "--tables", str(job.storage), "-o", "jsonl").splitlines()
    assert "rebalance" in {json.loads(line)["kind"] for line in history}
    command = module("streaming.support.delta_sql", job.storage)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment()
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ids
