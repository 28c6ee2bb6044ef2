"""The production job: wait for the topic, choose the state, run the engine, and run it again where needed.

The engine is Spark's query, or the one in this process. It is started again when the topic has grown, when
settings have changed, when history has been read by limited batches, and after a failure that may pass. While
brokers are away the job waits. It ends when asked to, when there is nothing more to read (`available_now`),
or with an error that an operator must act on. That is published as a finding (`monitor_degraded`) first.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import structlog

from rebalance_monitor.checkpoints.storage.files import locked, usable
from rebalance_monitor.checkpoints.storage.owned import require_owned
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.errors import AccessDeniedError, DependencyError
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.wording import ranges
from rebalance_monitor.engine.batch.progress import End
from rebalance_monitor.engine.batch.step import Plan
from rebalance_monitor.engine.driver.announcing import HistoryProgress, announce
from rebalance_monitor.engine.driver.outputs import Outputs
from rebalance_monitor.engine.driver.plan import (
    limit_of,
    plan_state,
    record_rebuild,
    skipped,
    skipped_sentence,
    take_up,
)
from rebalance_monitor.engine.driver.speaking import Speaking
from rebalance_monitor.engine.memory import few_arenas
from rebalance_monitor.engine.settings import assumed, detection_settings, origins_line
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.engine.topic.broker_values import BrokerValues
from rebalance_monitor.engine.topic.guard import (
    CutError,
    SightCheck,
    lost_sentence,
    removed_unread,
    require_same,
    require_uncut,
    unled_sentence,
)
from rebalance_monitor.engine.topic.leader_epochs import read_marks
from rebalance_monitor.engine.topic.topic import TopicWatch, ask, await_topic

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.batch.progress import Progress
    from rebalance_monitor.engine.driver.plan import StatePlan
    from rebalance_monitor.engine.outputs.sinks import Sink
    from rebalance_monitor.engine.outputs.upkeep import FindingsStore
    from rebalance_monitor.engine.storage import Storage
    from rebalance_monitor.engine.topic.facts import TopicFacts

log = structlog.get_logger()
RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to the configuration."""

    rebuild_state: bool = False
    available_now: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """What one run of an engine is begun with.

    limit: offsets that a batch may read, None for no limit. skip: partition -> offset behind which a state
    that begins reads (`source.skip`).
    """

    plan: Plan
    facts: TopicFacts
    limit: int | None
    skip: Mapping[int, int]


class Engine(Protocol):
    """What reads the topic, advances the coordinators and gives the writer their batches."""

    limited: bool
    """Whether a batch may end before the topic does, whatever the limit."""

    def run(
        self, query: Query, on_progress: Callable[[Progress], bool], on_turn: Callable[[], bool]
    ) -> tuple[End, Exception | None]:
        """Run until it ends, the job is stopped, or a callback asks for another run; then the batch is done.

        `on_progress` gets each finished batch, `on_turn` is called a few times a second. An exception of
        either stops the engine and is raised.
        """

    def classify_failure(self, error: Exception, failures: int) -> dict[str, str]:
        """Return what to log about a failure, the `failures`th in a row. Raises errors that will not pass."""

    def explained(self, error: Exception) -> Exception:
        """Return what the job ends with in place of `error`, as far as the engine knows more. May block."""


class Kind(Protocol):
    """One sort of engine. `lanes`: state keys of a state that begins now, 0 where it has none.

    `partly`: reads the topic also where some of its partitions have no leader.
    """

    name: str
    lanes: int
    partly: bool

    def stored(self, storage: Storage) -> AbstractContextManager[FindingsStore | None]:
        """Give the findings table of this kind, None for Parquet. Raises ConfigError, DependencyError."""

    def engine(
        self, outputs: Outputs, state: StatePlan, stop: threading.Event
    ) -> AbstractContextManager[Engine]:
        """Start the engine on a state, and end it."""


def run_job(
    kind: Kind,
    settings: Settings,
    options: Options,
    stop: threading.Event,
    more_sinks: Sequence[Sink] = (),
) -> int:
    """Run until `stop` is set; return the number of findings published. Blocks.

    Raises ConfigError (a checkpoint that does not fit, a folder in use), DependencyError (no broker, no Java,
    no jars, blind).
    """
    few_arenas()
    storage = storage_at(settings.storage.path, settings.storage.checkpoint)
    with (
        locked(storage.root),
        ClusterAdmin(settings.kafka.client_properties()) as admin,
        kind.stored(storage) as store,
    ):
        marks = read_marks(storage.leaders)
        facts = await_topic(admin, settings.source.topic, stop, marks, partly=kind.partly)
        if facts is None:
            return 0
        announce(settings, facts)
        detection = detection_settings(settings.detection, admin)
        log.info("values of the cluster", values=origins_line(detection, settings.detection))
        if names := assumed(detection):
            # An older broker does not have them all; others may lack a permission.
            log.info("the brokers do not return all values, see doctor for DescribeConfigs", assumed=names)
        with usable(storage.root):
            state = plan_state(storage, facts, settings, kind, rebuild=options.rebuild_state)
            # A process that begins knows no positions: the state publishes all of them to it.
            begun = time.time_ns() // 1_000_000
            plan = Plan(detection, facts.cluster_id, state.manifest.catching_up, reader=begun)
            number = state.manifest.generation
            outputs = Outputs(settings, storage, facts, detection, more_sinks, store, number)
        with outputs:
            if not state.rebuilt:
                outputs.recall()
            _publish_start(outputs, state, facts)
            if state.rebuilt:
                record_rebuild(storage, state)
            with kind.engine(outputs, state, stop) as engine:
                limit, skip = limit_of(state, settings), skipped(state.manifest, facts)
                job = Job(
                    settings,
                    options,
                    stop,
                    engine,
                    outputs,
                    plan,
                    storage,
                    limit,
                    skip,
                    state.read,
                    partly=kind.partly,
                )
                job.run(facts)
        return outputs.writer.published.findings


