"""Upkeep of a job's findings table, by the job itself now and then or by the verb `table`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA
from rebalance_monitor.dashboard.tables.upkeep import Report, delete_days, merge_small, table_lock
from rebalance_monitor.streaming.storage.delta import keep_delta

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from rebalance_monitor.engine.storage import Storage


def keep_findings(
    storage: Storage, keep_days: int | None, now: datetime, session: SparkSession | None = None
) -> Report:
    """Delete days past `keep_days` (None: none) and merge small files; a Delta table needs a session.

    Raises ConfigError, OSError.
    """
    if not storage.findings.exists():
        return Report()
    if session is not None:
        return keep_delta(session, storage.findings, keep_days, now)
    with table_lock(storage.findings.parent):
        days = delete_days(storage.findings, keep_days, now) if keep_days else 0
        done = merge_small(storage.findings, FINDINGS_SCHEMA, Ledger(storage.ledger).load().batches)
    return replace(done, days_deleted=days)
