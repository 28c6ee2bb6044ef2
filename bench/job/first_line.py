"""How soon `watch` says its first line, and what reading the topic to its end costs it, on one core.

The topic holds the mix of `bench.traffic.mix`, appended as coordinators do. `watch` is started as a user
does, bound to one core; broker and everything else have the other ones. The first line is the one that says
what it watches; its time counts from the start of the process, its CPU is the process's own until then.

    python -m bench.job.first_line --records 100000 --records 5000000
    python -m bench.job.first_line --records 5000000 --quiet-mix --program ~/.local/bin/rebalance-monitor
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

from bench.measure.trees import Meter
from bench.traffic.load import load, producer, records_of
from bench.traffic.mix import METADATA_EVERY, QUIET, Mix
from rebalance_monitor.lab.cluster.broker import LabBroker

AT_ONCE = 10
SAID = "with members"
# Where it is set, Python compiles 360 modules anew at each start. No user's shell sets it.
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def watched(program: Path, bootstrap: str, core: int) -> tuple[float, float, float]:
    """Run `watch` until its first line; give seconds, CPU seconds and the most memory (MB)."""
    command = ["taskset", "-c", str(core), str(program), "watch", "--bootstrap", bootstrap]
    environment = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
    output, errors = subprocess.DEVNULL, subprocess.PIPE
    began = time.monotonic()
    with subprocess.Popen(command, stdout=output, stderr=errors, text=True, env=environment) as process:
        if process.stderr is None:
            raise RuntimeError("there is no pipe to read from")
        with Meter(every_s=0.2, top=process.pid) as meter:
            line = next((line for line in process.stderr if SAID in line), "")
            took, used = time.monotonic() - began, meter.read()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    if not line:
        raise RuntimeError(f"{program} ended with {process.returncode} and did not say what it watches")
    return took, used.python_s, used.python_bytes / 1e6


def main() -> None:
    """Fill the topic step by step, and let `watch` read it at each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, action="append", help="sizes; default 100,000 and 5,000,000")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--quiet-mix", action="store_true", help="50 metadata records per million, not 5,000")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--program", type=Path, default=Path(sys.executable).with_name("rebalance-monitor"))
    parser.add_argument("--core", type=int, default=(os.cpu_count() or 1) - 1)
    options = parser.parse_args()
    sizes = sorted(options.records or [100_000, 5_000_000])
    every = QUIET if options.quiet_mix else METADATA_EVERY
    mix = Mix(options.groups, 10, sizes[-1], time.time_ns() // 1_000_000, metadata_every=every)
    with LabBroker() as broker:
        records, loaded = records_of(mix), 0
        for size in sizes:
            loaded += load(
                broker.bootstrap, islice(records, size - loaded), producer(broker.bootstrap, AT_ONCE)
            )
            # The first one may have to compile: it does not count.
            _, *found = [
                watched(options.program, broker.bootstrap, options.core) for _ in range(options.passes + 1)
            ]
            seconds, cpu_s, peak = (statistics.median(values) for values in zip(*found, strict=True))
            print(f"{loaded:>10,} records: first line after {seconds:5.1f} s", end="")
            print(f", {cpu_s:5.1f} CPU-s, {peak:4.0f} MB (median of {len(found)})", flush=True)


if __name__ == "__main__":
    main()
