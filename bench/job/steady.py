"""The whole job under steady traffic: how long a batch takes, how late a finding is, what it costs.

Starts a lab broker, feeds it and runs the production job with all its sinks in a process of its own. After
the warm-up it counts, over `--seconds`: batch time (Spark's `triggerExecution`), finding delay
(record time to ledger commit, live findings that a record decided), CPU seconds of the job's processes as a
share of the cores (and what the host took from them meanwhile), state bytes per batch and on disk, and the
most memory since the start. Prints one line and writes it to build/bench/steady.json under `--name`.

    python -m bench.job.steady                                   10,000 groups, 20,000 commits/s
    python -m bench.job.steady --groups 50 --per-s 100           a small cluster
    python -m bench.job.steady --groups 50 --per-s 0 --rebalances 0     nothing but empty batches
    python -m bench.job.steady --hot 0.5 --buckets 4             half of the traffic in one shard
    python -m bench.job.steady --away 2                          brokers a round trip of 2 ms away
    python -m bench.job.steady --set source.fetch_max_wait=0  with another setting of the job's
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.measure.trees import TICK_S, Meter, jvm_threads, stolen_s
from bench.traffic.feeding import feeding
from rebalance_monitor.lab.cluster.broker import LabBroker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.checkpoints.ledger import Snapshot
    from rebalance_monitor.engine.batch.batches import BatchKey
    from rebalance_monitor.engine.outputs.sinks import Publication

OUT = Path(__file__).parents[2] / "build" / "bench" / "steady.json"
LIVE_S = 150.0
BATCHES_KEPT = 2_000
EMPTY_ENOUGH, THREADS = 20, 8
WEIGHED_S = 2.0


@dataclass(slots=True)
class Listener:
    """A sink that notes when each live finding was final, and how large the state is."""

    delays: list[tuple[float, int]] = field(default_factory=list)
    batches: list[tuple[float, int, int]] = field(default_factory=list)
    live: threading.Event = field(default_factory=threading.Event)
    times: list[int] = field(default_factory=list)

    def start(self, committed: Snapshot) -> None:
        """Nothing to forget."""

    def write(self, key: BatchKey, publication: Publication) -> None:  # noqa: ARG002 - a sink takes what it needs
        """Keep the times of the findings until the batch is final."""
        self.times = [f.at for f in publication.findings if not f.history and f.offset is not None]
        self.batches.append((time.monotonic(), publication.batch.rows, publication.batch.state_bytes))
        if self.times or len(self.batches) >= EMPTY_ENOUGH:
            self.live.set()

    def committed(self, key: BatchKey) -> None:  # noqa: ARG002 - as above
        """Note how late each finding was."""
        now = time.time_ns() // 1_000_000
        self.delays += [(time.monotonic(), now - at) for at in self.times]


def run_child(options: argparse.Namespace) -> dict[str, Any]:
    """Run the job in this process and measure it; the feed is somebody else's."""
    from rebalance_monitor.config.load import load  # noqa: PLC0415 - only the child needs them
    from rebalance_monitor.engine.driver.job import Options  # noqa: PLC0415
    from rebalance_monitor.streaming.job.job import run_job  # noqa: PLC0415

    flags: dict[str, Any] = {
        "kafka.bootstrap.servers": options.bootstrap,
        "storage.path": options.folder,
        "outputs.console": False,
        "trigger": f"{round(options.trigger * 1000)}ms",
        "buckets": options.buckets,
        "spark": {"spark.sql.streaming.numRecentProgressUpdates": str(BATCHES_KEPT), **dict(options.conf)},
        **dict(options.set),
    }
    stop, listener = threading.Event(), Listener()
    found: dict[str, Any] = {}

    def watch() -> None:
        try:
            found.update(observe(listener, options))
        finally:
            stop.set()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    run_job(load(flags=flags), Options(), stop, [listener])
    watcher.join()
    return found


