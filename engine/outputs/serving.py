"""The dashboard's place among the sinks: committed batches go into the snapshot, of which all else is made.

Nothing here is written before the ledger commits, so a batch that runs again counts once. After a restart the
snapshot begins with the groups table and the newer rows of the findings table.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Self

import structlog

from rebalance_monitor.alerts.setup.setup import ways_of
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.teams import team_of
from rebalance_monitor.dashboard.metrics.collector import SnapshotCollector, registry_of
from rebalance_monitor.dashboard.metrics.lag_series import Wanted
from rebalance_monitor.dashboard.metrics.tallies import Limits, Tallies
from rebalance_monitor.dashboard.tables.findings_table import read_newest
from rebalance_monitor.dashboard.tables.groups_table import FILE, GroupsTable, read_groups, restored
from rebalance_monitor.dashboard.tables.keeper import Chore, Keeper
from rebalance_monitor.dashboard.tables.upkeep import has_unfinished, mend, table_lock
from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.decoders.errors import REASONS
from rebalance_monitor.engine.audit.auditor import Auditor
from rebalance_monitor.engine.memory import give_back, use_system_pool
from rebalance_monitor.engine.outputs.page import page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.checkpoints.ledger import Snapshot as Committed
    from rebalance_monitor.config.dashboard import Tables
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.batch.batches import BatchKey
    from rebalance_monitor.engine.batch.progress import Progress
    from rebalance_monitor.engine.health.notices import Notices
    from rebalance_monitor.engine.outputs.sinks import Publication
    from rebalance_monitor.engine.outputs.upkeep import FindingsStore
    from rebalance_monitor.engine.storage import Storage

log = structlog.get_logger()
RESTORED = 5_000
GIVE_BACK_S = 60


class Serving:
    """A sink and a context manager; inside it pages and metrics are served and tables are kept.

    url: where this machine reaches the page, None while it is not served. held_up: says what else keeps the
    monitor from being ready, "" where nothing does.
    """

    def __init__(
        self,
        settings: Settings,
        storage: Storage,
        cluster: str,
        notices: Notices,
        store: FindingsStore,
        held_up: Callable[[], str] = str,
    ) -> None:
        self._storage = storage
        self._store = store
        self._telling: Publication | None = None
        self._written = 0
        self._groups = GroupsTable(storage.groups)
        self.snapshot = Snapshot(settings.cluster_name or cluster, time.time_ns() // 1_000_000)
        limits = settings.metrics
        self.tallies = Tallies(Limits(limits.allow, limits.deny, limits.max_groups))
        self.tallies.expect((error.reason for error in REASONS), ways_of(settings.alerts))
        self.snapshot.listen(self.tallies.on_update)
        build = {
            "version": _version("rebalance-monitor"),
            "python": platform.python_version(),
            "spark": _version("pyspark"),
        }
        wanted = Wanted(limits.names, limits.partitions, limits.max_partitions, limits.lag_groups)
        of_group = partial(team_of, teams=settings.detection.teams)
        self.metrics = registry_of(
            SnapshotCollector(self.snapshot, self.tallies, build, time.time, wanted, of_group)
        )
        self._running = ExitStack()
        self._keep_days = settings.tables.keep_days
        tables = self._chores(settings.tables) if settings.outputs.parquet else []
        self._keeper = Keeper([*tables, Chore("memory", GIVE_BACK_S, give_back)])
        self._auditor = Auditor(settings, storage, self.tallies, notices)
        self._page = page_of(settings, storage, self.snapshot, self.metrics, held_up)
        self.url: str | None = None

    def __enter__(self) -> Self:
        use_system_pool()
        self._running.enter_context(self._keeper)
        self._running.enter_context(self._auditor)
        server = self._page()
        if server is not None:
            self.url = self._running.enter_context(server).url
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def start(self, committed: Committed) -> None:  # noqa: ARG002 - the tables have been cut to it already
        """Begin with what an earlier process knew."""
        try:
            self._mend()
            known = restored(read_groups(self._storage.groups), self._newest_findings())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("the dashboard begins empty: the tables could not be read", why=str(error))
            return
        self.snapshot.restore(known)
        self.tallies.seed(known.groups)

    def _mend(self) -> None:
        """Finish merges that were cut short; another upkeep that is at work, by hand, does it itself."""
        findings = self._storage.findings
        if has_unfinished(findings):
            with suppress(ConfigError), table_lock(findings.parent):
                mend(findings)

    def write(self, key: BatchKey, publication: Publication) -> None:  # noqa: ARG002 - see `committed`
        """Keep the batch until it is final."""
        self._telling = publication

    def committed(self, key: BatchKey) -> None:
        """Show the batch."""
        publication, self._telling = self._telling, None
        if publication is None:
            return
        try:
            self.snapshot.apply(update_of(key, publication))
        except Exception as error:  # noqa: BLE001 - the batch is final: what cannot be shown must not fail it
            why = f"{type(error).__name__}: {error}"[:500]
            log.warning("a batch could not be shown", batch=key.batch_id, why=why)

    def on_progress(self, progress: Progress) -> None:
        """Take the engine's report on a batch."""
        stages = dict(progress.stages)
        self.snapshot.measured(
            stages=stages, lag_records=progress.lag_records, state_store_memory=progress.state_store_memory
        )
        self.tallies.measured(stages)

    def _chores(self, tables: Tables) -> list[Chore]:
        return [
            Chore("groups table", tables.groups_interval.seconds, self._keep_groups, at_end=True),
            Chore("findings table", tables.optimize_interval.seconds, self._keep_findings),
        ]

    def _keep_findings(self) -> None:
        done = self._store.keep(self._keep_days, datetime.now(UTC))
        log.debug("findings table", merged=done.merged, into=done.into, days_deleted=done.days_deleted)

    def _keep_groups(self) -> None:
        known = self.snapshot.known
        if known.version != self._written:
            self._groups.write(known, time.time_ns() // 1_000_000)
            self._written = known.version
            # What the writing took would stay until the next turn of the chore for memory.
            give_back()

    def _newest_findings(self) -> list[Any]:
        path = self._storage.groups / FILE
        since = path.stat().st_mtime if path.exists() else 0.0
        return read_newest(self._storage.findings, RESTORED, since)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        # A platform's own Spark may lie beside Python's packages.
        return ""


def update_of(key: BatchKey, publication: Publication) -> Update:
    """Return what the snapshot takes of one batch."""
    batch = publication.batch
    unreadable: Counter[str] = Counter()
    for _shard, stat in batch.stats:
        if stat.kind == "unreadable":
            unreadable[str(stat.data["reason"])] += int(stat.data["count"])
    return Update(
        findings=publication.findings,
        groups={**batch.commits_only, **batch.groups},
        removed=[*batch.removed, *batch.forgotten],
        shards=[stat.data for _shard, stat in batch.stats if stat.kind == "shard"],
        unreadable=unreadable,
        types=batch.types,
        now=batch.now,
        wall=publication.wall,
        batch=key.batch_id,
        rows=batch.rows,
        state_bytes=batch.state_bytes,
        committing=batch.committing,
        lags=batch.lags,
    )
