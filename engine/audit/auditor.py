"""Audits beside the job: every so many batches, in a process of its own with little priority.

Nothing of this touches the query. The result is a metric, a finding (`monitor_degraded`, cause
`contract_broken`, resolved by the next audit that finds nothing) and the Data Docs. An audit that fails says
nothing about the contracts: it is logged and tried again after as many batches.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.dashboard.tables.keeper import Chore, Keeper
from rebalance_monitor.engine.audit.audit_process import AuditProcess

if TYPE_CHECKING:
    from typing import Self

    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.dashboard.audit.check import Outcome
    from rebalance_monitor.dashboard.metrics.tallies import Tallies
    from rebalance_monitor.engine.health.notices import Notices
    from rebalance_monitor.engine.storage import Storage

log = structlog.get_logger()
LOOK_S = 2.0


class Auditor:
    """Counts batches and audits; use as a context manager.

    Without great-expectations it says so and does nothing.
    """

    def __init__(self, settings: Settings, storage: Storage, tallies: Tallies, notices: Notices) -> None:
        self._settings = settings
        self._storage = storage
        self._tallies = tallies
        self._notices = notices
        self._audited = 0
        self._process: AuditProcess | None = None
        self._stopped = False
        # An audit that starts while the job ends is ended too, or not started.
        self._starting = threading.Lock()
        is_wanted = settings.audit.every_batches > 0
        if not is_wanted:
            # What an earlier process found would stay open for good.
            notices.hold(Cause.CONTRACT_BROKEN, "")
        self._keeper = Keeper([Chore("audit", LOOK_S, self._turn)] if is_wanted else [])

    def __enter__(self) -> Self:
        self._keeper.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        """End the audit under way: its result is not needed."""
        with self._starting:
            self._stopped = True
            if self._process is not None:
                self._process.end()
        self._keeper.__exit__(*reason)

    def _turn(self) -> None:
        batches = self._tallies.batches
        if batches - self._audited < self._settings.audit.every_batches:
            return
        from rebalance_monitor.engine.audit.auditing import sentence, unmet  # noqa: PLC0415 - not before it is due

        self._audited = batches
        found = self._apart()
        if self._stopped:
            return
        if isinstance(found, str):
            log.warning("the audit failed", why=found)
            return
        broken = sentence(found)
        self._tallies.audited(unmet(found), time.time_ns() // 1_000_000)
        self._notices.hold(Cause.CONTRACT_BROKEN, broken)
        log.log(30 if broken else 20, "audit", contracts=len(found), broken=broken or None)

    def _apart(self) -> list[Outcome] | str:
        with self._starting:
            if self._stopped:
                return "the job ends"
            process = self._process = AuditProcess()
        try:
            return process.outcomes(self._settings, self._storage)
        finally:
            self._process = None
