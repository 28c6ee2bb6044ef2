"""The embedded engine of the job: reader, coordinators and writer in one process, with durable state.

A batch is written to the changelog before it is applied (offsets and time), and its state some seconds later.
After a crash the batches that were begun since the last state run again, each with its own offsets and time.
The ledger knows which of them were published. The engine uses one core; a larger load needs Spark.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.checkpoints.state.changelog import Begun, Changelog, Recovered
from rebalance_monitor.checkpoints.state.codec import StateVersionError
from rebalance_monitor.cluster.clients.ends import log_ends
from rebalance_monitor.cluster.clients.reader import Reading, RecordReader, UnpackError, behind
from rebalance_monitor.cluster.errors import AccessDeniedError, BrokerUnreachableError
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.engine.batch.batches import BatchKey
from rebalance_monitor.engine.batch.progress import End, Progress
from rebalance_monitor.engine.batch.step import Extent
from rebalance_monitor.engine.driver import job
from rebalance_monitor.engine.driver.failures import classify_failure
from rebalance_monitor.engine.embedded.again import run_again
from rebalance_monitor.engine.embedded.core import Core
from rebalance_monitor.engine.embedded.feed import FETCHING, Fed, Feed
from rebalance_monitor.engine.memory import collected_rarely, take_for_good, uncollected, without_pandas
from rebalance_monitor.engine.topic.guard import has_read

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.driver.job import Options, Query
    from rebalance_monitor.engine.driver.outputs import Outputs
    from rebalance_monitor.engine.driver.plan import StatePlan
    from rebalance_monitor.engine.driver.writer import BatchWriter
    from rebalance_monitor.engine.outputs.sinks import Sink
    from rebalance_monitor.engine.outputs.upkeep import FindingsStore
    from rebalance_monitor.engine.storage import Storage

log = structlog.get_logger()
STATE_S, STATE_RECORDS = 60.0, 1_000_000
"""State follows after so long, or so many records: what is read and applied again after a crash."""


def run_job(
    settings: Settings, options: Options, stop: threading.Event, more_sinks: Sequence[Sink] = ()
) -> int:
    """Run the job in this process until `stop` is set; return the number of findings published. Blocks.

    Raises as `engine.driver.job.run_job` does, and JobError.
    """
    without_pandas()
    return job.run_job(EmbeddedKind(settings, options), settings, options, stop, more_sinks)


class EmbeddedKind:
    """The process itself as the job's engine. Raises ConfigError for settings that only Spark supports."""

    name = "embedded"
    lanes = 0
    partly = True

    def __init__(self, settings: Settings, options: Options) -> None:
        problems = [sentence for is_asked, sentence in _only_sparks(settings) if is_asked]
        if problems:
            raise ConfigError.of(problems)
        self._settings, self._options = settings, options

    def stored(self, storage: Storage) -> AbstractContextManager[FindingsStore | None]:  # noqa: ARG002 - as Kind has it
        """Give None: the findings table is Parquet."""
        return nullcontext()

    @contextmanager
    def engine(self, outputs: Outputs, state: StatePlan, stop: threading.Event) -> Iterator[EmbeddedEngine]:
        """Give the engine; it opens what it needs for each run."""
        yield EmbeddedEngine(self._settings, self._options, stop, outputs.writer, state.checkpoint)


def _only_sparks(settings: Settings) -> tuple[tuple[bool, str], ...]:
    """Return what only the other engine can do: whether it is asked for, and a sentence."""
    is_delta, elsewhere = settings.tables.format == "delta", bool(settings.storage.checkpoint)
    return (
        (is_delta, "`tables.format: delta` needs `engine: spark`, which writes it; use `parquet`"),
        (settings.buckets != 1, "`buckets` are for `engine: spark`; leave it at 1"),
        (
            elsewhere,
            "`storage.checkpoint` is for `engine: spark`; `embedded` keeps its state in `storage.path`",
        ),
    )