def _publish_start(outputs: Outputs, state: StatePlan, facts: TopicFacts) -> None:
    """Publish, before the first batch, what the start found: a crash must not lose it."""
    if state.rebuilt:
        outputs.notices.happened(Cause.STATE_REBUILT, f"state was rebuilt from the topic: {state.rebuilt}")
    skip = skipped(state.manifest, facts)
    if state.is_new and skip:
        outputs.notices.happened(Cause.DATA_LOST, *skipped_sentence(skip, facts.begins))
    if state.lost:
        outputs.notices.happened(Cause.DATA_LOST, lost_sentence(state.lost), sum(state.lost.values()))
    # Of a group that has no coordinator nobody knows whether it is gone.
    complete = bool(state.manifest.catching_up) and not state.manifest.unled
    held = state.is_new and outputs.begin_anew(complete=complete)
    if state.rebuilt or state.lost or skip or held:
        outputs.writer.speak()


@dataclass(slots=True)
class Job:
    """The main loop, with everything that outlives one run of the engine.

    read: partition -> the offset up to which the state has read. removed: partition -> the offset up to which
    what was removed unread is published. partly: as the engine's kind has it.
    """

    settings: Settings
    options: Options
    stop: threading.Event
    engine: Engine
    outputs: Outputs
    plan: Plan
    storage: Storage
    limit: int | None
    skip: Mapping[int, int] = field(default_factory=dict)
    read: Mapping[int, int] = field(default_factory=dict)
    partly: bool = False
    failures: int = 0
    removed: dict[int, int] = field(default_factory=dict)
    history: HistoryProgress = field(init=False)
    speaking: Speaking = field(init=False)

    def __post_init__(self) -> None:
        patience_ms = self.settings.detection.behind_after.ms
        self.speaking = Speaking(self.outputs.notices, self.outputs.writer, patience_ms)

    def run(self, facts: TopicFacts) -> None:
        """Run queries until one ends for good. An error that ends the job is published as a finding first."""
        begins = {p: max(at, self.read.get(p, 0)) for p, at in facts.begins.items()}
        self.history = HistoryProgress(begins, self.plan.catching_up)
        # The page says how much there is to read before the first batch has been.
        self.outputs.serving.snapshot.measured(stages={}, lag_records=self.history.total)
        try:
            self._loop(facts)
        except Exception as error:
            if self.stop.is_set():
                raise
            ended = self.engine.explained(error)
            self._report_stop(str(ended).partition("\n")[0] or type(ended).__name__)
            if ended is error:
                raise
            raise ended from error

    def _report_stop(self, why: str) -> None:
        # What ends the job may be a full disk: then that is the error to be raised.
        self.speaking.say(Cause.BLIND, f"the monitor stopped: {why}")

    def _loop(self, facts: TopicFacts) -> None:
        source = self.settings.source
        properties = self.settings.kafka.client_properties()
        asked: TopicFacts | None = facts
        values = BrokerValues(properties, self.settings.detection, self.plan.settings)
        watching = TopicWatch(properties, source.topic, source.refresh.seconds, self.storage.leaders)
        with watching, values:
            while asked is not None:
                watching.begin(asked)
                end, error = self._run_query(asked, watching, values)
                if end in {End.STOPPED, End.FINISHED} or (error is not None and self._gives_up(error)):
                    return
                unled, asked = asked.unled, self._ask_again(asked)
                if asked is not None:
                    self._take_up(unled, asked)

    def _run_query(
        self, facts: TopicFacts, watching: TopicWatch, values: BrokerValues
    ) -> tuple[End, Exception | None]:
        if facts.unled:
            log.warning(unled_sentence(facts.name, facts.unled))
        writer, batches = self.outputs.writer, self.outputs.writer.published.batches
        limited = self.limit is not None
        sight = SightCheck(facts, limited=limited or self.engine.limited)
        query = Query(replace(self.plan, limited=limited), facts, self.limit, self.skip)

        def on_progress(progress: Progress) -> bool:
            self.outputs.serving.on_progress(progress)
            try:
                return self._judge(progress, facts, sight, watching)
            except CutError:
                # A topic that was made anew ends below what was read, too.
                self._require_same(facts)
                raise

        def on_turn() -> bool:
            self.speaking.require()
            require_owned(self.storage.leaders)
            return self._compare(sight, facts, watching) or self._refresh_settings(values)

        try:
            with self.speaking.listening(self.stop):
                end, error = self.engine.run(query, on_progress, on_turn)
        finally:
            writer.pause()
        if end is End.FINISHED:
            sight.require()
        if writer.published.batches > batches:
            self.failures = 0
        return (End.STOPPED, None) if self.stop.is_set() else (end, error)

    def _require_same(self, facts: TopicFacts) -> None:
        """Raise ManifestError where the brokers have another topic by now; brokers that are away pass."""
        with suppress(DependencyError), ClusterAdmin(self.settings.kafka.client_properties()) as admin:
            if (found := ask(admin, facts.name)) is not None:
                require_same(facts, found)

    def _judge(self, progress: Progress, facts: TopicFacts, sight: SightCheck, watching: TopicWatch) -> bool:
        """Check sight; true when history has been read by limited batches: live ones are not limited."""
        self.speaking.progressed()
        ends = progress.ends
        if ends is None:
            return False
        sight.check_ends(ends)
        watching.has_read(ends)
        if sight.is_sure:
            unled = unled_sentence(facts.name, {*facts.unled, *progress.unled})
            self.outputs.notices.hold(Cause.BLIND, unled)
        self.history(ends)
        if self.limit is None or self.options.available_now or not self.history.is_read:
            return False
        self.limit = None
        return True

    def _compare(self, sight: SightCheck, facts: TopicFacts, watching: TopicWatch) -> bool:
        """Take the newest check of the topic; true when more partitions can be read."""
        look = watching.take()
        if look is None:
            return False
        sight.compare(look)
        begins = look.facts.begins
        known = {p: max(end, self.removed.get(p, 0)) for p, end in look.after.ends.items()}
        self._report_lost(removed_unread(known, begins), begins)
        unled = "" if self.partly else unled_sentence(facts.name, look.facts.unled)
        if unled and unled != self.outputs.notices.condition(Cause.BLIND):
            # Spark waits for the leader of each partition, and gives no batch until then.
            self.speaking.say(Cause.BLIND, unled)
        if led := sorted(set(facts.unled).difference(look.facts.unled)):
            log.info("partitions have a leader again and are read", partitions=ranges(led))
        return bool(led) or look.facts.partitions > facts.partitions

    def _report_lost(self, lost: Mapping[int, int], begins: Mapping[int, int]) -> None:
        if lost:
            log.warning("records were removed before they were read", partitions=lost)
            self.outputs.notices.happened(Cause.DATA_LOST, lost_sentence(lost), sum(lost.values()))
            self.removed |= {partition: begins[partition] for partition in lost}

    def _take_up(self, unled: Collection[int], facts: TopicFacts) -> None:
        """Go on with partitions that were `unled`: what they hold is history if the state has none of them.

        Raises CutError where they lost what was read of them, ManifestError, OSError.
        """
        require_uncut(self.read, facts)
        read = {p: self.read[p] for p in unled if p in self.read}
        self._report_lost(removed_unread(read, facts.begins), facts.begins)
        self.plan = replace(self.plan, catching_up=take_up(self.storage, facts))

    def _refresh_settings(self, values: BrokerValues) -> bool:
        """Take what the brokers have said anew; true when it differs, for a query keeps its settings."""
        if self.outputs.has_new_groups():
            values.hurry()
        settings = values.take()
        if settings is None:
            return False
        self.plan = replace(self.plan, settings=settings)
        return True

    def _gives_up(self, error: Exception) -> bool:
        """Wait before the next try; true when asked to stop meanwhile. Raises errors that will not pass."""
        self.failures += 1
        failure = self.engine.classify_failure(error, self.failures)
        log.warning("the query failed and is tried again", failures=self.failures, **failure)
        return self.stop.wait(RETRY_S * self.failures)

    def _ask_again(self, facts: TopicFacts) -> TopicFacts | None:
        """Return what the brokers say now, however long they are away; None when asked to stop meanwhile.

        Raises ManifestError where they are other brokers or the topic is another, AccessDeniedError.
        """
        while not self.stop.is_set():
            try:
                with ClusterAdmin(self.settings.kafka.client_properties()) as admin:
                    found = ask(admin, facts.name)
                why = f"the topic {facts.name} does not exist any more"
                if found is not None and found.unled and not self.partly:
                    why, found = unled_sentence(facts.name, found.unled), None
            except (AccessDeniedError, ConfigError):
                raise
            except DependencyError as error:
                found, why = None, error.what
            except Exception as error:  # noqa: BLE001 - a client's bug is no reason to end: the topic is asked again
                found, why = None, f"{type(error).__name__}: {error}"
            if found is not None:
                require_same(facts, found)
                return found
            self._report_unreachable(why)
            self.stop.wait(RETRY_S)
        return None

    def _report_unreachable(self, why: str) -> None:
        # That the brokers are away is no failure of the query's own.
        self.failures = 0
        if self.outputs.notices.condition(Cause.BLIND):
            self.speaking.speak()
            return
        log.warning("waiting for the brokers", why=why)
        self.speaking.say(Cause.BLIND, why)
