"""`make bench`: what each stage of the job costs, as ratios to floors measured in the same run.

Starts a lab broker, fills its `__consumer_offsets` with the mix (mix.py) and runs each stage (stage.py) in a
process of its own. Records/s are compared with librdkafka reading the topic (`drain`), CPU seconds per
million records with Spark sending the records through Python unread (`identity`). Prints a table and writes
build/bench/pipeline.json.

    python bench/pipeline.py --records 2000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from load import load
from mix import Mix
from stage import SPARK_STAGES, measure

from rebalance_monitor.lab.broker import LabBroker

STAGES = ("drain", *SPARK_STAGES, "job")
SPEED_FLOOR, CPU_FLOOR = "drain", "identity"
STAGE_S = 900.0
OUT = Path(__file__).parents[1] / "build" / "bench" / "pipeline.json"


def run_stage(name: str, options: argparse.Namespace, bootstrap: str) -> dict[str, float] | None:
    """Measure one stage in its own process; None if it failed (its last lines go to stderr)."""
    command = [sys.executable, __file__, "--stage", name, "--spark", options.spark, "--bootstrap", bootstrap]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=STAGE_S, check=False)
    except subprocess.TimeoutExpired:
        print(f"{name}: not done within {STAGE_S:.0f} s", file=sys.stderr)
        return None
    if done.returncode:
        print(*done.stderr.splitlines()[-8:], sep="\n", file=sys.stderr)
        return None
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def derived(figures: dict[str, float]) -> dict[str, float]:
    """Add records/s and CPU seconds per million records."""
    cpu = figures["jvm_s"] + figures["python_s"]
    rate = figures["records"] / figures["seconds"]
    return figures | {"records_per_s": rate, "cpu_s_per_million": cpu / figures["records"] * 1e6}


def line(name: str, row: dict[str, float], rows: dict[str, dict[str, float]]) -> str:
    """Format one line of the table; a ratio is `-` where its floor was not measured."""
    speed = _ratio(row, rows.get(SPEED_FLOOR), "records_per_s")
    cpu = _ratio(row, rows.get(CPU_FLOOR), "cpu_s_per_million")
    million = 1e6 / row["records"]
    return (
        f"{name:<9} {row['records_per_s']:>10,.0f} {speed:>9} {row['cpu_s_per_million']:>8.2f} {cpu:>9}"
        f" {row['jvm_s'] * million:>7.2f} {row['python_s'] * million:>7.2f}"
        f" {row['jvm_bytes'] / 1e6:>8.0f} {row['python_bytes'] / 1e6:>8.0f}"
    )


def _ratio(row: dict[str, float], floor: dict[str, float] | None, name: str) -> str:
    return f"{row[name] / floor[name]:.2f}" if floor else "-"


def bench(options: argparse.Namespace, bootstrap: str) -> None:
    """Fill the topic, measure every stage, print and write."""
    began = time.monotonic()
    mix = Mix(options.groups, options.width, options.records, time.time_ns() // 1_000_000)
    sent = load(bootstrap, mix) if options.records else 0
    print(f"{sent:,} records of {options.groups:,} groups loaded in {time.monotonic() - began:.0f} s")
    header = f"{'stage':<9} {'records/s':>10} {'x drain':>9} {'CPU-s/M':>8} {'x ident.':>9}"
    print(f"{header} {'JVM':>7} {'Python':>7} {'JVM MB':>8} {'Py MB':>8}", flush=True)
    rows: dict[str, dict[str, float]] = {}
    for name in options.only or STAGES:
        figures = run_stage(name, options, bootstrap)
        if figures is not None:
            rows[name] = derived(figures)
            print(line(name, rows[name], rows), flush=True)
        else:
            print(f"{name:<9} failed", flush=True)
    write(options, rows)


def write(options: argparse.Namespace, rows: dict[str, Any]) -> None:
    """Write the figures with what they were measured on."""
    load_average = os.getloadavg()[0]
    about = {"groups": options.groups, "width": options.width, "records": options.records}
    about |= {"spark": options.spark, "cores": os.cpu_count(), "load_at_end": load_average}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"about": about, "stages": rows}, indent=1), encoding="utf-8")


def main() -> None:
    """Measure one stage (`--stage`) or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spark", default="local[2]", help="master URL")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=10, help="partitions per group")
    parser.add_argument("--records", type=int, default=2_000_000, help="0: the broker is filled already")
    parser.add_argument("--only", action="append", choices=STAGES)
    parser.add_argument("--stage", choices=STAGES)
    parser.add_argument("--bootstrap", help="an existing broker; default: a lab broker of its own")
    options = parser.parse_args()
    if options.stage:
        print(json.dumps(measure(options.stage, options.spark, options.bootstrap)))
    elif options.bootstrap:
        bench(options, options.bootstrap)
    else:
        with LabBroker() as broker:
            bench(options, broker.bootstrap)


if __name__ == "__main__":
    main()
