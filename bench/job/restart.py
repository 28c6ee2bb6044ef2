"""Proof of the clock row and the one blob: kill, restart and change triggers on one checkpoint, lose nothing.

A query of the job's shape (files united with the clock row, `applyInPandasWithState` without a timeout mode)
counts in its state every row and every clock value it has seen, what came twice and what was left out. It is
killed with SIGKILL in the sink (state written, batch not committed) and inside the state function, stopped
within a batch, run with `availableNow` and with a trigger again. Prints a line per run and at the end what
held; exit code 1 if anything did not. Needs only pyspark, so it runs under any version of it:

    python -m bench.job.restart [--folder KEPT --last-only]     (a folder of another Spark version goes on)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bench.measure.sparks import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

SHARDS, ROWS, AHEAD = 3, 10, 4
RUN_S = 300.0
EMPTY = {"rows": 0, "clocks": 0, "twice": 0, "lost": 0, "back": 0, "record": -1, "clock": -1, "now": 0}
# (what happens, at which clock value, batches to run, trigger)
RUNS = (
    ("kill in the sink", 2, 99, "1 second"),
    ("stop", -1, 2, "1 second"),
    ("kill in the state function", 5, 99, "1 second"),
    ("stop", -1, 2, "1 second"),
    ("finish", -1, 99, "availableNow"),
    ("stop", -1, 2, "1 second"),
)


# No slots: PySpark 3.5 pickles a class of the main script by value and loses them.
@dataclass(frozen=True)
class Death:
    """Where the process is killed: in "the sink" or "the state function", at a clock value; JVM first."""

    where: str
    at: int
    processes: tuple[int, ...]
    mark: Path

    def come(self, where: str, clock: int) -> None:
        """Kill JVM and driver if this is the place and the time, once."""
        if where in self.where and clock == self.at and not self.mark.exists():
            self.mark.touch()
            for process in self.processes:
                os.kill(process, 9)


def step(death: Death) -> Callable[..., Iterator[pd.DataFrame]]:
    """Give the state function: it checks that offsets and clock values go up by one."""

    def run(
        key: tuple[int, int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        seen = json.loads(bytes(state.get[1])) if state.exists else dict(EMPTY)
        now = state.getCurrentProcessingTimeMs()
        seen["back"] += now < seen["now"]
        seen["now"] = now
        rows = [(int(at), kind) for f in frames for at, kind in zip(f["offset"], f["row_kind"], strict=True)]
        for at, kind in sorted(rows):
            seen[kind + "s" if kind == "clock" else "rows"] += 1
            seen["twice"] += at <= seen[kind]
            seen["lost"] += at > seen[kind] + 1
            seen[kind] = at
        death.come("the state function", seen["clock"])
        state.update((1, json.dumps(seen).encode()))
        yield pd.DataFrame({"shard": [key[0]], "body": [json.dumps(seen)]})

    return run


def feed(folder: Path) -> None:
    """Add a file with ROWS records for each shard; offsets go on where the last file ended."""
    files = len(list(folder.glob("*.parquet")))
    pairs = [(shard, files * ROWS + row) for shard in range(SHARDS) for row in range(ROWS)]
    table = pa.table(
        {
            "shard": pa.array([shard for shard, _ in pairs], pa.int32()),
            "offset": pa.array([offset for _, offset in pairs], pa.int64()),
        }
    )
    pq.write_table(table, folder / ".next")
    (folder / ".next").rename(folder / f"{files:06}.parquet")


def _feed_ahead(folder: Path, progress: dict[str, Any] | None) -> None:
    # A slow machine must not pile up files: availableNow reads one a batch.
    done = progress["batchId"] if progress else 0
    if len(list(folder.glob("*.parquet"))) < done + AHEAD:
        feed(folder)


def united(spark: SparkSession, folder: Path) -> DataFrame:
    """Give files and clock as one frame, with a key that is never null."""
    files = spark.readStream.schema("shard int, offset long").option("maxFilesPerTrigger", 1)
    records = files.parquet(str(folder)).selectExpr("shard", "'record' AS row_kind", "offset")
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    keys = f"explode(sequence(0, {SHARDS - 1})) AS shard"
    clock = ticks.option("numPartitions", 1).load().selectExpr(keys, "'clock' AS row_kind", "value AS offset")
    return records.union(clock).selectExpr(
        "coalesce(shard, -1) AS shard", "0 AS bucket", "row_kind", "offset"
    )


def child(folder: Path, what: str, at: int, batches: int, trigger: str) -> None:
    """Run the query once in this process; the log gets a line per batch that reached the sink."""
    spark = session("local[2]", {"spark.sql.shuffle.partitions": "1"})
    jvm = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - there is no public way to its process
    death = Death(what, at, (jvm, os.getpid()), folder / what.replace(" ", "-"))
    frame = united(spark, folder / "in").groupBy("shard", "bucket")
    out = frame.applyInPandasWithState(
        step(death), "shard int, body string", "codec int, blob binary", "update", "NoTimeout"
    )

    def sink(rows: DataFrame, batch: int) -> None:
        keys = {row["shard"]: json.loads(row["body"]) for row in rows.collect()}
        with (folder / "log").open("a") as log:
            log.write(json.dumps({"batch": batch, "keys": keys}) + "\n")
        death.come("the sink", max(key["clock"] for key in keys.values()))

    writer = out.writeStream.foreachBatch(sink).outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    once = trigger == "availableNow"
    query = writer.trigger(**({"availableNow": True} if once else {"processingTime": trigger})).start()
    until = time.monotonic() + RUN_S
    while query.isActive and time.monotonic() < until and len(query.recentProgress) < batches:
        if not once:
            _feed_ahead(folder / "in", query.lastProgress)
        query.awaitTermination(1)
    ended = not query.isActive
    query.stop()
    if query.exception() is not None or (once and not ended):
        sys.exit(1)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Give the batches that reached the sink, in that order, with those that were run again."""
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def verdicts(folder: Path) -> dict[str, bool]:
    """Say what held over the whole log."""
    batches = read_log(folder)
    by_id: dict[int, list[dict[str, Any]]] = {}
    for batch in batches:
        by_id.setdefault(batch["batch"], []).append(batch["keys"])
    last = list(batches[-1]["keys"].values())
    return {
        "no row or clock value came twice": all(key["twice"] == 0 for key in last),
        "no row or clock value was left out": all(key["lost"] == 0 for key in last),
        "now never went back": all(key["back"] == 0 for key in last),
        "now was one value for all keys of a batch": all(
            len({key["now"] for key in batch["keys"].values()}) <= 1 for batch in batches
        ),
        "a batch that ran again gave the same rows and the same now": all(
            keys == first for first, *more in by_id.values() for keys in more
        ),
        "some batch ran again": any(len(runs) > 1 for runs in by_id.values()),
        "every batch reached the sink": sorted(by_id) == list(range(len(by_id))),
    }