class EmbeddedEngine:
    """`folder` holds the changelog of one generation of the state."""

    limited = True

    def __init__(
        self, settings: Settings, options: Options, stop: threading.Event, writer: BatchWriter, folder: Place
    ) -> None:
        self._settings, self._options = settings, options
        self._stop, self._writer, self._folder = stop, writer, folder

    def run(
        self, query: Query, on_progress: Callable[[Progress], bool], on_turn: Callable[[], bool]
    ) -> tuple[End, Exception | None]:
        """Recover what was kept, run again what was begun, and follow the topic: see `Engine.run`."""
        properties, topic = self._settings.kafka.client_properties(), query.facts.name
        try:
            kept = Changelog(self._folder, topic)
            found, start = kept.recovered, self._start(query, kept.recovered)
            core = Core(query.plan, query.facts.ends, found.stored, found.now, found.still)
            self._writer.serve(kept.query)
            with uncollected():
                start = run_again(kept, core, start, properties, self._writer, self._stop)
        except Exception as error:  # noqa: BLE001 - whatever it is, `judged` tells what a next try mends
            return End.FAILED, error
        if self._stop.is_set():
            return End.STOPPED, None
        if found.newest < 0:
            # Durable with the first batch: where that one runs again it begins here too.
            kept.commit(-1, -1, start, {})
        log.info("watching", topic=topic, partitions=query.facts.partitions, query=kept.query)
        with collected_rarely(), RecordReader(properties, Reading(start), topic, FETCHING) as reader:
            ends = log_ends(properties, topic)
            feed = Feed(reader, ends, self._stop, every_s=self._settings.trigger.seconds)
            turns = _Turns(kept, core, feed, self._writer)
            return self._follow(turns, query, on_progress, on_turn)

    def _start(self, query: Query, found: Recovered) -> dict[int, int]:
        """Return where each partition is read from: where its state ends, or where it begins by now."""
        facts, is_new = query.facts, found.newest < 0
        at_ends = is_new and self._settings.source.starting == "latest"
        firsts = behind(facts.ends if at_ends else facts.begins, query.skip, facts.ends)
        return {p: max(found.ends.get(p, first), facts.begins[p]) for p, first in firsts.items()}

    def _follow(
        self,
        turns: _Turns,
        query: Query,
        on_progress: Callable[[Progress], bool],
        on_turn: Callable[[], bool],
    ) -> tuple[End, Exception | None]:
        until, is_live = query.facts.filled(), False
        with ExitStack() as history:
            # What history leaves stays, and holds no cycles: to walk through it is a tenth of the time.
            history.enter_context(uncollected())
            while not self._stop.is_set():
                try:
                    with uncollected():
                        progress = turns.turn()
                except Exception as error:  # noqa: BLE001 - as above
                    return End.FAILED, error
                try:
                    ends = on_progress(progress) or on_turn()
                except BaseException:
                    turns.keep()
                    raise
                if ends:
                    turns.keep()
                    return End.REPLACED, None
                if not is_live and has_read(progress.ends or {}, until):
                    if self._options.available_now:
                        turns.keep()
                        return End.FINISHED, None
                    is_live = True
                    take_for_good()
                    history.close()
        turns.keep()
        return End.STOPPED, None

    def classify_failure(self, error: Exception, failures: int) -> dict[str, str]:
        """Return what to log about a failure. Raises errors that will not pass, as they are."""
        if isinstance(error, ConfigError | AccessDeniedError):
            raise error
        if isinstance(error, StateVersionError | UnpackError):
            raise ConfigError(str(error)) from error
        path = self._settings.storage.path
        return classify_failure(error, failures, (path, f"{path}/tables"))

    def explained(self, error: Exception) -> Exception:
        """Return `error`: it was raised in this process, so nothing more is known."""
        return error


class _Turns:
    """One batch after another: begun in the changelog, applied, published, its state saved now and then."""

    def __init__(self, kept: Changelog, core: Core, feed: Feed, writer: BatchWriter) -> None:
        self._kept, self._core, self._feed, self._writer = kept, core, feed, writer
        self._number = kept.recovered.newest + 1
        self._last: Fed | None = None
        self._records = 0
        self._kept_at = time.monotonic()

    def turn(self) -> Progress:
        """Make one batch. Raises BrokerUnreachableError where no broker has answered for long, OSError."""
        began = time.monotonic()
        fed = self._feed.next()
        if silence := self._feed.silence:
            raise BrokerUnreachableError(silence, "Check the brokers' health and the network.")
        read = time.monotonic()
        limited = fed.extent is Extent.LIMITED
        self._kept.begin(Begun(self._number, fed.now, limited, dict(fed.until), fed.unled))
        batch = self._core.apply(fed.records, fed.now, fed.extent, fed.unled)
        applied = time.monotonic()
        self._records += sum(part.num_rows for part in fed.records)
        # The writer needs the memory, and the next batch.
        fed = replace(fed, records=())
        self._writer.apply(BatchKey(self._kept.query, self._number), batch)
        self._number, self._last = self._number + 1, fed
        written = time.monotonic()
        if self._records >= STATE_RECORDS or written - self._kept_at >= STATE_S:
            self._commit(fed)
        stages = {"read": read - began, "apply": applied - read, "write": written - applied}
        return Progress(fed.until, stages, fed.lag or 0, unled=self._feed.abandoned)

    def keep(self) -> None:
        """Keep the state of all that was applied: an orderly end. Raises OSError."""
        if self._last is not None:
            self._commit(self._last)
        self._kept.close()

    def _commit(self, fed: Fed) -> None:
        self._kept.commit(self._number - 1, fed.now, fed.until, *self._core.freeze(), fed.unled)
        self._records, self._kept_at = 0, time.monotonic()
