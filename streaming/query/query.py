"""One run of the streaming query: start it, watch it, and end it for a named reason.

The watch polls, because PySpark's own waiting cannot be interrupted by a signal. Stopping waits for the batch
under way; a batch that was begun after that is run again by the next start, with the same records and time.

Between two batches Spark waits until the system's clock shows a time. If that clock is set back by an hour,
the next batch comes an hour late. So the watch reads the clock too, and starts the query again.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from rebalance_monitor.engine.batch.progress import End
from rebalance_monitor.engine.driver.failures import JobError
from rebalance_monitor.engine.health.notices import ERROR
from rebalance_monitor.streaming.query.decode import decoded
from rebalance_monitor.streaming.query.foreach_batch import collecting
from rebalance_monitor.streaming.query.operator import operated
from rebalance_monitor.streaming.rows.clock import clock_rows
from rebalance_monitor.streaming.rows.handover import lane_limit
from rebalance_monitor.streaming.spark.heap import heap_bytes
from rebalance_monitor.streaming.spark.session import INTERPRETED, PROJECTIONS, NoJvmError, keep_few_versions

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rebalance_monitor.engine.batch.step import Plan
    from rebalance_monitor.engine.driver.writer import BatchWriter
    from rebalance_monitor.streaming.rows.lanes import Lanes
    from rebalance_monitor.streaming.source.source import Source

log = structlog.get_logger()
POLL_S = 0.2
# A report is a tree that the JVM writes, and that is read, anew each time that it is asked for.
PROGRESS_S = 1.0
LAST_BATCH_S = 60.0
# Set back by less, the next batch is late by less.
SET_BACK_S = 1.0


class NotStartedError(Exception):
    """Java could not start the query, for now perhaps: its storage may be away."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the query is made of. trigger_s None: read what there is, then finish.

    interprets: Spark interprets projections in the batches after the first one, which are short.
    """

    source: Source
    plan: Plan
    lanes: Lanes
    checkpoint: str
    trigger_s: float | None
    interprets: bool = False


def output_frame(session: SparkSession, shape: Shape) -> DataFrame:
    """Return source, decoder, clock and operator as one streaming frame."""
    lanes = shape.lanes
    packs = decoded(shape.source(session), lanes)
    limit = lane_limit(heap_bytes(session), lanes)
    return operated(packs, clock_rows(session, lanes), shape.plan, lanes, limit)


def start_query(session: SparkSession, shape: Shape, writer: BatchWriter) -> StreamingQuery:
    """Start the query; its batches go to `writer`. Raises NotStartedError."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - comes with pyspark

    write = collecting(writer, shape.lanes)
    if shape.interprets:
        write = _short_after_first(write)
    keep_few_versions(session, shape.checkpoint)
    stream = output_frame(session, shape).writeStream.outputMode("update").foreachBatch(write)
    stream = stream.option("checkpointLocation", shape.checkpoint)
    if shape.trigger_s is None:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{round(shape.trigger_s * 1000)} milliseconds")
    try:
        query = stream.start()
    except Py4JJavaError as error:
        raise NotStartedError(_said(error)) from error
    writer.serve(str(query.id))
    return query


def _short_after_first(take: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Return what writes batches and has those after the first interpret their projections."""
    is_first = True

    def write(frame: DataFrame, batch_id: int) -> None:
        nonlocal is_first
        take(frame, batch_id)
        if is_first:
            # A query plans its batches with a session of its own.
            frame.sparkSession.conf.set(PROJECTIONS, INTERPRETED)
        is_first = False

    return write


def _said(error: Exception) -> str:
    """Return the message of a Java error. The JVM is asked for it again, and may have ended by then."""
    try:
        return str(error)[:ERROR]
    except Exception as gone:  # noqa: BLE001 - whatever py4j makes of that
        return type(gone).__name__


class WallClock:
    """The system's clock, compared with the monotonic clock. Both in seconds."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._steady = wall, steady
        self._lead = wall() - steady()

    def was_set_back(self) -> bool:
        """Whether it was set back since the last call."""
        before, self._lead = self._lead, self._wall() - self._steady()
        if before - self._lead < SET_BACK_S:
            return False
        log.warning("the clock was set back: the query begins again", by_s=round(before - self._lead, 1))
        return True


def watch(
    query: StreamingQuery,
    stop: threading.Event,
    on_progress: Callable[[Any], bool],
    on_turn: Callable[[], bool],
) -> tuple[End, Exception | None]:
    """Wait until the query ends, `stop` is set, the clock is set back, or a callback asks for another query.

    `on_progress` gets each new progress report, `on_turn` is called a few times a second. An exception of
    either stops the query and is raised.
    """
    seen, asked, clock = -1, -PROGRESS_S, WallClock()
    try:
        while query.isActive:
            is_due = time.monotonic() - asked >= PROGRESS_S
            asked = time.monotonic() if is_due else asked
            progress = last_progress(query) if is_due else {"batchId": -1}
            is_new = progress["batchId"] > seen
            seen = max(seen, progress["batchId"])
            if (is_new and on_progress(progress)) or on_turn() or clock.was_set_back():
                stop_after_batch(query)
                return End.REPLACED, None
            if stop.wait(POLL_S):
                stop_after_batch(query)
                return End.STOPPED, None
    finally:
        query.stop()
    error = query.exception()
    progress = last_progress(query)
    if error is None and progress["batchId"] > seen:
        on_progress(progress)
    return (End.FAILED, error) if error else (End.FINISHED, None)


def last_progress(query: StreamingQuery) -> dict[str, Any]:
    """Return the newest progress report as the JSON tree that Spark made; batch -1 before the first."""
    progress = query.lastProgress
    if progress is None:
        return {"batchId": -1, "sources": []}
    # From 4.0 on it is an object that turns the offsets of sources into Python's own text form.
    tree: dict[str, Any] = json.loads(progress.json) if hasattr(progress, "json") else progress
    return tree


def stop_after_batch(query: StreamingQuery, wait_s: float = LAST_BATCH_S) -> None:
    """Stop the query once the batch under way is done, after `wait_s` in any case."""
    began, deadline = last_progress(query)["batchId"], time.monotonic() + wait_s
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        if last_progress(query)["batchId"] > began:
            break
        time.sleep(0.01)
    query.stop()


@contextmanager
def ended_by_others(stop: threading.Event) -> Iterator[None]:
    """Ignore an ended JVM once `stop` is set; before, it is an error of this machine (JobError).

    The signal that stops the job may reach Spark's JVM too: a service manager signals the whole process
    group. The interrupted batch runs again at the next start.
    """
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - comes with pyspark

    try:
        yield
    except (Py4JError, ConnectionError, NoJvmError) as error:
        if not stop.is_set() and isinstance(error, NoJvmError):
            raise
        if not stop.is_set() and isinstance(error, Py4JJavaError):
            # It answers, and says what is wrong.
            raise JobError(f"Spark failed: {_said(error)}") from error
        if not stop.is_set():
            raise JobError(
                "Spark's JVM has ended or does not answer.",
                "See its own log, and whether the machine ran out of memory.",
            ) from error
        log.warning("Spark was ended before the monitor could stop it")
