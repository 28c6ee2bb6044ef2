"""What each performance lever of the job is worth: one lever off at a time.

First the batch without new records. The query is the job's shape: the Kafka source over 50 partitions of
`__consumer_offsets`, the decode stage, the clock row, the stateful operator with 1 MB of state, a sink that
collects; the session has the job's settings. Every variant runs in a process of its own, batches back to
back. Prints ms and CPU-ms per batch (medians, means). With `--turns` the variants take turns so often in one
session, after a turn that warms it up, and the figures are the medians of the turns: what the JVM compiles
in its first minutes is more than a lever is worth. Then the levers of reading: a topic with records, read
by Spark's source to nothing, with its time, CPU and the JVM's memory at most, from loopback and from a broker
some milliseconds away. Writes build/bench/levers.json.

    python -m bench.job.levers --spark 'local[2]'
    python -m bench.job.levers --records 0 --only "all levers on" --only "generated projections (default)"
    python -m bench.job.levers --records 0 --turns 5 --only "all levers on" --only "4 shuffle partitions"
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.job.stage import drain_query
from bench.job.state_curve import OUT, STATE, Cell, step
from bench.measure.sparks import FILE_SYSTEM_CHECKPOINTS, batch_ms, kafka_frame, kafka_session
from bench.measure.trees import Meter
from bench.traffic.load import load, records_of
from bench.traffic.mix import Mix
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.streaming.query.decode import decoded
from rebalance_monitor.streaming.rows.clock import clock_rows
from rebalance_monitor.streaming.rows.lanes import Lanes
from rebalance_monitor.streaming.spark.local_files import IMPLEMENTATION, local_files
from rebalance_monitor.streaming.spark.session import INTERPRETED, LOCAL, OPEN_SOURCE, PROJECTIONS, QUERY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OUT_FILE = Path(__file__).parents[2] / "build" / "bench" / "levers.json"
SHARDS = 50
WATCH_S = 240.0
HADOOP = "spark.hadoop."
DEFAULT_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.FileContextBasedCheckpointFileManager"


@dataclass(frozen=True, slots=True)
class Variant:
    """One setting of all levers; the defaults are the job's."""

    wait_ms: int = 0
    coalesce: int = 2
    partitions: int = 2
    lanes: int = 0
    timeout: str = "NoTimeout"
    checkpoints: str = FILE_SYSTEM_CHECKPOINTS
    daemon: str = "rebalance_monitor.streaming.spark.daemon"
    computes: int = 1
    conf: dict[str, str] = field(default_factory=dict)


