"""Reads a job's Delta table by Spark SQL, in a process of its own; prints the ids as one JSON list.

Arguments: the storage folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rebalance_monitor.config.model import Settings
from rebalance_monitor.dashboard import queries
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.streaming.storage.delta import start_with_delta


def main(root: Path) -> None:
    storage = storage_at(root)
    session = start_with_delta("delta-sql", Settings(storage={"path": root}, tables={"format": "delta"}))
    for statement in queries.views("spark", storage.findings, storage.groups).split(";\n"):
        if statement.strip():
            session.sql(statement)
    print(json.dumps(sorted(row.id for row in session.sql("SELECT id FROM findings").collect())))  # noqa: T201 - the test reads it
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