def observe(listener: Listener, options: argparse.Namespace) -> dict[str, Any]:
    """Wait until findings are live and warm, then measure."""
    began = time.monotonic()
    with Meter() as meter:
        listener.live.wait(LIVE_S)
        first = time.monotonic() - began
        time.sleep(options.warm)
        threads = jvm_threads()
        before, stolen, start = meter.read(), stolen_s(), time.monotonic()
        weights = weighed(Path(options.folder), start + options.seconds)
        after, stolen, took = meter.read(), stolen_s() - stolen, time.monotonic() - start
        threads = jvm_threads() - threads
    delays = [delay for at, delay in listener.delays if at >= start]
    batches = [batch for batch in listener.batches if batch[0] >= start]
    reports = batch_reports(len(batches))
    times = [stages["triggerExecution"] for stages in reports]
    cpu, all_of_it = after.cpu_s - before.cpu_s, took * (os.cpu_count() or 1)
    return {
        "batches": len(batches),
        "findings": len(delays),
        "rows_per_batch": round(sum(rows for _, rows, _ in batches) / max(1, len(batches))),
        "batch_ms_p50": quantile(times, 0.5),
        "batch_ms_p95": quantile(times, 0.95),
        "stages_ms_p50": {
            name: quantile([stages[name] for stages in reports if name in stages], 0.5)
            for name in sorted({name for stages in reports for name in stages})
        },
        "delay_ms_p50": quantile(delays, 0.5),
        "delay_ms_p95": quantile(delays, 0.95),
        "cpu_share": round(cpu / all_of_it, 3),
        "stolen_share": round(stolen / all_of_it, 3),
        "cpu_ms_per_batch": round(cpu * 1000 / max(1, len(batches))),
        "jvm_threads_ms": {
            name: round(spent * TICK_S * 1000 / max(1, len(batches)))
            for name, spent in threads.most_common(THREADS)
        },
        "jvm_share_of_cpu": round((after.jvm_s - before.jvm_s) / cpu, 2),
        "state_bytes": max((size for *_, size in batches), default=0),
        "changelog_bytes": max((weight.version for weight in weights), default=0),
        "state_on_disk_bytes": round(statistics.fmean(weight.all for weight in weights)),
        "state_on_disk_bytes_most": max(weight.all for weight in weights),
        "jvm_mb": after.jvm_bytes // 1_000_000,
        "python_mb": after.python_bytes // 1_000_000,
        "first_live_s": round(first, 1),
        "load": round(os.getloadavg()[0], 1),
    }


class Weight(NamedTuple):
    """Bytes of the largest version that Spark's state store wrote, and of all that the state has on disk."""

    version: int
    all: int


def weighed(folder: Path, until: float) -> list[Weight]:
    """Weigh the state on disk every `WEIGHED_S` until `until` (monotonic), and once at least."""
    found = [weight(folder)]
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, WEIGHED_S))
        found.append(weight(folder))
    return found


def weight(folder: Path) -> Weight:
    """Weigh the state of all partitions on disk."""
    sizes: dict[Path, int] = {}
    for path in folder.glob("state/*/state/**/*"):
        # Spark deletes old versions meanwhile.
        with suppress(FileNotFoundError):
            sizes[path] = path.stat().st_size if path.is_file() else 0
    logs: Counter[str] = Counter()
    for path, size in sizes.items():
        if path.suffix == ".changelog":
            logs[path.stem] += size
    return Weight(max(logs.values(), default=0), sum(sizes.values()))


def batch_reports(count: int) -> list[dict[str, int]]:
    """Give Spark's own times of the last `count` batches: stage -> ms."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - heavy

    session = SparkSession._instantiatedSession  # noqa: SLF001 - the job's own, from another thread
    query = session.streams.active[0]
    return [json.loads(progress.json)["durationMs"] for progress in query.recentProgress][-count:]


def quantile(values: Sequence[int], share: float) -> int:
    """Give the quantile of `values`; -1 for none."""
    if len(values) < 2:  # noqa: PLR2004 - quantiles need two
        return values[0] if values else -1
    return round(statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run broker, feed and job; return the job's figures. RuntimeError where the job fails."""
    seconds = LIVE_S + options.warm + options.seconds
    load = {name: getattr(options, name) for name in ("groups", "per_s", "rebalances", "hot")}
    with (
        LabBroker(away_ms=options.away) as broker,
        feeding(broker.bootstrap, seconds, **load),
        tempfile.TemporaryDirectory() as folder,
    ):
        command = [sys.executable, "-m", "bench.job.steady", "--child", *sys.argv[1:]]
        # The feed is beside the broker, the job is away from it.
        bootstrap = broker.proxied_bootstrap or broker.bootstrap
        command += ["--bootstrap", bootstrap, "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def keep(name: str, figures: dict[str, Any]) -> None:
    """Write the figures beside those of other names."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(OUT.read_text()) if OUT.exists() else {}
    OUT.write_text(json.dumps(known | {name: figures}, indent=1))


def main() -> None:
    """Measure once, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--per-s", type=int, default=20_000, help="commits per second")
    parser.add_argument("--rebalances", type=int, default=1, help="new generations per second")
    parser.add_argument("--hot", type=float, default=0.0, help="share of the groups in one shard")
    parser.add_argument("--buckets", type=int, default=1)
    parser.add_argument("--trigger", type=float, default=1.0, help="seconds")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds after the first live finding")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--away", type=float, default=0.0, help="ms that a round trip takes longer")
    parser.add_argument("--conf", action="append", default=[], type=lambda text: text.split("=", 1))
    parser.add_argument("--set", action="append", default=[], type=lambda text: text.split("=", 1))
    parser.add_argument("--name", default="steady")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run_child(options)))
        return
    figures = measure(options)
    keep(options.name, figures)
    print(options.name, *(f"{name}={value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
