"""Batches of an eventful topic as Spark gives them, a writer that tells them, and a ledger that dies."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from msgspec.structs import replace

from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.decoders import Row, rows
from rebalance_monitor.engine.batch.batches import Batch, BatchKey, read_batch
from rebalance_monitor.engine.batch.step import Plan, step
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.outputs.sinks import FindingsTable, JsonLines, QuarantineTable
from rebalance_monitor.engine.storage import Storage
from tests.coordinator.support.timeline import T0
from tests.streaming.support.topics import eventful_topic

if TYPE_CHECKING:
    from pathlib import Path


QUERY = "8d74df78-fa24-4f2f-b920-b9b1ddd93eb6"
SETTINGS = DetectionSettings(unreadable_threshold=2)
BAD = rows.failure_body(rows.FailureRow("truncated", "value", 3, "generation", 2, b"\0\2", b"x"))


class DiedError(Exception):
    """The process was killed."""


class MortalLedger(Ledger):
    """A ledger whose process dies before or after the commit, on demand."""

    dies = ""

    def commit(self, snapshot: Snapshot) -> None:
        if self.dies == "before":
            raise DiedError
        super().commit(snapshot)
        if self.dies == "after":
            raise DiedError


def input_batches(history: int = 0, whole: int | None = None) -> list[Batch]:
    """What Spark gives for the eventful topic and some unreadable records, four rows at a time.

    From batch `whole` on it gives all that is left at once.
    """
    topic, stored, out = eventful_topic(), None, []
    bad = [Row(0, 0, rows.FAILURE, n, n, -1, "", -1, 0, BAD) for n in (900, 901, 902)]
    everything: list[Row] = [*topic.rows, *(replace(row, record_ts=T0 + 61_000) for row in bad)]
    plan = Plan(SETTINGS, "c1", {0: history} if history else {})
    starts = range(0, len(everything), 4)
    for start, end in pairwise([*starts[:whole], *starts[whole or len(starts) :][:1], len(everything)]):
        now = T0 + starts[(end - 1) // 4] * 3_000
        stored, found = step(plan, 0, 0, everything[start:end], now, stored, ticks=True)
        out.append(found)
    return [read_batch(found) for found in out]


BATCHES = input_batches()


def writer_at(storage: Storage, ledger: Ledger | None = None) -> BatchWriter:
    ledger = ledger or Ledger(storage.ledger)
    sinks = [
        JsonLines(storage.jsonl),
        FindingsTable(storage.findings),
        QuarantineTable(storage.quarantine),
    ]
    snapshot = ledger.load().on_topic("topic", "c1")
    return BatchWriter(ledger, snapshot, sinks, Parts(SETTINGS, "c1", list), wall_ms=lambda: T0 + 70_000)


def told(storage: Storage) -> list[Finding]:
    return [from_json(line) for line in storage.jsonl.read_text().splitlines()]


def table_ids(folder: Path, name: str = "id") -> list[Any]:
    found = [row[name] for path in files(folder) for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(found)


def undisturbed(root: Path) -> list[Finding]:
    writer = writer_at(Storage(root))
    for number, batch in enumerate(BATCHES):
        writer.apply(BatchKey(QUERY, number), batch)
    return told(Storage(root))
