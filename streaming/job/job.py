"""The Spark engine of the job: a session, and one streaming query after another."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.checkpoints.errors import first_line
from rebalance_monitor.checkpoints.state.spark_log import unfinished
from rebalance_monitor.checkpoints.storage.places import place_at
from rebalance_monitor.cluster.captures.heavy import HeavyRecord, find_heavy
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.shared_jvm import needs_hadoop
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.engine.batch.progress import End
from rebalance_monitor.engine.driver import job
from rebalance_monitor.engine.driver.failures import scratch
from rebalance_monitor.streaming.job.heap_failures import HeapError, classify_with_heap, heap_error
from rebalance_monitor.streaming.query.query import (
    NotStartedError,
    Shape,
    ended_by_others,
    start_query,
    watch,
)
from rebalance_monitor.streaming.query.reports import progress_of
from rebalance_monitor.streaming.rows.lanes import Lanes
from rebalance_monitor.streaming.source.source import topic_source
from rebalance_monitor.streaming.spark.heap import NO_HEAP, batch_sentence, ended_without_heap, heap_peak
from rebalance_monitor.streaming.spark.session import (
    interprets,
    is_platform,
    kafka_jars,
    shuffle_partitions,
    start_session,
    stopped_at_the_end,
)
from rebalance_monitor.streaming.storage.delta import DeltaFindings, early_session, start_for_files

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.batch.progress import Progress
    from rebalance_monitor.engine.driver.job import Options, Query
    from rebalance_monitor.engine.driver.outputs import Outputs
    from rebalance_monitor.engine.driver.plan import StatePlan
    from rebalance_monitor.engine.driver.writer import BatchWriter
    from rebalance_monitor.engine.outputs.sinks import Sink
    from rebalance_monitor.engine.outputs.upkeep import FindingsStore
    from rebalance_monitor.engine.storage import Storage

log = structlog.get_logger()


def run_job(
    settings: Settings, options: Options, stop: threading.Event, more_sinks: Sequence[Sink] = ()
) -> int:
    """Run the job on Spark until `stop` is set; return the number of findings published. Blocks.

    Raises as `engine.driver.job.run_job` does, and JobError.
    """
    if options.available_now and settings.source.max_offsets_per_trigger is not None:
        # Spark's clock source gives its one row to the first of the batches.
        raise ConfigError("`source.max_offsets_per_trigger` does not go with --available-now; leave one out")
    with _session_for_files(settings):
        return job.run_job(SparkKind(settings, options), settings, options, stop, more_sinks)


@contextmanager
def _session_for_files(settings: Settings) -> Iterator[None]:
    """Start the session before the storage is opened, where Spark's JVM alone reaches that.

    The job joins it. On a platform the JVM runs already.
    """
    if is_platform(os.environ) or not needs_hadoop(settings.storage.path):
        yield
        return
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark

    session = start_for_files(settings)
    try:
        yield
    finally:
        # The job, or the process that ended the job, has stopped it already.
        with suppress(Py4JError, ConnectionError):
            session.stop()


class SparkKind:
    """Spark as the job's engine. Its session comes before the findings table where that is Delta."""

    name = "spark"
    partly = False

    def __init__(self, settings: Settings, options: Options) -> None:
        self._settings, self._options = settings, options
        self._early: SparkSession | None = None
        self.lanes = shuffle_partitions(settings.spark.properties())

    @contextmanager
    def stored(self, storage: Storage) -> Iterator[FindingsStore | None]:
        """Give the Delta table, None where the table is Parquet."""
        with early_session(self._settings) as early:
            self._early = early
            yield DeltaFindings(storage, early) if early else None

    @contextmanager
    def engine(self, outputs: Outputs, state: StatePlan, stop: threading.Event) -> Iterator[SparkEngine]:
        """Start the session, unless it runs already. Raises DependencyError."""
        settings = self._settings
        with ended_by_others(stop):
            session = self._early or start_session(
                "rebalance-monitor", settings.spark.properties(), kafka_jars(settings)
            )
            with stopped_at_the_end(session):
                yield SparkEngine(settings, self._options, stop, session, outputs.writer, state.location)


@dataclass(slots=True)
class SparkEngine:
    """One query after another of a session, on one checkpoint."""

    settings: Settings
    options: Options
    stop: threading.Event
    session: SparkSession
    writer: BatchWriter
    checkpoint: str
    limited: bool = False

    def run(
        self, query: Query, on_progress: Callable[[Progress], bool], on_turn: Callable[[], bool]
    ) -> tuple[End, Exception | None]:
        """Start the query and watch it: see `Engine.run`."""
        topic = query.facts.name
        try:
            started = start_query(self.session, self._shape(query), self.writer)
        except NotStartedError as refused:
            return End.FAILED, refused
        log.info("watching", topic=topic, partitions=query.facts.partitions, query=str(started.id))
        return watch(started, self.stop, lambda report: on_progress(progress_of(report, topic)), on_turn)

    def classify_failure(self, error: Exception, failures: int) -> dict[str, str]:
        """See `heap_failures.classify_with_heap`."""
        path, spark = self.settings.storage.path, self.settings.spark.properties()
        where = (path, f"{path}/tables", self.checkpoint, scratch(spark))
        return classify_with_heap(error, failures, where, self._heap_peak(), self._spans)

    def explained(self, error: Exception) -> Exception:
        """Name the record that exhausted the heap.

        The other JVMs, of a cluster, reach us as errors of the query.
        """
        if isinstance(error, HeapError):
            return heap_error(error.what, self._heavy())
        if isinstance(error, DependencyError | ConfigError) or not ended_without_heap(self.session):
            return error
        return heap_error(f"{NO_HEAP} {batch_sentence(self._spans(), None)}".strip(), self._heavy())

    def _heavy(self) -> HeavyRecord | None:
        """Return the record that is too large for a batch, as a child process finds it."""
        spans = self._spans()
        if not spans:
            return None
        log.warning("looking for a record that the heap does not hold", partitions=sorted(spans))
        topic, properties = self.settings.source.topic, self.settings.kafka.client_properties()
        try:
            return find_heavy(properties, spans, topic)
        except (DependencyError, OSError) as error:
            log.warning("the batch could not be read once more", why=first_line(error))
            return None

    def _spans(self) -> dict[int, tuple[int, int]]:
        """Return partition -> (first offset, offset to stop before) of the batch under way, if known."""
        try:
            return unfinished(place_at(self.checkpoint), self.settings.source.topic)
        except (ConfigError, OSError):
            # Only Spark reaches it, or it is damaged, which the next start says.
            return {}

    def _heap_peak(self) -> float | None:
        """Return how full the heap was since the last call, None where the JVM no longer answers."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark

        with suppress(Py4JError, OSError, AttributeError):
            return heap_peak(self.session)
        return None

    def _shape(self, query: Query) -> Shape:
        settings, partitions = self.settings, query.facts.partitions
        spark = settings.spark.properties()
        return Shape(
            source=topic_source(settings, partitions, query.limit, query.skip),
            plan=query.plan,
            lanes=Lanes(partitions, settings.buckets, shuffle_partitions(spark)),
            checkpoint=self.checkpoint,
            trigger_s=None if self.options.available_now else settings.trigger.seconds,
            interprets=query.limit is None and interprets(spark),
        )