ON = Variant()
RULE = "org.apache.spark.sql.catalyst.optimizer.{}"
# The query has no join, filter, sort, limit, window, aggregate or subquery.
UNUSED_RULES = (
    *(
        "PushProjectionThroughUnion",
        "ReorderJoin",
        "EliminateOuterJoin",
        "PushDownPredicates",
        "LimitPushDown",
    ),
    *(
        "PushDownLeftSemiAntiJoin",
        "PushLeftSemiLeftAntiThroughJoin",
        "OptimizeJoinCondition",
        "OptimizeWindowFunctions",
    ),
    *(
        "LimitPushDownThroughWindow",
        "CollapseWindow",
        "TransposeWindow",
        "NullPropagation",
        "NullDownPropagation",
    ),
    *(
        "ConstantPropagation",
        "FoldablePropagation",
        "OptimizeIn",
        "OptimizeRand",
        "ReorderAssociativeOperator",
    ),
    *("LikeSimplification", "BooleanSimplification", "SimplifyConditionals", "PushFoldableIntoBranches"),
    *(
        "SimplifyBinaryComparison",
        "ReplaceNullWithFalseInPredicate",
        "PruneFilters",
        "SimplifyCaseConversionExpressions",
    ),
    *(
        "RewriteCorrelatedScalarSubquery",
        "RewriteLateralSubquery",
        "EliminateSerialization",
        "CombineConcats",
    ),
    *(
        "UnwrapCastInBinaryComparison",
        "RemoveDispensableExpressions",
        "OptimizeUpdateFields",
        "EliminateMapObjects",
    ),
    *("CombineTypedFilters", "ObjectSerializerPruning", "MergeScalarSubqueries", "CostBasedJoinReorder"),
    *(
        "DecimalAggregates",
        "RewriteDistinctAggregates",
        "NestedColumnAliasing",
        "GeneratorNestedColumnAliasing",
    ),
    *(
        "InferFiltersFromGenerate",
        "InferFiltersFromConstraints",
        "EliminateAggregateFilter",
        "EliminateSorts",
    ),
    *(
        "EliminateLimits",
        "EliminateOffsets",
        "EliminateWindowPartitions",
        "RemoveRedundantSorts",
        "InferWindowGroupLimit",
    ),
    *("OptimizeCsvJsonExprs", "SimplifyExtractValueOps", "OptimizeRepartition", "CollapseRepartition"),
    *(
        "PushExtraPredicateThroughJoin",
        "InjectRuntimeFilter",
        "RemoveRedundantAggregates",
        "OptimizeOneRowPlan",
    ),
)
PLANNING = {
    "no whole-stage code": ("spark.sql.codegen.wholeStage", "false"),
    "fewer rules of the optimizer": (
        "spark.sql.optimizer.excludedRules",
        ",".join(map(RULE.format, UNUSED_RULES)),
    ),
    "no check of each plan": ("spark.sql.lightweightPlanChangeValidation", "false"),
    "plans are not kept as texts": ("spark.sql.maxPlanStringLength", "0"),
}
VARIANTS: dict[str, Variant] = {
    "all levers on": ON,
    "coalesce(1) after the source": replace(ON, coalesce=1),
    "no coalesce (50 source tasks)": replace(ON, coalesce=0),
    "fetch.max.wait.ms 5": replace(ON, wait_ms=5),
    "fetch.max.wait.ms 500 (default)": replace(ON, wait_ms=500),
    "stock Python daemon": replace(ON, daemon="pyspark.daemon"),
    "default checkpoint file manager": replace(ON, checkpoints=DEFAULT_CHECKPOINTS),
    "a state key for each of 50 shards": replace(ON, lanes=SHARDS),
    "1 shuffle partition": replace(ON, partitions=1),
    "4 shuffle partitions": replace(ON, partitions=4),
    "generated projections (default)": replace(ON, conf={PROJECTIONS: "FALLBACK"}),
    "no options for the JVM (default)": replace(ON, conf={"spark.driver.extraJavaOptions": "-Dnone=1"}),
    "a sink that keeps and computes twice": replace(ON, computes=2),
    "a chmod for each file (Hadoop's default)": replace(
        ON, conf={IMPLEMENTATION: "org.apache.hadoop.fs.LocalFileSystem"}
    ),
    "no checksums, a chmod for each file": replace(
        ON, conf={IMPLEMENTATION: "org.apache.hadoop.fs.RawLocalFileSystem"}
    ),
    "no changelog (default)": replace(
        ON, conf={"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"}
    ),
    "ProcessingTimeTimeout": replace(ON, timeout="ProcessingTimeTimeout"),
    "HDFS-style state store": replace(
        ON,
        conf={
            "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
            "HDFSBackedStateStoreProvider"
        },
    ),
    "100 state versions kept (default)": replace(ON, conf={"spark.sql.streaming.minBatchesToRetain": "100"}),
    "the optimizer runs once": replace(ON, conf={"spark.sql.optimizer.maxIterations": "1"}),
    "live records once a minute": replace(ON, conf={"spark.ui.liveUpdate.period": "60s"}),
    "one source task, 1 shuffle partition": replace(ON, coalesce=1, partitions=1),
    **{name: replace(ON, conf={key: value}) for name, (key, value) in PLANNING.items()},
    "all of planning": replace(ON, conf=dict(PLANNING.values())),
}


# Milliseconds that a fetch waits, records that a poll gives at most.
READING = ((500, 500), (5, 500), (0, 500), (5, 50_000), (0, 50_000))
# And from a broker that a round trip to takes so many milliseconds longer.
AWAY_MS = 2.0
READING_AWAY = ((5, 500), (0, 500), (5, 50_000), (0, 50_000))


def sink(frame: DataFrame, _: int) -> None:
    """Do what the job's sink does: compute once."""
    frame.collect()


def keeping_sink(frame: DataFrame, _: int) -> None:
    """Keep the frame, so as to use it twice."""
    frame.persist()
    try:
        frame.count()
        frame.collect()
    finally:
        frame.unpersist()


def run(variant: Variant, master: str, bootstrap: str, batches: int) -> dict[str, Any]:
    """Measure one variant in this process."""
    spark = _session(variant, master)
    with Meter() as meter:
        row = _measured(variant, spark, bootstrap, batches, meter)
    spark.stop()
    return row


