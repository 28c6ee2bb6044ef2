"""Hours of the driver in minutes: whether its memory grows with the findings that it has told.

A synthetic world (growth.py) gives each simulated second new generations; what the operator says of them goes
through the production writer with all its sinks but the web page, on the real disk, as fast as it goes. No
Spark, no broker: what remains is our own Python. Prints resident memory every ten simulated minutes, and its
slope with the standard error after the bounded memories are full; writes build/bench/driver.json.

    python -m bench.core.driver --hours 5
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from itertools import cycle, islice
from pathlib import Path

import structlog

from bench.core.growth import world
from bench.measure.slopes import slope
from bench.traffic.mix import new_generation
from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.config.dashboard import Audit
from rebalance_monitor.config.model import Settings
from rebalance_monitor.config.web import Web
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import BatchKey, read_batch
from rebalance_monitor.engine.driver.outputs import storage_sinks
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.outputs.alerting import Alerting
from rebalance_monitor.engine.outputs.serving import Serving
from rebalance_monitor.engine.outputs.upkeep import ParquetFindings
from rebalance_monitor.engine.storage import Storage

MINUTE, FULL_H = 60, 0.8
OUT = Path(__file__).parents[2] / "build" / "bench" / "driver.json"
STATUS = Path("/proc/self/status")


def resident_mb() -> float:
    """Return what this process has resident now, MB (Linux)."""
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) / 1024


def run(options: argparse.Namespace, storage: Storage) -> list[tuple[float, float]]:
    """Tell so many hours of findings; (hours, MB) once a minute."""
    settings = Settings(web=Web(enabled=False), audit=Audit(every_batches=0))
    made = world(options.groups, 3, 10)
    serving = Serving(settings, storage, "bench", Notices(), ParquetFindings(storage))
    alerting = Alerting(
        settings,
        storage,
        "bench",
        on_attempt=serving.tallies.sent,
        failing=lambda why: print(why, flush=True),
    )
    ledger = Ledger(storage.ledger)
    writer = BatchWriter(
        ledger,
        ledger.load().on_topic("topic", "bench"),
        [*storage_sinks(settings, storage, ParquetFindings(storage)), serving, alerting],
        Parts(DetectionSettings(), "bench", list),
        wall_ms=lambda: made.now + 300,
    )
    turn, samples, told = cycle(made.groups), [], 0
    with serving, alerting:
        for second in range(round(options.hours * 3_600)):
            part = islice(turn, options.rebalances)
            _, rows = made.told(new_generation(group, made.mix, made.now) for group in part)
            batch = read_batch(rows)
            told += len(batch.findings)
            writer.apply(BatchKey("bench", second), batch)
            if second % MINUTE == MINUTE - 1:
                samples.append((second / 3_600, resident_mb()))
                if len(samples) % 10 == 0:
                    held = serving.snapshot.known.findings_held
                    print(
                        f"minute {len(samples)}: {told} findings told, {held} held, {samples[-1][1]:.0f} MB",
                        flush=True,
                    )
    return samples


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--rebalances", type=int, default=10, help="new generations a second")
    options = parser.parse_args()
    # A line for each batch is what a job's log is for.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="bench-driver-") as folder:
        samples = run(options, Storage(Path(folder)))
    full = [(hours, size) for hours, size in samples if hours >= FULL_H] or samples
    grows, error = slope([hours for hours, _ in full], [size for _, size in full])
    mean = sum(size for _, size in full) / len(full)
    print(f"from hour {FULL_H} on: {mean:.0f} MB, {grows:+.1f} % an hour, standard error {error:.1f}")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    about = {"mean_mb": mean, "percent_an_hour": grows, "standard_error": error, "samples": samples}
    OUT.write_text(json.dumps(about) + "\n")


if __name__ == "__main__":
    main()
