"""The findings table as the engine sees it: a sink and its upkeep, by the job now and then or by `table`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA
from rebalance_monitor.dashboard.tables.upkeep import Report, delete_days, merge_small, table_lock
from rebalance_monitor.engine.outputs.sinks import FindingsTable

if TYPE_CHECKING:
    from datetime import datetime

    from rebalance_monitor.engine.outputs.sinks import Sink
    from rebalance_monitor.engine.storage import Storage


class FindingsStore(Protocol):
    """The findings table in one format."""

    @property
    def sink(self) -> Sink:
        """Return the sink that writes findings into the table."""

    def keep(self, keep_days: int | None, now: datetime) -> Report:
        """Delete days past `keep_days` (None: none) and merge small files. Raises ConfigError, OSError."""


class ParquetFindings:
    """The findings table as Parquet files."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.sink: Sink = FindingsTable(storage.findings)

    def keep(self, keep_days: int | None, now: datetime) -> Report:
        """Delete days past `keep_days` (None: none) and merge small files. Raises ConfigError, OSError."""
        findings = self._storage.findings
        if not findings.exists():
            return Report()
        with table_lock(findings.parent):
            days = delete_days(findings, keep_days, now) if keep_days else 0
            done = merge_small(findings, FINDINGS_SCHEMA, Ledger(self._storage.ledger).load().batches)
        return replace(done, days_deleted=days)