def take_turns(
    names: list[str], master: str, bootstrap: str, batches: int, turns: int
) -> dict[str, dict[str, Any]]:
    """Measure variants that a running session can change, in this process; medians of the turns."""
    spark, usual = _session(ON, master), _conf(ON)
    hadoop: Any = spark._jvm.org.apache.hadoop  # noqa: SLF001 - there is no public way
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with Meter() as meter:
        for number in range(turns + 1):
            for name in names:
                variant = VARIANTS[name]
                given = _conf(variant).items() - usual.items()
                for key, value in given:
                    spark.conf.set(key.removeprefix(HADOOP), value)
                # Hadoop keeps a file system as it was when it was first asked for.
                hadoop.fs.FileSystem.closeAll()
                row = _measured(variant, spark, bootstrap, batches, meter)
                print(number, name, f"{row['triggerExecution']:.0f} ms, {row['cpu']:.0f} CPU-ms", flush=True)
                if number:
                    found[name].append(row)
                for key, _ in given:
                    if key in usual:
                        spark.conf.set(key, usual[key])
                    else:
                        spark.conf.unset(key.removeprefix(HADOOP))
    spark.stop()
    return {name: _medians(rows) for name, rows in found.items()}


def _medians(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def _session(variant: Variant, master: str) -> SparkSession:
    settings = QUERY | OPEN_SOURCE | LOCAL | {"spark.master": master} | _conf(variant)
    return kafka_session(master, local_files(settings))


def _conf(variant: Variant) -> dict[str, str]:
    return {
        PROJECTIONS: INTERPRETED,
        "spark.sql.shuffle.partitions": str(variant.partitions),
        "spark.sql.streaming.checkpointFileManagerClass": variant.checkpoints,
        "spark.python.daemon.module": variant.daemon,
        **variant.conf,
    }


def _measured(
    variant: Variant, spark: SparkSession, bootstrap: str, batches: int, meter: Meter
) -> dict[str, Any]:
    """Run the query of a variant until it is measured."""
    source = kafka_frame(spark, bootstrap, SHARDS, {"kafka.fetch.max.wait.ms": str(variant.wait_ms)})
    records = source.coalesce(variant.coalesce) if variant.coalesce else source
    lanes = Lanes(SHARDS, 1, variant.lanes or variant.partitions)
    packs = decoded(records, lanes).unionByName(clock_rows(spark, lanes))
    keyed = packs.selectExpr("coalesce(lane, -1) AS lane")
    out = keyed.groupBy("lane").applyInPandasWithState(
        step(Cell(lanes.count, SHARDS * 20_000 // lanes.count, "all")), OUT, STATE, "update", variant.timeout
    )
    writes = sink if variant.computes == 1 else keeping_sink
    writer = out.writeStream.foreachBatch(writes).outputMode("update").trigger(processingTime="0 seconds")
    with tempfile.TemporaryDirectory(prefix="levers-", ignore_cleanup_errors=True) as folder:
        query = writer.option("checkpointLocation", folder).start()
        row = _watch(query, batches, meter)
        if (error := query.exception()) is not None:
            raise error
        query.stop()
    return row


def _watch(query: StreamingQuery, batches: int, meter: Meter, skip: int = 8) -> dict[str, Any]:
    until = time.monotonic() + WATCH_S
    while _finished(query) < skip and time.monotonic() < until:
        time.sleep(0.05)
    first, before = _finished(query), meter.read()
    while _finished(query) < first + batches and time.monotonic() < until:
        time.sleep(0.05)
    after, rows = meter.read(), batch_ms(query, first)
    if not rows:
        raise TimeoutError(f"no batch within {WATCH_S:.0f} s after the warm-up")
    names = ("triggerExecution", "addBatch", "latestOffset", "queryPlanning", "walCommit", "commitOffsets")
    medians = {name: statistics.median(row.get(name, 0) for row in rows) for name in names}
    return medians | {"cpu": (after.cpu_s - before.cpu_s) * 1000 / len(rows), "batches": len(rows)}


def _finished(query: StreamingQuery) -> int:
    """Count the batches that are done. All reports at once would cost more than a batch: each is a tree."""
    last: Any = query._jsq.lastProgress()  # noqa: SLF001 - the public way makes the whole tree
    return 0 if last is None else int(last.batchId()) + 1


def read(wait_ms: int, poll: int, master: str, bootstrap: str) -> dict[str, Any]:
    """Read the whole topic to nothing, once to warm up and once that counts, in this process."""
    spark = kafka_session(master, {**QUERY, **LOCAL, "spark.master": master})
    options = {"kafka.fetch.max.wait.ms": str(wait_ms), "kafka.max.poll.records": str(poll)}
    frame = kafka_frame(spark, bootstrap, SHARDS, options).coalesce(2)
    with Meter() as meter:
        drain_query(frame)
        before, began = meter.read(), time.monotonic()
        drain_query(frame)
        seconds, after = time.monotonic() - began, meter.read()
    spark.stop()
    cpu_s = after.cpu_s - before.cpu_s
    return {"seconds": seconds, "cpu_s": cpu_s, "jvm_mb": after.jvm_bytes // 1_000_000}


def reading(
    options: argparse.Namespace, bootstrap: str, title: str, pairs: Iterable[tuple[int, int]]
) -> dict[str, Any]:
    """Read the topic with each pair of options, print a line for each."""
    print(f"\n{options.records:,} records, {title}")
    print(f"{'fetch wait, ms':>40} / {'poll':<9} {'s':>9} {'CPU-s':>7} {'JVM MB':>8}")
    found = {}
    for wait_ms, poll in pairs:
        row = _child(options, bootstrap, "--reading", str(wait_ms), str(poll))
        if row is not None:
            found[f"{wait_ms}/{poll}"] = row
            figures = f"{row['seconds']:>9.1f} {row['cpu_s']:>7.1f} {row['jvm_mb']:>8}"
            print(f"{wait_ms:>40} / {poll:<9} {figures}", flush=True)
    return found


def _child(options: argparse.Namespace, bootstrap: str, *arguments: str) -> dict[str, Any] | None:
    """Run this program for one row, in a process of its own; None where it failed."""
    command = [sys.executable, "-m", "bench.job.levers", "--spark", options.spark]
    command += ["--bootstrap", bootstrap, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        print(f"{' '.join(arguments)} failed")
        return None
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def table(options: argparse.Namespace, bootstrap: str) -> dict[str, Any]:
    """Run every wanted variant in its own process, or all of them in turns, and print a line for each."""
    found: dict[str, Any] = {}
    names = options.only or [*VARIANTS]
    print(
        f"{'':<34} {'ms':>6} {'CPU-ms':>7} {'addBatch':>9} {'planning':>9} {'offsets':>8} {'wal+commit':>11}"
    )
    if options.turns:
        found = take_turns(names, options.spark, bootstrap, options.batches, options.turns)
        for name, row in found.items():
            _line(name, row)
        return found
    for name in names:
        figures = _child(options, bootstrap, "--variant", name, "--batches", str(options.batches))
        if figures is not None:
            found[name] = figures
            _line(name, figures)
    return found


def _line(name: str, row: dict[str, Any]) -> None:
    logs = row["walCommit"] + row["commitOffsets"]
    print(
        f"{name:<34} {row['triggerExecution']:>6.0f} {row['cpu']:>7.0f} {row['addBatch']:>9.0f}"
        f" {row['queryPlanning']:>9.0f} {row['latestOffset']:>8.0f} {logs:>11.0f}",
        flush=True,
    )


def bench(options: argparse.Namespace, bootstrap: str, away: str) -> None:
    """Print all tables and write them; `away` leads to the same broker with a longer round trip."""
    found = {"batches": table(options, bootstrap)} if options.batches else {}
    if options.records:
        load(bootstrap, records_of(Mix(10_000, 10, options.records, time.time_ns() // 1_000_000)))
        found["reading"] = reading(options, bootstrap, "read", READING)
    if options.records and away:
        title = f"read from {AWAY_MS:g} ms away"
        found["reading_away"] = reading(options, away, title, READING_AWAY)
    OUT_FILE.parent.mkdir(parents=True, exist_ok=True)
    OUT_FILE.write_text(json.dumps(found, indent=1))


def main() -> None:
    """Measure one variant (`--variant`) or all of them against a lab broker."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spark", default="local[2]", help="master URL")
    parser.add_argument("--batches", type=int, default=15, help="of each variant; 0: no such table")
    parser.add_argument("--turns", type=int, default=0, help="of all in one session; 0: a process for each")
    parser.add_argument("--only", action="append", choices=list(VARIANTS))
    parser.add_argument("--records", type=int, default=1_000_000, help="to be read; 0: no such tables")
    parser.add_argument("--variant", choices=list(VARIANTS), help=argparse.SUPPRESS)
    parser.add_argument("--reading", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help="an existing broker; default: a lab broker of its own")
    options = parser.parse_args()
    if options.variant:
        row = run(VARIANTS[options.variant], options.spark, options.bootstrap, options.batches)
        print(json.dumps(row))
    elif options.reading:
        wait_ms, poll = options.reading
        print(json.dumps(read(wait_ms, poll, options.spark, options.bootstrap)))
    elif options.bootstrap:
        bench(options, options.bootstrap, "")
    else:
        with LabBroker(away_ms=AWAY_MS) as broker:
            bench(options, broker.bootstrap, broker.proxied_bootstrap)


if __name__ == "__main__":
    main()
