"""The stages of the job, most of them one more step than the one before, over the same topic.

`drain` is the floor: librdkafka reading every record and doing nothing. `plain` is identity as Spark and
Kafka's client have it by default, without the job's settings of tasks, fetches, workers and files. The Spark
stages run `availableNow` in one process: everything once, which warms the JVM's compilers up, a small pass
(the last 2 % of each partition; of the whole job nothing), then everything again. What is reported is the
difference between the last two passes, so neither start-up nor compiling counts: a monitor runs for months.
Memory is the most of all three passes in the one process, and of the whole job that of the first: a job reads
its history once, and each one that has ended in the process leaves something.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench.measure.sparks import FILE_SYSTEM_CHECKPOINTS, kafka_frame, kafka_session
from bench.measure.trees import Meter
from bench.traffic.load import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

    from rebalance_monitor.streaming.rows.lanes import Lanes

RECORD_DDL = "key binary, value binary, partition int, offset long, timestamp timestamp"
COLUMNS = ("key", "value", "partition", "offset", "timestamp")
SMALL_SHARE = 50  # a small pass reads one fiftieth
CORES = 2
FETCH = 10_000
PLAIN = "plain"
JOBS = {"job": "spark", "embedded": "embedded"}
"""The whole job, by its engine."""

DEFAULTS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "10000"}
UNTUNED = {"kafka.fetch.max.wait.ms": "500", "kafka.max.poll.records": "500"}
TUNED = {
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.checkpointFileManagerClass": FILE_SYSTEM_CHECKPOINTS,
    "spark.python.daemon.module": "rebalance_monitor.streaming.spark.daemon",
}
Ends = dict[int, int]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one pass, or the difference between two, cost; memory is the peak of the whole stage."""

    records: int
    seconds: float
    jvm_s: float
    python_s: float
    jvm_bytes: int = 0
    python_bytes: int = 0

    def minus(self, other: Figures) -> Figures:
        """Give the cost of the records that this pass read and `other` did not."""
        return Figures(
            self.records - other.records,
            self.seconds - other.seconds,
            self.jvm_s - other.jvm_s,
            self.python_s - other.python_s,
            self.jvm_bytes,
            self.python_bytes,
        )


def end_offsets(bootstrap: str) -> Ends:
    """Give the end offset of each partition of the topic."""
    consumer = _consumer(bootstrap)
    partitions = consumer.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    ends = {p: consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=10)[1] for p in partitions}
    consumer.close()
    return ends


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-drain",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
        }
    )


def timed(meter: Meter, records: int, work: Callable[[], None]) -> Figures:
    """Run `work` and give what it cost."""
    before, began = meter.read(), time.monotonic()
    work()
    seconds, after = time.monotonic() - began, meter.read()
    cpu = after.jvm_s - before.jvm_s, after.python_s - before.python_s
    return Figures(records, seconds, *cpu, after.jvm_bytes, after.python_bytes)


def drain(bootstrap: str, ends: Ends) -> Figures:
    """Read everything with librdkafka and do nothing with it."""
    consumer = _consumer(bootstrap)

    def work() -> None:
        consumer.assign([TopicPartition(TOPIC, p, OFFSET_BEGINNING) for p in ends])
        # Markers and what was compacted have offsets but no records, so these cannot be counted.
        while len(consumer.consume(FETCH, timeout=1.0)) == FETCH or not _is_read(consumer, ends):
            pass

    with Meter() as meter:
        figures = timed(meter, sum(ends.values()), work)
    consumer.close()
    return figures


def _is_read(consumer: Consumer, ends: Ends) -> bool:
    """Whether the consumer has come to the end of every partition."""
    filled = [TopicPartition(TOPIC, p) for p, end in ends.items() if end]
    return all(place.offset >= ends[place.partition] for place in consumer.position(filled))


def source(
    spark: SparkSession, bootstrap: str, start: Mapping[int, int] | None, ends: Ends, *, plain: bool
) -> DataFrame:
    """Give the job's source, or a `plain` one, from offsets `start` (None: everything)."""
    options = dict(UNTUNED) if plain else {}
    if start is not None:
        options["startingOffsets"] = json.dumps({TOPIC: {str(p): at for p, at in start.items()}})
    frame = kafka_frame(spark, bootstrap, len(ends), options).select(*COLUMNS)
    return frame if plain else frame.coalesce(CORES)


