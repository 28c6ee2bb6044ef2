"""What a second of watching costs each engine, and what it costs the tools beside it: `make bench-rivals`.

One measurement: a fresh lab broker, its traffic (appended as coordinators do) and one
contender on it, started as a user does; after `--warm` seconds its CPU seconds are counted for `--seconds`.
The contenders take turns, and a table gives the median of the passes: single ones differ by half where
others use the machine, and the ratio of two that follow each other does not. What has been measured is in
build/bench/prices.json, by plan, seconds and commit, and is not measured again: a run that is stopped goes on
where it was.

    python -m bench.rivals.prices steady            10,000 groups, 20,000 commits/s, a rebalance a second
    python -m bench.rivals.prices idle              50 groups, and nothing happens
    python -m bench.rivals.prices many              100,000 groups, of which a tenth commits
    python -m bench.rivals.prices steady --only spark --warm 300
    python -m bench.rivals.prices steady --passes 1 --only embedded+ends --only kminion --only burrow
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin
from urllib.request import urlopen

from bench.measure.stages import STAGES, stages
from bench.measure.trees import Meter, process_of
from bench.rivals import programs
from bench.traffic.feeding import feeding
from rebalance_monitor.lab.cluster.broker import DEFAULT_VERSION, LabBroker
from rebalance_monitor.lab.suite.job import Job
from rebalance_monitor.lab.versions import commit, installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

OUT = Path(__file__).parents[2] / "build" / "bench" / "prices.json"
FLOOR = "kminion"
DRAIN = "drain"
ENGINES: Mapping[str, Mapping[str, Any]] = {
    "embedded": {"engine": "embedded", "ends": {"enabled": False}},
    "embedded+ends": {"engine": "embedded"},
    "spark": {"engine": "spark", "ends": {"enabled": False}},
}
CONTENDERS = (*ENGINES, DRAIN, *programs.BINARIES)
RIVAL_TRIES = 4
LASTS_S = 3_600.0
"""Longer than any measurement: the traffic ends with it."""

BROKER = ("-Xms1g", "-Xmx1g", "-Xmn512m", "-XX:TieredStopAtLevel=4")
"""Of the broker's JVM. A lab broker is quick to start; this one has to keep up for a minute."""

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """Traffic, and who is measured in it; `width`: partitions a group."""

    groups: int
    per_s: int
    rebalances: int
    contenders: tuple[str, ...]
    width: int = 10
    active: float = 1.0

    def load(self) -> dict[str, Any]:
        """Return the options of `bench.traffic.feed`."""
        names = ("groups", "per_s", "rebalances", "width", "active")
        return {name: getattr(self, name) for name in names} | {
            "as_coordinators": True,
            "topics": self.per_s > 0,
        }


PLANS = {
    "steady": Plan(10_000, 20_000, 1, CONTENDERS),
    "idle": Plan(50, 0, 0, CONTENDERS),
    "many": Plan(100_000, 10_000, 1, ("embedded", "spark"), active=0.1),
}


@dataclass(frozen=True, slots=True)
class Contender:
    """One that runs.

    scrape: asks for its metrics once. delays: ms from record to finding, of the findings since the last call.
    batches: how many it has had, and their seconds.
    """

    pid: int
    scrape: Callable[[], bytes] | None = None
    batches: Callable[[], Figures] = dict
    delays: Callable[[], list[int]] = list


