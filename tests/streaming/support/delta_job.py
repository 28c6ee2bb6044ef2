"""Writes a Delta table as the job does; run in a process of its own, beside the tests' shared session.

Arguments: the storage folder. Prints one JSON object: what Spark reads, and what the upkeep did.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.ledger import Snapshot
from rebalance_monitor.config.model import Settings
from rebalance_monitor.dashboard import queries
from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.engine.batch.batches import Batch, BatchKey
from rebalance_monitor.engine.outputs.sinks import Publication
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.streaming.storage.delta import DeltaFindings, DeltaTable, start_with_delta
from tests.dashboard.tables.test_tables import DAY, FULL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rebalance_monitor.coordinator.findings.finding import Finding

QUERY = "8d74df78-fa24-4f2f-b920-b9b1ddd93eb6"
BATCHES = 3


def batch(number: int) -> list[Finding]:
    return [replace(FULL, id=f"{number:08d}{n:08d}", at=FULL.at + (number % 2) * DAY) for n in range(2)]


def publication(findings: list[Finding]) -> Publication:
    return Publication(findings, Batch(), 0)


def main(root: Path) -> None:
    storage = storage_at(root)
    settings = Settings(storage={"path": root}, tables={"format": "delta"})
    session = start_with_delta("delta-test", settings)
    sink = DeltaTable(storage.findings, session)
    sink.start(Snapshot())
    for number in range(BATCHES):
        sink.write(BatchKey(QUERY, number), publication(batch(number)))
        sink.committed(BatchKey(QUERY, number))
    sink.write(BatchKey(QUERY, BATCHES), publication([]))
    sink.write(BatchKey(QUERY, BATCHES + 1), publication(batch(BATCHES)))
    # Never committed in the ledger: it runs again, in a process that knows nothing of the first time.
    sink = DeltaTable(storage.findings, session)
    sink.start(Snapshot())
    more = replace(FULL, id="more")
    for _ in range(2):
        sink.write(BatchKey(QUERY, BATCHES + 1), publication([*batch(BATCHES), more]))
    sink.committed(BatchKey(QUERY, BATCHES + 1))
    sink.write(BatchKey(QUERY, BATCHES + 1), publication(batch(BATCHES)))
    # A checkpoint that is older than the table: numbers that it knows are of other batches now.
    sink = DeltaTable(storage.findings, session)
    sink.start(Snapshot())
    for number in (1, 2):
        sink.write(
            BatchKey(QUERY, number), publication([*batch(number), replace(FULL, id=f"older-{number}")])
        )
        sink.committed(BatchKey(QUERY, number))

    place = f"delta.`{storage.findings.as_uri()}`"
    told: dict[str, object] = {"rows": ids(session, place), "files": len(list(files(storage.findings)))}
    done = DeltaFindings(storage, session).keep(None, datetime.now(UTC))
    told |= {"merged": [done.merged, done.into], "merged_rows": ids(session, place)}
    told["merged_files"] = len(list(files(storage.findings)))
    for statement in queries.views("spark", storage.findings, root / "groups").split(";\n")[:2]:
        session.sql(statement)
    told["view"] = session.sql("SELECT count(*) FROM findings").collect()[0][0]
    newer = datetime.fromtimestamp((FULL.at + DAY) / 1000, UTC)
    told["days_deleted"] = DeltaFindings(storage, session).keep(1, newer).days_deleted
    told["kept_rows"] = ids(session, place)
    session.stop()
    print(json.dumps(told))  # noqa: T201 - the test reads it


def ids(session: SparkSession, place: str) -> list[str]:
    return sorted(row.id for row in session.sql(f"SELECT id, date FROM {place}").collect())  # noqa: S608


if __name__ == "__main__":
    main(Path(sys.argv[1]))
