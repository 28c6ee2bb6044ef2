"""Starting and spreading: rebuild from a long topic, restart from a checkpoint, the job on two executors.

Loads a lab broker with the mix and runs the production job over it to its end (`rebuild`), again from its
checkpoint until the first live batch is final (`restart`), and from the beginning in another folder on
`local-cluster[2,1,3072]` (`spread`), each in a process of its own. Compares the ids of the findings of
rebuild and spread that records decided, and names the kinds of those that were taken for live: none may be
of a group. (The broker does not know groups that were written past it, so the probe misses them.)
Prints a line for each and writes build/bench/start.json.

    python -m bench.job.start --records 10000000
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure.trees import Meter
from bench.traffic.load import load, records_of
from bench.traffic.mix import Mix
from rebalance_monitor.lab.cluster.broker import LabBroker

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.ledger import Snapshot
    from rebalance_monitor.engine.batch.batches import BatchKey
    from rebalance_monitor.engine.outputs.sinks import Publication

OUT = Path(__file__).parents[2] / "build" / "bench" / "start.json"
SPREAD = "local-cluster[2,1,3072]"


@dataclass(slots=True)
class FirstBatch:
    """A sink that ends the job with its first final batch."""

    stop: threading.Event
    live: bool
    findings: int = 0
    live_kinds: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    at: list[float] = field(default_factory=list)

    def start(self, committed: Snapshot) -> None:
        """Nothing to forget."""

    def write(self, key: BatchKey, publication: Publication) -> None:  # noqa: ARG002 - a sink takes what it needs
        """Count what is told."""
        self.findings += len(publication.findings)
        self.live_kinds.update(finding.kind for finding in publication.findings if not finding.history)
        self.rows += publication.batch.rows

    def committed(self, key: BatchKey) -> None:  # noqa: ARG002 - as above
        """End the job if only the first batch is wanted."""
        self.at.append(time.monotonic())
        if self.live:
            self.stop.set()


def run_child(options: argparse.Namespace, began: float) -> dict[str, Any]:
    """Run the job in this process: to the end of the topic, or until its first batch."""
    from rebalance_monitor.config.load import load as settings_of  # noqa: PLC0415 - only the child needs them
    from rebalance_monitor.engine.driver.job import Options  # noqa: PLC0415
    from rebalance_monitor.streaming.job.job import run_job  # noqa: PLC0415

    flags: dict[str, Any] = {
        "kafka.bootstrap.servers": options.bootstrap,
        "storage.path": options.folder,
        "outputs.console": False,
        "spark": {"spark.master": options.spark, "spark.executor.memory": "3g"},
    }
    stop = threading.Event()
    sink = FirstBatch(stop, options.child == "restart")
    with Meter() as meter:
        before = meter.read()
        run_job(settings_of(flags=flags), Options(available_now=not sink.live), stop, [sink])
        after = meter.read()
    return {
        "seconds": round(sink.at[0 if sink.live else -1] - began, 1),
        "cpu_s": round(after.cpu_s - before.cpu_s, 1),
        "rows": sink.rows,
        "findings": sink.findings,
        "taken_for_live": dict(sink.live_kinds),
        "jvm_mb": after.jvm_bytes // 1_000_000,
        "python_mb": after.python_bytes // 1_000_000,
    }


def run(what: str, options: argparse.Namespace, bootstrap: str, folder: Path, master: str) -> dict[str, Any]:
    """Run one child and print its line. RuntimeError where the job fails."""
    command = [sys.executable, "-m", "bench.job.start", "--child", what, "--bootstrap", bootstrap]
    command += ["--folder", str(folder), "--spark", master]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if what != "restart":
        figures["cpu_s_per_million"] = round(figures["cpu_s"] / options.records * 1e6, 2)
    print(what, *(f"{name}={value}" for name, value in figures.items()), flush=True)
    return figures


def ids(folder: Path) -> set[str]:
    """Give the ids of the findings of history in a job's folder."""
    with (folder / "findings.jsonl").open(encoding="utf-8") as lines:
        found = map(json.loads, lines)
        return {one["id"] for one in found if one["history"]}


def bench(options: argparse.Namespace, bootstrap: str, root: Path) -> None:
    """Load, run all three, compare and write."""
    until = time.time_ns() // 1_000_000
    load(bootstrap, records_of(Mix(options.groups, 10, options.records, until)))
    found = {"rebuild": run("rebuild", options, bootstrap, root / "one", "local[2]")}
    found["restart"] = run("restart", options, bootstrap, root / "one", "local[2]")
    found["spread"] = run("spread", options, bootstrap, root / "two", SPREAD)
    one, two = ids(root / "one"), ids(root / "two")
    print(f"findings of rebuild and spread: {len(one)} and {len(two)}, {len(one ^ two)} differ")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"records": options.records, **found, "differ": len(one ^ two)}, indent=1))


def main() -> None:
    """Measure everything, or be one of the children."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--child", choices=("rebuild", "restart", "spread"), help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--spark", default="local[2]", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run_child(options, began)))
        return
    with LabBroker() as broker, tempfile.TemporaryDirectory() as folder:
        bench(options, broker.bootstrap, Path(folder))


if __name__ == "__main__":
    main()