class PricedJob(Job):
    """The job with one engine's settings."""

    def __init__(self, bootstrap: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self._more = {**settings, "web": {"port": 0}}
        super().__init__(bootstrap, folder)

    def _settings(self, bootstrap: str) -> dict[str, object]:
        return {**super()._settings(bootstrap), **self._more}

    @property
    def pid(self) -> int:
        """The job's driver."""
        return self._process.pid

    def delays(self) -> list[int]:
        """Give how late the live findings since the last call were that a record decided, ms."""
        found = list(self.findings())
        return [f.detected_at - f.at for f in found if not f.history and f.offset is not None]

    def batches(self) -> Figures:
        """Give how many batches there have been, and their seconds."""
        return stages(self.page() or "", STAGES[self._more["engine"]])

    def scrape(self) -> bytes:
        """Ask for the metrics once."""
        with urlopen(urljoin(self.page() or "", "metrics"), timeout=60) as answer:  # noqa: S310 - its own
            content: bytes = answer.read()
        return content


@contextmanager
def started(name: str, bootstrap: str, plan: Plan) -> Iterator[Contender]:
    """Run a contender over the topic from its beginning until the block ends."""
    if name in ENGINES:
        with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
            job = PricedJob(bootstrap, Path(folder), ENGINES[name])
            with job:
                job.wait_ready()
                yield Contender(job.pid, job.scrape, job.batches, job.delays)
                job.require()
    elif name == DRAIN:
        with subprocess.Popen([sys.executable, "-m", "bench.rivals.prices", "--drain", bootstrap]) as process:
            yield Contender(process.pid)
            process.kill()
    else:
        with programs.started(name, bootstrap) as rival:
            yield Contender(rival.process.pid, rival.scrape)
            if rival.process.poll() is not None:
                raise RuntimeError(f"{name} ended with {rival.process.returncode}")
            if name == FLOOR:
                # One that never subscribes costs nothing, and is no price to compare with.
                programs.require_read(rival, 1)
            elif plan.per_s:
                programs.require_lag(rival, round(plan.groups * plan.active))


def drained(bootstrap: str) -> None:
    """Read the topic with librdkafka as the embedded engine does, and do nothing with it. Never ends."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415 - for the child

    from rebalance_monitor.cluster.clients.reader import FIXED  # noqa: PLC0415
    from rebalance_monitor.engine.embedded.feed import FETCHING, WAIT_S  # noqa: PLC0415

    consumer = Consumer({"bootstrap.servers": bootstrap, **FIXED, **FETCHING})
    topic = "__consumer_offsets"
    found = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in found])
    while True:
        consumer.consume(10_000, WAIT_S)


def measure(name: str, plan: Plan, warm_s: float, seconds: float) -> Figures:
    """Measure one contender on a broker of its own. RuntimeError, DependencyError where it fails."""
    with (
        LabBroker(jvm=BROKER) as broker,
        feeding(broker.bootstrap, LASTS_S, **plan.load()),
        started(name, broker.bootstrap, plan) as contender,
        Meter(top=contender.pid) as meter,
    ):
        time.sleep(warm_s)
        contender.delays()
        batches = contender.batches()
        before, began = meter.read(), time.monotonic()
        time.sleep(seconds)
        after, took = meter.read(), time.monotonic() - began
        figures = {
            "cpu_s_per_s": (after.cpu_s - before.cpu_s) / took,
            "jvm_s_per_s": (after.jvm_s - before.jvm_s) / took,
            "peak_mb": (after.jvm_bytes + after.python_bytes) / 1e6,
            # Of the process itself: the peak is that of catching up.
            "own_mb": process.resident / 1e6 if (process := process_of(contender.pid)) else 0.0,
            "load": os.getloadavg()[0],
        }
        figures |= late(contender.delays()) | lengths(batches, contender.batches())
        if contender.scrape:
            before = meter.read()
            page = contender.scrape()
            figures["scrape_cpu_s"] = meter.read().cpu_s - before.cpu_s
            figures["scrape_mb"] = len(page) / 1e6
    return figures


def measure_again(name: str, plan: Plan, warm_s: float, seconds: float) -> Figures:
    """Measure, and once more where a rival failed: one start of KMinion in four never subscribes."""
    for _ in range(RIVAL_TRIES - 1 if name in programs.BINARIES else 0):
        with suppress(RuntimeError):
            return measure(name, plan, warm_s, seconds)
    return measure(name, plan, warm_s, seconds)


def late(delays: list[int]) -> Figures:
    """Return the quantiles of `delays` (ms), nothing where there are too few."""
    if len(delays) < 10:  # noqa: PLR2004 - fewer have no 95th percentile
        return {}
    cuts = statistics.quantiles(delays, n=20, method="inclusive")
    return {"delay_ms_p50": cuts[9], "delay_ms_p95": cuts[18]}


def lengths(before: Figures, after: Figures) -> Figures:
    """Return how long a batch took on average between two looks, nothing where there was none."""
    count = after.get("count", 0.0) - before.get("count", 0.0)
    return {"batch_ms": 1_000 * (after["sum"] - before["sum"]) / count} if before and count > 0 else {}


def medians(passes: list[dict[str, Figures]]) -> dict[str, Figures]:
    """Return the median of each figure of each contender, and of its ratios to the floor of the same pass."""
    found: dict[str, dict[str, list[float]]] = {}
    for one in passes:
        floor = one.get(FLOOR, {}).get("cpu_s_per_s")
        for name, figures in one.items():
            kept = found.setdefault(name, {})
            ratio = {"ratio": figures["cpu_s_per_s"] / floor} if floor else {}
            for key, value in (figures | ratio).items():
                kept.setdefault(key, []).append(value)
    return {
        name: {key: statistics.median(values) for key, values in kept.items()} | {"passes": len(kept["load"])}
        for name, kept in found.items()
    }


def table(title: str, found: Mapping[str, Figures]) -> None:
    """Print a line for each contender."""
    heads = {
        "CPU-s/s": "cpu_s_per_s",
        "x KMinion": "ratio",
        "of JVM": "jvm_s_per_s",
        "MB": "peak_mb",
        "own now": "own_mb",
        "p50 ms": "delay_ms_p50",
        "p95 ms": "delay_ms_p95",
        "batch ms": "batch_ms",
        "a scrape": "scrape_cpu_s",
        "of MB": "scrape_mb",
        "passes": "passes",
        "load": "load",
    }
    places = (3, 2, 3, 0, 0, 0, 0, 0, 2, 1, 0, 1)
    print(f"{title:<14}" + "".join(f"{head:>11}" for head in heads))
    for name, figures in found.items():
        cells = zip(heads.values(), places, strict=True)
        row = (f"{figures[key]:>11.{n}f}" if key in figures else f"{'-':>11}" for key, n in cells)
        print(f"{name:<14}" + "".join(row), flush=True)


def key_of(plan: str, warm_s: float, seconds: float) -> str:
    """Return what the figures of a run stand under: those of other times or other code are not its own."""
    return f"{plan}, {seconds:.0f} s after {warm_s:.0f} s, {commit()}"


def versions() -> list[str]:
    """Return the versions of libraries and broker, and a hash of each rival's program."""
    named = ((name, Path(os.environ[programs.BINARIES[name]])) for name in programs.given())
    hashed = [f"{name} {path.name} {sha256(path.read_bytes()).hexdigest()[:12]}" for name, path in named]
    return [*installed(), f"Kafka {DEFAULT_VERSION}", *hashed]


def kept() -> dict[str, Any]:
    """Return what earlier runs measured: key -> versions, and passes: contender -> figures."""
    found: dict[str, Any] = json.loads(OUT.read_text()) if OUT.exists() else {}
    return found


def taken(passes: list[dict[str, Figures]]) -> str:
    """Return the line that says which passes come from earlier runs, and from where; "" where none does."""
    counts = Counter(name for one in passes for name in one)
    parts = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    return f"Passes taken from earlier runs ({OUT}; --afresh measures again): {parts}." if parts else ""


def main() -> None:
    """Measure what is still to be measured of a plan, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", choices=PLANS, nargs="?", default="steady")
    parser.add_argument("--only", action="append", choices=CONTENDERS)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--warm", type=float, default=30.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument(
        "--afresh", action="store_true", help="forget what earlier runs measured under the same key"
    )
    parser.add_argument("--drain", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drain:
        drained(options.drain)
    plan, known = PLANS[options.plan], kept()
    key = key_of(options.plan, options.warm, options.seconds)
    if options.afresh:
        known.pop(key, None)
    passes = known.setdefault(key, {"versions": versions(), "passes": []})["passes"]
    if said := taken(passes):
        print(said, flush=True)
    passes += [{} for _ in range(options.passes - len(passes))]
    missing = programs.BINARIES.keys() - set(programs.given())
    wanted = [name for name in options.only or plan.contenders if name not in missing]
    for number, one in enumerate(passes):
        # Each pass begins with another one.
        turn = number % len(wanted)
        for name in (n for n in wanted[turn:] + wanted[:turn] if n not in one):
            one[name] = measure_again(name, plan, options.warm, options.seconds)
            table(f"pass {number + 1}", {name: one[name]})
            OUT.parent.mkdir(parents=True, exist_ok=True)
            OUT.write_text(json.dumps(known, indent=1))
    table(key, medians(passes))


if __name__ == "__main__":
    main()
