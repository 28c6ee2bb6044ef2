"""What each stage of the job costs, as ratios to floors measured in the same run.

Starts a lab broker, fills its `__consumer_offsets` with the mix of `bench.traffic.mix` and real transactions,
and runs each stage in a process of its own; then loads more of the same and runs each stage again. What a
million records cost is the slope between the two, so that starting and warming up do not count. Records/s
are compared with librdkafka reading the topic (`drain`), CPU seconds per million records with Spark sending
the records through Python unread (`identity`). `job` is the whole job on Spark, `embedded` without it. With
`--rivals`, and where `KMINION_BIN` or `BURROW_BIN` names a program, that reads the same topic as well
(its CPU stands under Python). With `--passes` the stages take turns so often, and the median of
each figure counts. `plain` is measured where it is asked for. Prints a table after each size, then the
slopes, and writes build/bench/pipeline.json (with rivals backfill.json or backfill-quiet.json).

    python -m bench.job.pipeline --records 2000000 --more 4000000
    python -m bench.job.pipeline --at-once 10000 --only identity --only job
    python -m bench.job.pipeline --only identity --only plain
    python -m bench.job.pipeline --rivals --quiet-mix --passes 5 --only job --only embedded --only kminion
    python -m bench.job.pipeline --only job --conf spark.sql.codegen.factoryMode=FALLBACK
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bench.job.stage import JOBS, PLAIN, SPARK_STAGES, end_offsets, measure
from bench.rivals import programs
from bench.traffic.load import load, producer, records_of
from bench.traffic.mix import METADATA_EVERY, QUIET, Mix
from bench.traffic.transactions import transact
from rebalance_monitor.lab.cluster.broker import LabBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.traffic.mix import Message

STAGES = ("drain", *SPARK_STAGES, *JOBS, *programs.BINARIES)
SPEED_FLOOR, CPU_FLOOR = "drain", "identity"
STAGE_S = 900.0
TRANSACTIONAL = 0.005
OUT = Path(__file__).parents[2] / "build" / "bench" / "pipeline.json"
Row = dict[str, float]


def run_stage(name: str, options: argparse.Namespace, bootstrap: str) -> Row | None:
    """Measure one stage in its own process; None if it failed (its last lines go to stderr)."""
    command = [*options.quiet.split(), sys.executable, "-m", "bench.job.pipeline", "--stage", name]
    command += ["--spark", options.spark, "--bootstrap", bootstrap]
    command += [word for key, value in options.conf for word in ("--conf", f"{key}={value}")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as stage:
        try:
            output, errors = stage.communicate(timeout=STAGE_S)
        except subprocess.TimeoutExpired:
            # With all that it has started: JVM and workers, or a rival.
            os.killpg(stage.pid, signal.SIGKILL)
            print(f"{name}: not done within {STAGE_S:.0f} s", file=sys.stderr)
            return None
    if stage.returncode:
        print(*errors.splitlines()[-8:], sep="\n", file=sys.stderr)
        return None
    figures: Row = json.loads(output.splitlines()[-1])
    return figures


def derived(figures: Row) -> Row:
    """Add records/s and CPU seconds per million records."""
    cpu = figures["jvm_s"] + figures["python_s"]
    rate = figures["records"] / figures["seconds"]
    return figures | {"records_per_s": rate, "cpu_s_per_million": cpu / figures["records"] * 1e6}


def slope(small: Row, large: Row) -> Row:
    """Give the cost of what `large` read and `small` did not; memory is that of `large`."""
    counted = ("records", "seconds", "jvm_s", "python_s")
    return derived(large | {name: large[name] - small[name] for name in counted})


def header(title: str) -> str:
    """Format the head of a table."""
    names = f"{title:<9} {'records/s':>10} {'x drain':>9} {'CPU-s/M':>8} {'x ident.':>9}"
    return f"{names} {'JVM':>7} {'Python':>7} {'JVM MB':>8} {'Py MB':>8}"


def line(name: str, row: Row, rows: dict[str, Row]) -> str:
    """Format one line of the table; a ratio is `-` where its floor was not measured."""
    speed = _ratio(row, rows.get(SPEED_FLOOR), "records_per_s")
    cpu = _ratio(row, rows.get(CPU_FLOOR), "cpu_s_per_million")
    million = 1e6 / row["records"]
    return (
        f"{name:<9} {row['records_per_s']:>10,.0f} {speed:>9} {row['cpu_s_per_million']:>8.2f} {cpu:>9}"
        f" {row['jvm_s'] * million:>7.2f} {row['python_s'] * million:>7.2f}"
        f" {row['jvm_bytes'] / 1e6:>8.0f} {row['python_bytes'] / 1e6:>8.0f}"
    )


def _ratio(row: Row, floor: Row | None, name: str) -> str:
    return f"{row[name] / floor[name]:.2f}" if floor else "-"


def wanted(options: argparse.Namespace) -> list[str]:
    """Give the stages that are measured."""
    by_default = [
        name for name in STAGES if name != PLAIN and (options.rivals or name not in programs.BINARIES)
    ]
    missing = programs.BINARIES.keys() - set(programs.given())
    return [name for name in options.only or by_default if name not in missing]


def table(title: str, options: argparse.Namespace, bootstrap: str) -> dict[str, Row]:
    """Measure every wanted stage over what the topic holds now, and print a line for each."""
    print(header(title), flush=True)
    found: dict[str, list[Row]] = {}
    for number in range(options.passes):
        names = wanted(options)
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            figures = run_stage(name, options, bootstrap)
            if figures is None:
                print(f"{name:<9} failed", flush=True)
                continue
            found.setdefault(name, []).append(figures)
            last = {known: derived(passes[-1]) for known, passes in found.items()}
            print(line(name, last[name], last), flush=True)
    rows = {name: derived(middle(found[name])) for name in STAGES if name in found}
    if options.passes > 1:
        print(header("medians"))
        print(*(line(name, row, rows) for name, row in rows.items()), sep="\n", flush=True)
    return rows


def middle(passes: list[Row]) -> Row:
    """Give the median of each figure."""
    return {name: statistics.median(one[name] for one in passes) for name in passes[0]}


def bench(options: argparse.Namespace, bootstrap: str) -> None:
    """Fill the topic in two portions, measure every stage after each, print and write."""
    until = time.time_ns() // 1_000_000
    every = QUIET if options.quiet_mix else METADATA_EVERY
    both = options.records + options.more
    records = records_of(Mix(options.groups, options.width, both, until, metadata_every=every))
    _load(bootstrap, islice(records, options.records), options.records, options)
    small = table("first", options, bootstrap)
    found = {"first": small}
    if options.more:
        _load(bootstrap, records, options.more, options)
        large = found["both"] = table("both", options, bootstrap)
        slopes = {name: slope(small[name], large[name]) for name in large if name in small}
        print(header("slope"))
        for name, row in slopes.items():
            print(line(name, row, slopes))
        found["slope"] = slopes
    write(options, found)


def _load(bootstrap: str, records: Iterator[Message], count: int, options: argparse.Namespace) -> None:
    began = time.monotonic()
    # First, so that each partition ends with a record and not with a marker: readers see that they are done.
    transactions = transact(bootstrap, round(count * TRANSACTIONAL))
    sent = load(bootstrap, records, producer(bootstrap, options.at_once))
    took = time.monotonic() - began
    what = f"{sent:,} records of {options.groups:,} groups and {transactions:,} transactions"
    print(f"{what} loaded in {took:.0f} s", flush=True)


def write(options: argparse.Namespace, found: dict[str, dict[str, Row]]) -> None:
    """Write the figures with what they were measured on."""
    load_average = os.getloadavg()[0]
    about = {"groups": options.groups, "width": options.width, "records": options.records}
    about |= {"more": options.more, "at_once": options.at_once, "spark": options.spark}
    about |= {"quiet_mix": options.quiet_mix, "passes": options.passes}
    about |= {"cores": os.cpu_count(), "load_at_end": load_average}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    out = OUT.with_stem("backfill-quiet" if options.quiet_mix else "backfill") if options.rivals else OUT
    out.write_text(json.dumps({"about": about, **found}, indent=1), encoding="utf-8")


def main() -> None:
    """Measure one stage (`--stage`) or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spark", default="local[2]", help="master URL")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=10, help="partitions per group")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--more", type=int, default=4_000_000, help="loaded after that; 0: no slopes")
    parser.add_argument(
        "--at-once",
        type=int,
        default=10,
        help="records in a batch of the log: a coordinator appends those of one commit request",
    )
    parser.add_argument("--rivals", action="store_true", help="measure KMinion and Burrow too")
    parser.add_argument("--quiet-mix", action="store_true", help="50 metadata records per million, not 5,000")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--only", action="append", choices=STAGES)
    parser.add_argument(
        "--quiet", default="", help="a command to run each stage with, such as one that waits"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=lambda text: text.split("=", 1),
        help="Spark configuration for the whole job, KEY=VALUE",
    )
    parser.add_argument("--stage", choices=STAGES)
    parser.add_argument("--bootstrap", help="an existing broker; default: a lab broker of its own")
    options = parser.parse_args()
    for name in {*(options.only or ()), options.stage} & programs.BINARIES.keys() - set(programs.given()):
        parser.error(f"{name}: {programs.BINARIES[name]} must name its program")
    if options.stage in programs.BINARIES:
        records = sum(end_offsets(options.bootstrap).values())
        print(json.dumps(programs.drain(options.stage, options.bootstrap, records)))
    elif options.stage:
        print(json.dumps(measure(options.stage, options.spark, options.bootstrap, dict(options.conf))))
    elif options.bootstrap:
        bench(options, options.bootstrap)
    else:
        with LabBroker() as broker:
            bench(options, broker.bootstrap)


if __name__ == "__main__":
    main()