def as_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give back what came: what crossing to Python and back costs by itself."""
    return batches


def to_identity(records: DataFrame, _: Ends) -> DataFrame:
    """Send every record through Python and back."""
    return records.mapInArrow(as_is, RECORD_DDL)


def to_rows(records: DataFrame, ends: Ends) -> DataFrame:
    """Decode every record."""
    from rebalance_monitor.streaming.query.decode import decoded  # noqa: PLC0415 - only some stages need Spark

    return decoded(records, _lanes(ends))


def _lanes(ends: Ends) -> Lanes:
    from rebalance_monitor.streaming.rows.lanes import Lanes  # noqa: PLC0415

    return Lanes(len(ends), 1, CORES)


def to_carried(records: DataFrame, ends: Ends) -> DataFrame:
    """Decode every record and carry it to a state function that makes rows of it and keeps nothing."""
    from rebalance_monitor.streaming.query.operator import by_lane  # noqa: PLC0415
    from rebalance_monitor.streaming.rows.clock import clock_rows  # noqa: PLC0415

    return by_lane(to_rows(records, ends), clock_rows(records.sparkSession, _lanes(ends)), _unpack)


def _unpack(
    key: tuple[int],  # noqa: ARG001 - Spark gives it
    frames: Iterable[pd.DataFrame],
    state: GroupState,
) -> Iterator[pd.DataFrame]:
    import pandas as pd  # noqa: PLC0415

    from rebalance_monitor.streaming.rows.handover import Handed  # noqa: PLC0415
    from rebalance_monitor.streaming.rows.packing import Unpacked  # noqa: PLC0415

    found = Unpacked(bytes(pack) for frame in frames for pack in frame["rows"].tolist())
    rows = sum(len(list(found.rows(place))) for place in found.places)
    state.update((rows, b""))
    yield pd.DataFrame([], columns=list(Handed._fields))


def to_state(records: DataFrame, ends: Ends) -> DataFrame:
    """Decode every record and keep the state of every group."""
    from rebalance_monitor.coordinator.settings import DetectionSettings  # noqa: PLC0415
    from rebalance_monitor.engine.batch.step import Plan  # noqa: PLC0415
    from rebalance_monitor.streaming.query.operator import operated  # noqa: PLC0415
    from rebalance_monitor.streaming.rows.clock import clock_rows  # noqa: PLC0415

    plan = Plan(DetectionSettings(), "bench", dict(ends))
    lanes = _lanes(ends)
    return operated(to_rows(records, ends), clock_rows(records.sparkSession, lanes), plan, lanes)


def to_nothing(records: DataFrame, _: Ends) -> DataFrame:
    """Only read."""
    return records


SPARK_STAGES: dict[str, Callable[[DataFrame, Ends], DataFrame]] = {
    "source": to_nothing,
    PLAIN: to_identity,
    "identity": to_identity,
    "decode": to_rows,
    "carried": to_carried,
    "state": to_state,
}


def spark_stage(name: str, master: str, bootstrap: str, ends: Ends) -> Figures:
    """Measure one Spark stage: everything minus a small pass, both warm."""
    plain = name == PLAIN
    spark = kafka_session(master, DEFAULTS if plain else TUNED)
    tail = {p: end - end // SMALL_SHARE for p, end in ends.items()}

    def run(start: Mapping[int, int] | None) -> Figures:
        records = sum(ends.values()) - sum((start or {}).values())
        frame = SPARK_STAGES[name](source(spark, bootstrap, start, ends, plain=plain), ends)
        return timed(meter, records, lambda: drain_query(frame))

    with Meter() as meter:
        run(None)
        small, full = run(tail), run(None)
    spark.stop()
    return full.minus(small)


def drain_query(frame: DataFrame) -> None:
    """Run `frame` to the end of what there is, into nothing."""
    stateful = "update" if "pack" in frame.columns else "append"
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        writer = frame.writeStream.format("noop").outputMode(stateful).trigger(availableNow=True)
        query = writer.option("checkpointLocation", folder).start()
        query.awaitTermination()


def job_stage(name: str, bootstrap: str, ends: Ends, conf: Mapping[str, str]) -> Figures:
    """Measure the whole job on an engine: from the beginning of the topic, minus a start at its end."""

    def run(starting: str) -> Figures:
        with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
            records = sum(ends.values()) if starting == "earliest" else 0
            return timed(
                meter, records, lambda: _run_job(JOBS[name], bootstrap, starting, Path(folder), conf)
            )

    with Meter() as meter:
        first, small, full = run("earliest"), run("latest"), run("earliest")
    return replace(full.minus(small), jvm_bytes=first.jvm_bytes, python_bytes=first.python_bytes)


def _run_job(engine: str, bootstrap: str, starting: str, folder: Path, conf: Mapping[str, str]) -> None:
    from rebalance_monitor.config.load import load  # noqa: PLC0415 - only this stage needs it
    from rebalance_monitor.engine.driver.job import Options  # noqa: PLC0415

    if engine == "embedded":
        from rebalance_monitor.engine.embedded.engine import run_job  # noqa: PLC0415
    else:
        from rebalance_monitor.streaming.job.job import run_job  # noqa: PLC0415 - the other engine does without
    flags = {
        "engine": engine,
        "kafka.bootstrap.servers": bootstrap,
        "source.starting": starting,
        "storage.path": str(folder),
        "outputs.console": False,
        # What the ends of topics cost does not depend on the records that are read.
        "ends.enabled": False,
        "web.port": 0,
        **{f"spark.{key}": value for key, value in conf.items()},
    }
    run_job(load(flags=flags), Options(available_now=True), threading.Event())


def measure(name: str, master: str, bootstrap: str, conf: Mapping[str, str]) -> dict[str, float]:
    """Measure the stage `name` in this process; `conf` is Spark's configuration for the whole job."""
    ends = end_offsets(bootstrap)
    if name == "drain":
        figures = drain(bootstrap, ends)
    elif name in JOBS:
        figures = job_stage(name, bootstrap, ends, conf)
    else:
        figures = spark_stage(name, master, bootstrap, ends)
    return asdict(figures)
