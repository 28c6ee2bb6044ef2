"""Runs the job under steady load and says how its memory grows: `make soak ARGS="--minutes 120 …"`.

The load is that of `bench.job.steady`: every group commits every few seconds, some rebalance. With
every sample another group stands empty that must not, of which a receiver is told (incidents.py).
Every sample is driver, Python workers and JVM (resident, MB; the mean of a look a second), the JVM's heap
after a full collection and what is resident outside its heap (RocksDB, Arrow, classes, threads; both where a
JDK's jcmd is at hand), the most that RocksDB had by its own account (which goes up to that and down to
nothing with every flush, ten batches or so), the state as a batch writes it, which that follows, and the
storage folder. An audit's process, which lasts for seconds, does not count. The JVM as a whole may grow until
all of its heap, whose size is fixed, has been touched. Slopes of the samples after the warm-up, in per cent
of the mean an hour, are those of a least-squares line, with its standard error, and the median of those
between any two samples (slopes.py), which decides: a single sample may meet a batch that holds its own. Exit
code 1 where that is above `--most`, an incident was not told as begun and as over, or the job has ended.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin
from urllib.request import urlopen

from bench.core.incidents import Incidents
from bench.measure.slopes import slope, slope_of_pairs
from bench.traffic.feeding import feeding
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.alerts.support.fakes import WebhookFake
from tests.chaos.support.rig import PATIENCE_S, Rig, command_line

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 50
TWO_HOURS, A_DAY = 120.0, 24 * 60.0
MB = 1024 * 1024
STORE_MEMORY, STATE = "rebalance_monitor_state_store_memory_bytes", "rebalance_monitor_state_bytes"
# So many full collections a sample, so long apart: between two batches, once, is enough.
COLLECTIONS, APART_S = 8, 0.3
LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What was there in so many seconds; memory and disk in MB, -1 where it is not known."""

    minute: float
    driver: float
    workers: float
    jvm: float
    heap: float
    off_heap: float
    state_store: float
    state: float
    disk: float


def main(arguments: list[str]) -> int:
    """Run the soak and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--slow", action="store_true", help="a day instead of two hours")
    parser.add_argument("--warm-up", type=float, default=0.25, help="share of the time that does not count")
    parser.add_argument("--rate", type=int, default=20_000, help="commits a second")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--rebalances", type=int, default=1, help="new generations a second")
    parser.add_argument("--every", type=float, default=60, help="seconds between samples")
    parser.add_argument("--most", type=float, default=1.0, help="per cent an hour")
    chosen = parser.parse_args(arguments)
    chosen.minutes = chosen.minutes or (A_DAY if chosen.slow else TWO_HOURS)
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        LabBroker(offsets_partitions=PARTITIONS) as broker,
        WebhookFake() as hook,
    ):
        incidents = Incidents(broker.bootstrap, hook, PARTITIONS)
        rig = Rig(broker.bootstrap, Path(folder), incidents.settings())
        rig.pulse("begins")
        load = {"groups": chosen.groups, "per_s": chosen.rate, "rebalances": chosen.rebalances}
        with rig.job, feeding(broker.bootstrap, (chosen.minutes + 30) * 60, **load) as feed:
            rig.job.wait_ready()
            samples = list(_samples(rig, incidents, chosen.minutes, chosen.every))
            incidents.end()
            wait_until(lambda: not incidents.wrong(), PATIENCE_S)
            rig.job.require()
            if feed.poll() is not None:
                print("the feed ended before its time: this is no soak", file=sys.stderr)
                return 1
            said = _said(rig.job.log)
    print(f"{chosen.minutes:.0f} min, {chosen.groups:,} groups, {chosen.rate:,} commits a second")
    print(f"{incidents.count} incidents, {len(hook.calls)} notifications; told wrongly: {incidents.wrong()}")
    print(_delays(said))
    return _report(samples, chosen.warm_up * chosen.minutes, chosen.most) or bool(incidents.wrong())


def _samples(rig: Rig, incidents: Incidents, minutes: float, every_s: float) -> Iterator[Sample]:
    began = time.monotonic()
    while (spent := (time.monotonic() - began) / 60) < minutes:
        incidents.turn()
        sample = _sample(rig, spent, every_s)
        said = (f"{field.name} {getattr(sample, field.name):.1f}" for field in fields(sample))
        print("  ".join(said), flush=True)
        yield sample


def _sample(rig: Rig, minute: float, every_s: float) -> Sample:
    looks, page, until = [], rig.job.page(), time.monotonic() + every_s
    while time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
        looks.append(_look(rig, page))
    *resident_ones, stores, states = zip(*looks, strict=True)
    driver, workers, jvm = (sum(values) / len(looks) for values in resident_ones)
    disk = sum(map(_size, rig.job.storage.rglob("*"))) / MB
    jvms = _jvms(rig.job.below())
    heap, off_heap = heap_of(jvms[0]) if jvms else (-1.0, -1.0)
    return Sample(minute, driver, workers, jvm, heap, off_heap, max(stores), max(states), disk)


def _size(path: Path) -> int:
    """Give a file's bytes; none of what is no file, or was deleted meanwhile."""
    with suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0


