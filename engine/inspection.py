"""Damaged files of a job's folder beside manifest and state: marks of leaders, alert memory, tables.

None of them stops a start but the alert memory, and each can be moved away. `checkpoint inspect` names them
all. Only reads; needs neither Spark nor a broker.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.runtime.memory_file import MemoryFile, MemoryFileError
from rebalance_monitor.checkpoints.errors import first_line
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.dashboard.tables.parquet import parquet_file
from rebalance_monitor.engine.topic.leader_epochs import stored_marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.engine.storage import Storage

AWAY = "Move it away: the job makes it anew."
ROWS_LOST = "Move it away: its rows are lost, the rest of the table can be read."


def damaged_files(storage: Storage) -> Iterator[str]:
    """Yield a sentence for each damaged file: what, where, and what to do. Raises OSError."""
    try:
        stored_marks(storage.leaders)
    except OSError as error:
        yield f"{first_line(error)} {AWAY}"
    try:
        MemoryFile(storage.alerts / "memory.jsonl").load()
    except MemoryFileError as error:
        yield str(error)
    for table, what in ((storage.findings, ROWS_LOST), (storage.quarantine, ROWS_LOST)):
        with suppress(ConfigError):
            yield from (f"{why} {what}" for why in map(_table_problem, files(table)) if why)
    for path in storage.groups.glob("*.parquet"):
        if why := _table_problem(path):
            yield f"{why} {AWAY}"


def _table_problem(path: Place) -> str:
    """Return what is wrong with a Parquet file: its footer says where each column of each row group lies."""
    try:
        with parquet_file(path) as found:
            found.read()
    except OSError as error:
        return f"{path} is damaged: {first_line(error)}."
    return ""
