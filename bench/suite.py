"""All benchmarks of a plan (`make bench`, `bench-rivals`, `bench-scale`), each in turn, in bounded time.

Each is a module that prints its own table and writes its figures to build/bench/. At the end
stand how long each took and what the figures are against the floors of the same run, and all of it is in
build/bench/suite-<plan>.json. A benchmark that fails, or for which no time is left, makes the suite fail.

    python -m bench.suite bench
    python -m bench.suite bench --pipeline "--records 1000000 --more 2000000"
    python -m bench.suite scale --only "job.start"
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "bench"
BACKFILL = (
    "--rivals --passes 5 --only drain --only identity --only embedded --only job --only kminion --only burrow"
)
PLANS: dict[str, tuple[int, tuple[str, ...]]] = {
    "bench": (
        20,
        (
            "core.decoding",
            "core.replay",
            "core.findings",
            f"job.web --json {OUT / 'web.json'}",
            "job.pipeline",
            "job.steady",
            "job.steady --name small --groups 50 --per-s 100",
            "job.steady --name empty --groups 50 --per-s 0 --rebalances 0",
        ),
    ),
    "rivals": (
        120,
        (
            "rivals.prices steady",
            "rivals.prices idle",
            "rivals.prices steady --only spark --passes 1 --warm 300",
            f"job.pipeline {BACKFILL}",
            f"job.pipeline {BACKFILL} --quiet-mix",
            "rivals.prices many --passes 1",
        ),
    ),
    "scale": (
        90,
        (
            "core.growth",
            "core.driver",
            "job.steady --name large --groups 100000 --per-s 10000 --trigger 5 --warm 200 --seconds 80",
            "job.steady --name even",
            "job.steady --name hot --hot 0.5",
            "job.steady --name hot-buckets --hot 0.5 --buckets 4",
            "job.start",
        ),
    ),
}
"""Name -> minutes at most, and the command lines."""

# What is compared of steady traffic, and which run of it has which for its floor.
STEADY = ("batch_ms_p50", "batch_ms_p95", "cpu_ms_per_batch")
RATIOS = (
    ("steady", "empty"),
    ("small", "empty"),
    ("large", "even"),
    ("hot", "even"),
    ("hot-buckets", "even"),
)


def run(command: str, left_s: float) -> tuple[float, str]:
    """Run one benchmark with its output on ours; seconds that it took, and what went wrong or ""."""
    print(f"\n== {command}", flush=True)
    began = time.monotonic()
    name, *arguments = command.split()
    line = [sys.executable, "-m", f"bench.{name}", *arguments]
    with subprocess.Popen(line, start_new_session=True, cwd=ROOT) as program:
        try:
            status = program.wait(timeout=max(left_s, 0.0))
            trouble = f"ended with status {status}" if status else ""
        except subprocess.TimeoutExpired:
            # With all that it has started: brokers, JVMs and workers.
            os.killpg(program.pid, signal.SIGKILL)
            trouble = "was stopped: no time was left"
    return time.monotonic() - began, trouble


def figures(since: float) -> dict[str, Any]:
    """Return what benchmarks have written since `since` (s since epoch), by file."""
    written = (path for path in sorted(OUT.glob("*.json")) if not path.name.startswith("suite-"))
    return {path.stem: json.loads(path.read_text()) for path in written if path.stat().st_mtime >= since}


def ratios(found: dict[str, Any]) -> list[str]:
    """Return lines that say what figures of this run are against its floors."""
    steady = found.get("steady", {})
    lines = []
    for name, floor in RATIOS:
        if name in steady and floor in steady:
            over = (f"{one} {steady[name][one] / steady[floor][one]:.2f}" for one in STEADY)
            lines.append(f"{name} / {floor}: {', '.join(over)}")
    cost = found.get("replay", {}).get("cpu_s_per_million")
    if cost:
        lines.append(f"replay / reading: {cost['replay'] / cost['reading']:.1f}")
    start = found.get("start")
    if start:
        slope = start["spread"]["cpu_s_per_million"] / start["rebuild"]["cpu_s_per_million"]
        lines.append(f"two executors / one process: CPU-s per million {slope:.2f}")
    return lines


def main() -> int:
    """Run a plan; 1 where something of it failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", choices=PLANS)
    parser.add_argument("--pipeline", default="", help="arguments for job.pipeline")
    parser.add_argument("--only", action="append", default=[], help="a command line of the plan begins so")
    options = parser.parse_args()
    minutes, commands = PLANS[options.plan]
    began, since = time.monotonic(), time.time()
    took: dict[str, float] = {}
    troubles: dict[str, str] = {}
    # Figures of an earlier run are no floor of this one.
    (OUT / "steady.json").unlink(missing_ok=True)
    for command in commands:
        if options.only and not any(command.startswith(one) for one in options.only):
            continue
        whole = f"{command} {options.pipeline}".strip() if command == "job.pipeline" else command
        took[whole], trouble = run(whole, minutes * 60 - (time.monotonic() - began))
        if trouble:
            troubles[whole] = trouble
    found, seconds = figures(since), time.monotonic() - began
    print(f"\n== {options.plan}: {seconds / 60:.1f} of {minutes} minutes")
    for command, one in took.items():
        print(f"  {one:6.0f} s  {command}{': ' * (command in troubles)}{troubles.get(command, '')}")
    print(*(f"  {line}" for line in ratios(found)), sep="\n")
    OUT.mkdir(parents=True, exist_ok=True)
    about = {"seconds": round(seconds), "took": took, "troubles": troubles, "figures": found}
    (OUT / f"suite-{options.plan}.json").write_text(json.dumps(about, indent=1) + "\n")
    return int(bool(troubles))


if __name__ == "__main__":
    sys.exit(main())
