"""The findings table as Delta: what the session needs for it, the sink, and its upkeep.

Exactly once: a batch is one Delta transaction of (query id, batch id), so a batch that runs again appends
nothing that is there. Delta cannot forget a batch that was written and not committed in the ledger, so its
rows stay. If it has more findings when it runs again (the probe may have answered since; a checkpoint that is
older than the table gives other records this number), those whose ids are not in the table are appended.
Refuses executors that do not reach the table's folder, and a session without Delta.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from datetime import UTC, date, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from rebalance_monitor.checkpoints.errors import first_line
from rebalance_monitor.checkpoints.storage.files import locked, replace_file
from rebalance_monitor.checkpoints.storage.places import is_remote
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_delta
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.dashboard.tables.delta_log import is_delta, read_log
from rebalance_monitor.dashboard.tables.files import date_of, files, require_format, table_of
from rebalance_monitor.dashboard.tables.findings_table import FINDINGS_SCHEMA, finding_row
from rebalance_monitor.dashboard.tables.parquet import parquet_file
from rebalance_monitor.dashboard.tables.upkeep import Report, table_lock
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.streaming.spark.session import is_platform, kafka_jars, start_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from rebalance_monitor.checkpoints.ledger import Snapshot
    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.engine.batch.batches import BatchKey
    from rebalance_monitor.engine.outputs.sinks import Publication, Sink
    from rebalance_monitor.engine.storage import Storage

EXTENSIONS, EXTENSION = "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
# Written by the driver, read by an executor. Not hidden: Spark would not see it.
PROBE = "reach.txt"
DELTA: dict[str, str] = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Spark's default of 50 tasks for each read of the log is for tables of millions of files.
    "spark.databricks.delta.snapshotPartitions": "1",
    # So many tasks list the folder for VACUUM, however few files it has: of the default's 200 each run costs
    # two cores some forty seconds.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # What this product's own readers cannot read.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    "spark.databricks.delta.properties.defaults.checkpointPolicy": "classic",
}


class DeltaTable:
    """The sink that appends findings to the Delta table in `folder`, partitioned by date."""

    def __init__(self, folder: Place, session: SparkSession) -> None:
        self._folder = folder
        self._session = session
        # Whether the next batch may have been written before, by a try that was not committed.
        self._unsure = True
        # Query -> the last batch that the table has of it, when that was last unsure.
        self._written: Mapping[str, int] = {}

    def start(self, committed: Snapshot) -> None:  # noqa: ARG002 - its transactions say what is there
        """Raise ConfigError where a Parquet table lies in the folder."""
        require_format(self._folder, delta=True)

    def write(self, key: BatchKey, publication: Publication) -> None:
        """Append the batch in one transaction. Raises OSError."""
        if self._unsure:
            self._written = read_log(self._folder).transactions if is_delta(self._folder) else {}
        known = self._written.get(key.query_id, -1) >= key.batch_id
        findings = self._unwritten(publication.findings) if known else publication.findings
        self._unsure = True
        if findings:
            with _as_os_error("the findings table could not be written"):
                # Delta would pass over a number that it knows; what is there already is left out above.
                self._append(findings, None if known else key)

    def committed(self, key: BatchKey) -> None:  # noqa: ARG002 - a sink takes what it needs
        """Take the batch as final: the next one is new."""
        self._unsure = False

    def _unwritten(self, findings: Sequence[Finding]) -> list[Finding]:
        written: set[str] = set()
        for day in {date_of(finding.at) for finding in findings}:
            for path in files(self._folder, f"date={day}"):
                written.update(parquet_file(path).read(columns=["id"])["id"].to_pylist())
        return [finding for finding in findings if finding.id not in written]

    def _append(self, findings: Sequence[Finding], key: BatchKey | None) -> None:
        writer = findings_frame(self._session, findings).coalesce(1).write.format("delta").mode("append")
        # Fields that a later version adds become columns by themselves.
        writer = writer.partitionBy("date").option("mergeSchema", "true")
        if key is not None:
            writer = writer.option("txnAppId", key.query_id).option("txnVersion", key.batch_id)
        writer.save(self._folder.as_uri())


class DeltaFindings:
    """The findings table as Delta, written and kept by the job's own session."""

    def __init__(self, storage: Storage, session: SparkSession) -> None:
        self._folder, self._session = storage.findings, session
        self.sink: Sink = DeltaTable(storage.findings, session)

    def keep(self, keep_days: int | None, now: datetime) -> Report:
        """Delete days past `keep_days` (None: none) and merge small files. Raises ConfigError, OSError."""
        if not self._folder.exists():
            return Report()
        return keep_delta(self._session, self._folder, keep_days, now)


