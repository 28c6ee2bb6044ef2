"""The production job: wait for the topic, choose the state, run the query, and run it again when it must be.

The query is replaced when the topic has grown and when history has been read (its batches may be limited,
live ones are not), and tried again after a failure that may pass; brokers that are away are waited for. The
job ends when asked to, when there is nothing more to read (`available_now`), or with an error that somebody
must act on, which is told as a finding (`monitor_degraded`) first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import structlog

from rebalance_monitor.checkpoints.files import locked, usable
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.errors import AccessDeniedError, DependencyError
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.engine.batch.step import Plan
from rebalance_monitor.engine.driver.outputs import Outputs
from rebalance_monitor.engine.driver.speaking import Speaking
from rebalance_monitor.engine.memory import few_arenas
from rebalance_monitor.engine.settings import assumed, detection_settings
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.engine.topic.broker_values import BrokerValues
from rebalance_monitor.engine.topic.guard import (
    SightCheck,
    has_read,
    lost_sentence,
    removed_unread,
    require_same,
    source_ends,
)
from rebalance_monitor.engine.topic.leader_epochs import read_marks
from rebalance_monitor.engine.topic.topic import TopicWatch, ask, await_topic
from rebalance_monitor.streaming.job.failures import judged, scratch
from rebalance_monitor.streaming.job.plan import StatePlan, limit_of, plan_state, told_rebuilt
from rebalance_monitor.streaming.query.query import (
    End,
    NotStartedError,
    Shape,
    ended_by_others,
    start_query,
    watch,
)
from rebalance_monitor.streaming.rows.lanes import Lanes
from rebalance_monitor.streaming.source.source import topic_source
from rebalance_monitor.streaming.spark.session import (
    interprets,
    kafka_jars,
    shuffle_partitions,
    start_session,
)
from rebalance_monitor.streaming.storage.delta import DeltaFindings, early_session

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from rebalance_monitor.checkpoints.places import Place
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.outputs.sinks import Sink
    from rebalance_monitor.engine.topic.facts import TopicFacts

log = structlog.get_logger()
RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to the configuration."""

    rebuild_state: bool = False
    available_now: bool = False


def run_job(
    settings: Settings, options: Options, stop: threading.Event, more_sinks: Sequence[Sink] = ()
) -> int:
    """Run until `stop` is set; return the number of findings told. Blocks.

    Raises ConfigError (a checkpoint that does not fit, a folder in use), DependencyError (no broker, no Java,
    no jars, blind), JobError.
    """
    if options.available_now and settings.source.max_offsets_per_trigger is not None:
        # Spark's clock source gives its one row to the first of the batches.
        raise ConfigError("`source.max_offsets_per_trigger` does not go with --available-now; leave one out")
    few_arenas()
    storage = storage_at(settings.storage.path, settings.storage.checkpoint)
    with (
        locked(storage.root),
        ClusterAdmin(settings.kafka.client_properties()) as admin,
        early_session(settings) as early,
    ):
        facts = await_topic(admin, settings.source.topic, stop, read_marks(storage.leaders))
        if facts is None:
            return 0
        detection = detection_settings(settings.detection, admin)
        if names := assumed(detection):
            # An older broker does not have them all; others may lack a permission.
            log.info("the brokers do not tell all values, see doctor for DescribeConfigs", assumed=names)
        with usable(storage.root):
            state = plan_state(storage, facts, settings, rebuild=options.rebuild_state)
            # A process that begins knows no positions: the state publishes all of them to it.
            begun = time.time_ns() // 1_000_000
            plan = Plan(detection, facts.cluster_id, state.manifest.catching_up, reader=begun)
            number = state.manifest.generation
            store = DeltaFindings(storage, early) if early else None
            outputs = Outputs(settings, storage, facts, detection, more_sinks, store, number)
        with outputs, ended_by_others(stop):
            if not state.rebuilt:
                outputs.recall()
            _tell_of_start(outputs, state)
            if state.rebuilt:
                told_rebuilt(storage, state)
            session = early or start_session(
                "rebalance-monitor", settings.spark.properties(), kafka_jars(settings)
            )
            try:
                limit = limit_of(state, settings)
                places = (state.location, storage.leaders)
                _Job(settings, options, stop, session, outputs, plan, *places, limit).run(facts)
            finally:
                session.stop()
        return outputs.writer.told.findings


def _tell_of_start(outputs: Outputs, state: StatePlan) -> None:
    """Tell, before the first batch, what was found at the start: a crash must not swallow it."""
    if state.rebuilt:
        outputs.notices.happened(Cause.STATE_REBUILT, f"state was rebuilt from the topic: {state.rebuilt}")
    if state.lost:
        outputs.notices.happened(Cause.DATA_LOST, lost_sentence(state.lost), sum(state.lost.values()))
    held = state.is_new and outputs.begin_anew(complete=bool(state.manifest.catching_up))
    if state.rebuilt or state.lost or held:
        outputs.writer.speak()