def _look(rig: Rig, page: str | None) -> tuple[float, float, float, float, float]:
    """Driver, Python workers, JVM, what RocksDB says that it has, and the state of one batch, MB."""
    below = rig.job.below()
    jvms = _jvms(below)
    workers = [pid for pid in below if "pyspark" in command_line(pid) and pid not in jvms]
    return resident([rig.job.pid]), resident(workers), resident(jvms), *state_of(page)


def _jvms(below: list[int]) -> list[int]:
    return [pid for pid in below if command_line(pid).split(" ")[0].endswith("java")]


def state_of(page: str | None) -> tuple[float, float]:
    """Give what RocksDB says that it has in memory, and the size of the state, MB; -1 where unknown."""
    found = {STORE_MEMORY: -1.0, STATE: -1.0}
    if page is None:
        return -1, -1
    with suppress(OSError, HTTPException), urlopen(urljoin(page, "metrics"), timeout=60) as answer:  # noqa: S310 - its own
        for line in answer.read().decode().splitlines():
            name = re.split("[{ ]", line)[0]
            if name in found:
                found[name] = float(line.split()[-1]) / MB
    return found[STORE_MEMORY], found[STATE]


def _said(log: str) -> list[dict[str, Any]]:
    """Give what the job logged of batches that told something, oldest first."""
    lines = (json.loads(line) for line in log.splitlines() if line.startswith("{"))
    return [line for line in lines if line.get("event") == "batch"]


def _delays(said: list[dict[str, Any]]) -> str:
    """Say how late the findings of each quarter of the run were, and how far behind it was at its end."""
    lines = []
    for quarter in range(4):
        part = said[len(said) * quarter // 4 : len(said) * (quarter + 1) // 4]
        late = sorted(
            line["detection_delay_ms"] for line in part if line.get("detection_delay_ms") is not None
        )
        if late:
            p50, p95 = late[len(late) // 2], late[len(late) * 95 // 100]
            lines.append(
                f"quarter {quarter + 1}: {len(late)} batches told live findings, {p50} / {p95} ms late"
            )
    lines.append(f"behind at the end: {said[-1]['behind_ms'] if said else '?'} ms")
    return "\n".join(lines)


def resident(pids: list[int]) -> float:
    """Give what these processes have in memory now, MB."""
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    return total / MB


def heap_of(pid: int) -> tuple[float, float]:
    """Collect; return what is left, and what the JVM has outside its heap, MB.

    What is left is the least of a few turns, for a batch under way holds its own.
    """
    jcmd = find_java().home / "bin" / "jcmd"
    if not jcmd.exists():
        return -1, -1
    left, said = [], ""
    for _ in range(COLLECTIONS):
        time.sleep(APART_S)
        subprocess.run([jcmd, str(pid), "GC.run"], capture_output=True, check=False)
        done = subprocess.run([jcmd, str(pid), "GC.heap_info"], capture_output=True, text=True, check=False)
        # Young and old generation; what follows is of the classes, outside the heap.
        said = done.stdout.split("Metaspace")[0]
        left.append(sum(int(kb) for kb in re.findall(r"used (\d+)K", said)))
    return min(left) / 1024, _outside(pid, [int(at, 16) for at in re.findall(r"0x([0-9a-f]+)", said)])


def _outside(pid: int, heap: list[int]) -> float:
    """Give what is resident outside the addresses of the heap, MB."""
    if not heap:
        return -1
    kb, counts = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            counts = not min(heap) <= int(first.partition("-")[0], 16) < max(heap)
        elif first == "Rss:" and counts:
            kb += int(rest[0])
    return kb / 1024


def _report(samples: list[Sample], warm_up: float, most: float) -> int:
    steady = [sample for sample in samples if sample.minute >= warm_up]
    bad = 0
    print(f"\n{len(steady)} samples after {warm_up:.0f} min of warm-up")
    print("| | mean, MB | line, % an hour | standard error | of pairs, % an hour |\n|---|---|---|---|---|")
    hours = [sample.minute / 60 for sample in steady]
    for index, field in enumerate(fields(Sample)[1:], 1):
        values = [astuple(sample)[index] for sample in steady]
        (line, error), grows = slope(hours, values), slope_of_pairs(hours, values)
        mean = sum(values) / max(1, len(values))
        print(f"| {field.name} | {mean:.1f} | {line:+.2f} | {error:.2f} | {grows:+.2f} |")
        bad += field.name in {"driver", "workers", "heap", "off_heap", "state_store"} and grows > most
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