def findings_frame(session: SparkSession, findings: Sequence[Finding]) -> DataFrame:
    """Return the findings as Spark's frame, with their `date`."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an optional dependency

    table = table_of([finding_row(finding) for finding in findings], FINDINGS_SCHEMA)
    days = [date.fromisoformat(date_of(finding.at)) for finding in findings]
    schema = FINDINGS_SCHEMA.append(pa.field("date", pa.date32()))
    rows = [{**row, "date": day} for row, day in zip(table.to_pylist(), days, strict=True)]
    return session.createDataFrame(
        [tuple(row[name] for name in schema.names) for row in rows], from_arrow_schema(schema)
    )


@contextmanager
def early_session(settings: Settings) -> Iterator[SparkSession | None]:
    """Give a job's session that is needed before its first query: with Delta; else None. Stopped at the end.

    Raises ConfigError, DependencyError.
    """
    if not _wants_delta(settings):
        yield None
        return
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark

    session = start_with_delta("rebalance-monitor", settings)
    try:
        yield session
    finally:
        # The job, or the process that ended the job, has stopped it already.
        with suppress(Py4JError, ConnectionError):
            session.stop()


def start_with_delta(name: str, settings: Settings) -> SparkSession:
    """Start a session that has Kafka's source and Delta.

    Raises ConfigError (no Delta for this Spark, a folder that executors do not reach), DependencyError.
    """
    session = start_for(name, settings, delta=True)
    if not _has_delta(session):
        session.stop()
        raise ConfigError(
            "`tables.format` is delta, and this Spark has no Delta: give spark-submit the package "
            "(`--packages io.delta:delta-spark_2.13:4.0.0` for Spark 4.0), or set `tables.format: parquet`."
        )
    try:
        require_reach(session, storage_at(settings.storage.path).root)
    except ConfigError:
        session.stop()
        raise
    return session


def start_for_files(settings: Settings) -> SparkSession:
    """Start a job's session before its storage is opened, which lies where Spark's JVM alone reaches.

    Raises DependencyError, ConfigError.
    """
    return start_for("rebalance-monitor", settings, delta=_wants_delta(settings))


def start_for(name: str, settings: Settings, *, delta: bool) -> SparkSession:
    """Start or join a session that has Kafka's source, and Delta where that is wanted."""
    given = settings.spark.properties()
    if not delta:
        return start_session(name, given, kafka_jars(settings))
    return start_session(name, session_settings(given, os.environ), _jars(settings))


def _wants_delta(settings: Settings) -> bool:
    return settings.outputs.parquet and settings.tables.format == "delta"


def require_reach(session: SparkSession, root: Place) -> None:
    """Raise ConfigError where executors, which write a Delta table, do not see the driver's folder `root`."""
    if not is_remote(root) and session.conf.get("spark.master", "").startswith("local"):
        return
    probe = root / PROBE
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        replace_file(probe, b"reached")
        with _as_os_error("not reached"):
            seen = [row.value for row in session.read.text(probe.as_uri()).collect()]
    except OSError as error:
        seen = [str(error)]
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    if seen != ["reached"]:
        raise ConfigError(
            f"`tables.format` is delta, and Spark does not reach `storage.path` ({root}), where executors "
            f"would write the table: {''.join(seen) or 'nothing is there'}. Make `storage.path` a URI or a "
            "mount that all machines share, or set `tables.format: parquet`."
        )


def _has_delta(session: SparkSession) -> bool:
    try:
        # The first access to the catalog loads its class.
        with _as_os_error("no Delta"):
            session.sql("SHOW NAMESPACES").collect()
    except OSError:
        return False
    return True


def session_settings(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return `given` with what Delta needs; Databricks has it already."""
    if "DATABRICKS_RUNTIME_VERSION" in environment:
        return dict(given)
    others = [name for name in given.get(EXTENSIONS, "").split(",") if name and name != EXTENSION]
    return {**DELTA, **given, EXTENSIONS: ",".join([EXTENSION, *others])}


def keep_delta(session: SparkSession, folder: Place, keep_days: int | None, now: datetime) -> Report:
    """Delete days past `keep_days`, merge small files, and drop files that no reader needs any more.

    Files go a week after they were replaced (Delta's default), so that readers under way are not disturbed.
    Raises ConfigError (another upkeep is at work), OSError.
    """
    place = "delta.`" + folder.as_uri().replace("`", "``") + "`"
    with table_lock(folder.parent), _as_os_error("the upkeep of the findings table failed"):
        days = _delete_days(session, folder, place, keep_days, now) if keep_days else 0
        done = session.sql(f"OPTIMIZE {place}").collect()[0]["metrics"]
        session.sql(f"VACUUM {place}").collect()
    return Report(merged=done["numFilesRemoved"], into=done["numFilesAdded"], days_deleted=days)


def keep_alone(settings: Settings, storage: Storage, keep_days: int | None, now: datetime) -> Report:
    """Do `keep_delta` in a session of its own, while no job runs on the folder: two Sparks must not write.

    Raises ConfigError (a job is at work: it does this itself), DependencyError, OSError.
    """
    with locked(storage.root):
        session = start_with_delta("rebalance-monitor-table", settings)
        try:
            return keep_delta(session, storage.findings, keep_days, now)
        finally:
            session.stop()


def _delete_days(session: SparkSession, folder: Place, place: str, keep_days: int, now: datetime) -> int:
    first = (now.astimezone(UTC) - timedelta(days=keep_days - 1)).date().isoformat()
    days = {path.parent.name.removeprefix("date=") for path in files(folder)}
    old = [day for day in days if day < first]
    if old:
        session.sql(f"DELETE FROM {place} WHERE date < DATE '{first}'").collect()  # noqa: S608 - both are ours
    return len(old)


def _jars(settings: Settings) -> list[Path]:
    delta = [] if is_platform(os.environ) else resolve_delta(*installed_spark(), settings)
    return [*kafka_jars(settings), *delta]


@contextmanager
def _as_os_error(what: str) -> Iterator[None]:
    """Give Spark's errors the form that the writer and the keeper know, short."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an optional dependency

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise OSError(f"{what}: {first_line(error, 500)}") from error
