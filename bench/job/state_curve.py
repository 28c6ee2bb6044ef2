"""Batch time against state keys and bytes per key, for the operator the job is built on.

Every batch brings one clock row to every key (`rate-micro-batch`, exploded), as in the job; the function
gets the key's blob and writes either every blob again or only that of key 0. Blobs are random bytes, so what
is written is what the compressed blobs of a real job would be. Prints ms (median) and CPU-ms (mean)
per batch and the bytes of changelog per batch. Bounded: cells over `--max-mb` of state are left out.

    python -m bench.job.state_curve --spark 'local[2]'
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.measure.sparks import batch_ms, session
from bench.measure.trees import Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

OUT = "shard int, now long"
STATE = "codec int, blob binary"
WARM_UP = 2
CELL_S = 60.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One query to measure: `keys` state keys of `size` bytes; `rewrite` is "all" or "one"."""

    keys: int
    size: int
    rewrite: str


def step(cell: Cell) -> Callable[..., Iterator[pd.DataFrame]]:
    """Give the state function of `cell`: reads its blob and writes it again where the cell says so."""

    def run(
        key: tuple[int, int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        rows = sum(len(frame) for frame in frames)
        now = state.getCurrentProcessingTimeMs()
        if not state.exists or cell.rewrite == "all" or key[0] == 0:
            blob = bytes(state.get[1]) if state.exists else os.urandom(cell.size)
            state.update((1, now.to_bytes(8, "big") + blob[8:]))
        yield pd.DataFrame({"shard": [key[0]], "now": [now + rows]})

    return run


def clock(spark: SparkSession, keys: int) -> DataFrame:
    """Give the clock leg: one row per key and batch."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    return (
        source.option("numPartitions", 1)
        .load()
        .selectExpr(f"explode(sequence(0, {keys - 1})) AS shard")
        .selectExpr("coalesce(shard, -1) AS shard", "0 AS bucket")
    )


def start(spark: SparkSession, cell: Cell, folder: Path) -> StreamingQuery:
    """Start the query of `cell` with its checkpoint in `folder`, batches back to back."""
    out = (
        clock(spark, cell.keys)
        .groupBy("shard", "bucket")
        .applyInPandasWithState(step(cell), OUT, STATE, "update", "NoTimeout")
    )
    writer = out.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(folder))
    return writer.trigger(processingTime="0 seconds").start()


def changelog_bytes(folder: Path) -> int:
    """Give the bytes that the newest state version added to the changelog."""
    files = list(folder.glob("state/*/*/*.changelog"))
    newest = max((int(f.stem.split("_")[0]) for f in files), default=0)
    return sum(f.stat().st_size for f in files if int(f.stem.split("_")[0]) == newest)


def measure(spark: SparkSession, cell: Cell, batches: int, meter: Meter) -> dict[str, Any]:
    """Run `cell` for `batches` batches after the warm-up and give its row of the table."""
    folder = Path(tempfile.mkdtemp(prefix="state-curve-"))
    query = start(spark, cell, folder)
    until = time.monotonic() + CELL_S
    _wait(query, WARM_UP, until)
    first, before = len(batch_ms(query, 0)), meter.read()
    _wait(query, first + batches, until)
    after = meter.read()
    times = [b["triggerExecution"] for b in batch_ms(query, first)]
    query.stop()
    written = changelog_bytes(folder)
    shutil.rmtree(folder, ignore_errors=True)
    median = statistics.median(times) if times else float("nan")
    cpu = (after.cpu_s - before.cpu_s) * 1000 / max(1, len(times))
    return {"ms": median, "cpu": cpu, "batches": len(times), "written": written}


def _wait(query: StreamingQuery, batches: int, until: float) -> None:
    while len(batch_ms(query, 0)) < batches and time.monotonic() < until and query.isActive:
        time.sleep(0.05)


def cells(options: argparse.Namespace) -> list[Cell]:
    """Give the cells in the order they run, without those over the bound."""
    grid = itertools.product(options.rewrite, options.keys, options.bytes)
    return [Cell(k, b, r) for r, k, b in grid if k * b <= options.max_mb * 1_000_000]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spark", default="local[2]", help="master URL")
    parser.add_argument("--keys", type=int, nargs="+", default=[1, 8, 50, 200])
    parser.add_argument("--bytes", type=int, nargs="+", default=[1_000, 20_000, 200_000, 1_000_000])
    parser.add_argument("--rewrite", nargs="+", default=["all", "one"], choices=["all", "one"])
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--partitions", type=int, default=1, help="shuffle partitions")
    parser.add_argument("--max-mb", type=int, default=60)
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


def main() -> None:
    """Measure every cell and print the table."""
    options = arguments()
    conf = dict(entry.split("=", 1) for entry in options.conf)
    conf["spark.sql.shuffle.partitions"] = str(options.partitions)
    spark = session(options.spark, conf)
    with Meter() as meter:
        measure(spark, Cell(1, 1_000, "all"), 2, meter)
        print(f"{'keys':>5} {'bytes/key':>10} {'state MB':>9} {'rewritten':>9}", end="")
        print(f" {'ms/batch':>9} {'CPU-ms':>7} {'written MB':>11}")
        for cell in cells(options):
            row = measure(spark, cell, options.batches, meter)
            total = cell.keys * cell.size / 1e6
            print(
                f"{cell.keys:>5} {cell.size:>10,} {total:>9.2f} {cell.rewrite:>9} {row['ms']:>9.0f}"
                f" {row['cpu']:>7.0f} {row['written'] / 1e6:>11.3f}",
                flush=True,
            )
    spark.stop()


if __name__ == "__main__":
    main()