def prove(folder: Path, runs: tuple[tuple[str, int, int, str], ...]) -> bool:
    """Run the children one after the other and print what they did and what held."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    as_told = True
    for what, at, batches, trigger in runs:
        for _ in range(4 if trigger == "availableNow" else 0):
            feed(folder / "in")
        command = [sys.executable, "-m", "bench.job.restart", "--folder", str(folder), "--child"]
        command += [what, str(at), str(batches), trigger]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        as_told &= done.returncode == (-9 if what.startswith("kill") else 0)
        last = read_log(folder)[-1]
        clocks = [key["clocks"] for key in last["keys"].values()]
        print(
            f"{what:<28} {trigger:<13} exit {done.returncode:>3}  batch {last['batch']:>3}  clocks {clocks}",
            flush=True,
        )
    held = {"every run ended as it was told to": as_told} | verdicts(folder)
    for sentence, ok in held.items():
        print(f"{'yes' if ok else 'NO ':<4} {sentence}")
    return all(held.values())


def main() -> None:
    """Prove it in a folder of its own or go on in a given one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where to keep checkpoint, files and log")
    parser.add_argument("--last-only", action="store_true", help="only go on with what is in --folder")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, at, batches, trigger = options.child
        child(options.folder, what, int(at), int(batches), trigger)
        return
    with tempfile.TemporaryDirectory(prefix="restart-") as own:
        runs = RUNS[-1:] if options.last_only else RUNS
        sys.exit(0 if prove(options.folder or Path(own), runs) else 1)


if __name__ == "__main__":
    main()