@dataclass(slots=True)
class _Job:
    """The main loop, with everything that outlives one query.

    removed: partition -> the offset up to which it was told what was removed unread.
    """

    settings: Settings
    options: Options
    stop: threading.Event
    session: SparkSession
    outputs: Outputs
    plan: Plan
    checkpoint: str
    leaders: Place
    limit: int | None
    failures: int = 0
    removed: dict[int, int] = field(default_factory=dict)
    speaking: Speaking = field(init=False)

    def __post_init__(self) -> None:
        patience_ms = self.settings.detection.behind_after_ms
        self.speaking = Speaking(self.outputs.notices, self.outputs.writer, patience_ms)

    def run(self, facts: TopicFacts) -> None:
        """Run queries until one ends for good. What ends the job with an error is told as a finding first."""
        try:
            self._loop(facts)
        except Exception as error:
            if not self.stop.is_set():
                self._tell_end(str(error).partition("\n")[0] or type(error).__name__)
            raise

    def _tell_end(self, why: str) -> None:
        # What ends the job may be a full disk: then that is the error to be raised.
        self.speaking.say(Cause.BLIND, f"the monitor stopped: {why}")

    def _loop(self, facts: TopicFacts) -> None:
        source = self.settings.source
        properties = self.settings.kafka.client_properties()
        asked: TopicFacts | None = facts
        values = BrokerValues(properties, self.settings.detection, self.plan.settings)
        watching = TopicWatch(properties, source.topic, source.refresh_seconds, self.leaders)
        with watching, values:
            while asked is not None:
                watching.begin(asked)
                end, error = self._run_query(asked, watching, values)
                if end in {End.STOPPED, End.FINISHED} or (error is not None and self._gives_up(error)):
                    return
                asked = self._ask_again(asked)

    def _run_query(
        self, facts: TopicFacts, watching: TopicWatch, values: BrokerValues
    ) -> tuple[End, Exception | None]:
        writer, told = self.outputs.writer, self.outputs.writer.told.batches
        sight = SightCheck(facts, limited=self.limit is not None)

        def on_progress(progress: Mapping[str, Any]) -> bool:
            self.outputs.serving.on_progress(progress)
            return self._judge(progress, sight, watching)

        def on_turn() -> bool:
            self.speaking.require()
            return self._compare(sight, facts, watching) or self._retold(values)

        try:
            with self.speaking.listening(self.stop):
                query = start_query(self.session, self._shape(facts), writer)
                log.info("watching", topic=facts.name, partitions=facts.partitions, query=str(query.id))
                end, error = watch(query, self.stop, on_progress, on_turn)
        except NotStartedError as refused:
            end, error = End.FAILED, refused
        finally:
            writer.pause()
        if end is End.FINISHED:
            sight.require()
        if writer.told.batches > told:
            self.failures = 0
        return (End.STOPPED, None) if self.stop.is_set() else (end, error)

    def _shape(self, facts: TopicFacts) -> Shape:
        return Shape(
            source=topic_source(self.settings, facts.partitions, self.limit),
            plan=replace(self.plan, limited=self.limit is not None),
            lanes=Lanes(
                facts.partitions, self.settings.buckets, shuffle_partitions(self.settings.spark.properties())
            ),
            checkpoint=self.checkpoint,
            trigger_s=None if self.options.available_now else self.settings.trigger_seconds,
            interprets=self.limit is None and interprets(self.settings.spark.properties()),
        )

    def _judge(self, progress: Mapping[str, Any], sight: SightCheck, watching: TopicWatch) -> bool:
        """Check sight; true when history has been read by limited batches: live ones are not limited."""
        self.speaking.progressed()
        ends = source_ends(progress, self.settings.source.topic)
        if ends is None:
            return False
        sight.look(ends)
        watching.has_read(ends)
        if sight.is_sure:
            self.outputs.notices.hold(Cause.BLIND, "")
        if self.limit is None or self.options.available_now or not has_read(ends, self.plan.catching_up):
            return False
        log.info("history has been read")
        self.limit = None
        return True

    def _compare(self, sight: SightCheck, facts: TopicFacts, watching: TopicWatch) -> bool:
        """Take the newest look at the topic; true when it has grown."""
        look = watching.take()
        if look is None:
            return False
        sight.compare(look)
        begins = look.facts.begins
        known = {p: max(end, self.removed.get(p, 0)) for p, end in look.after.ends.items()}
        lost = removed_unread(known, begins)
        if lost:
            log.warning("records were removed before they were read", partitions=lost)
            self.outputs.notices.happened(Cause.DATA_LOST, lost_sentence(lost), sum(lost.values()))
            self.removed |= {partition: begins[partition] for partition in lost}
        return look.facts.partitions > facts.partitions

    def _retold(self, values: BrokerValues) -> bool:
        """Take what the brokers have said anew; true when it differs, for a query keeps its settings."""
        if self.outputs.has_new_groups():
            values.hurry()
        settings = values.take()
        if settings is None:
            return False
        self.plan = replace(self.plan, settings=settings)
        return True

    def _gives_up(self, error: Exception) -> bool:
        """Wait before the next try; true when asked to stop meanwhile. Raises what will not pass."""
        self.failures += 1
        path, spark = self.settings.storage.path, self.settings.spark.properties()
        where = (path, f"{path}/tables", self.checkpoint, scratch(spark))
        failure = judged(error, self.failures, where)
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
            except (AccessDeniedError, ConfigError):
                raise
            except DependencyError as error:
                found, why = None, error.what
            except Exception as error:  # noqa: BLE001 - a client's bug is no reason to end: the topic is asked again
                found, why = None, f"{type(error).__name__}: {error}"
            if found is not None:
                require_same(facts, found)
                return found
            self._tell_away(why)
            self.stop.wait(RETRY_S)
        return None

    def _tell_away(self, why: str) -> None:
        # That the brokers are away is no failure of the query's own.
        self.failures = 0
        if self.outputs.notices.condition(Cause.BLIND):
            self.speaking.speak()
            return
        log.warning("waiting for the brokers", why=why)
        self.speaking.say(Cause.BLIND, why)
