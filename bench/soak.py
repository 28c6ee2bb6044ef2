"""Runs the job under steady load and says how its memory grows: `make soak ARGS="--minutes 120 …"`.

Groups with members are written once and again now and then (a generation each), commits come all the time.
Every sample is driver, Python workers and JVM (resident, MB), the JVM's heap after a full collection (where a
JDK's jcmd is at hand), and the storage folder. The slope is a least-squares line over the samples after the
warm-up, in per cent of the mean an hour. Exit code 1 where a slope is above `--most`, or the job has ended.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from rebalance_monitor.cluster.java import find_java
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.broker import LabBroker
from tests.chaos.rig import OFFSETS, Rig, children, command_line
from tests.coordinator.timeline import Client, metadata
from tests.decoders.encode import commit_key, commit_value, group_key

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 50
MEMBERS = 2
MB = 1024 * 1024
GENERATION_EVERY = 500


@dataclass(frozen=True, slots=True)
class Sample:
    """One look; memory and disk in MB, -1 where it is not known."""

    minute: float
    driver: float
    workers: float
    jvm: float
    heap: float
    disk: float


class Load(threading.Thread):
    """Writes `rate` records a second over `groups` groups until `ended` is set."""

    def __init__(self, bootstrap: str, groups: int, rate: int) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": bootstrap, "client.id": "__admin_client", "linger.ms": 50}
        self._producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000})
        self._groups = [(name, coordinator_partition(name, PARTITIONS)) for name in map(str, range(groups))]
        self._generations = [0] * groups
        self._rate = rate
        self.written = 0
        self.ended = threading.Event()

    def run(self) -> None:
        """Write every group once, then the load until `ended` is set."""
        dice, began = random.Random(1), time.monotonic()  # noqa: S311 - no secret
        for number in range(len(self._groups)):
            self._generation(number)
        self.written = 0
        began = time.monotonic()
        while not self.ended.wait(0.05):
            for _ in range(max(0, int((time.monotonic() - began) * self._rate) - self.written)):
                number = dice.randrange(len(self._groups))
                self.written += 1
                if self.written % GENERATION_EVERY == 0:
                    self._generation(number)
                else:
                    self._commit(number)
            self._producer.poll(0)

    def _generation(self, number: int) -> None:
        name, shard = self._groups[number]
        self._generations[number] += 1
        members = [Client(f"m{n}-{name}", (n,), f"client-{n}") for n in range(MEMBERS)]
        value = metadata(self._generations[number], members, _now())
        self._producer.produce(OFFSETS, value, group_key(name), shard)

    def _commit(self, number: int) -> None:
        name, shard = self._groups[number]
        key, value = commit_key(name, "orders", self.written % MEMBERS), commit_value(self.written, _now())
        self._producer.produce(OFFSETS, value, key, shard)


def main(arguments: list[str]) -> int:
    """Run the soak and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--warm-up", type=float, default=0.25, help="share of the time that does not count")
    parser.add_argument("--rate", type=int, default=20_000, help="records a second")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--every", type=float, default=60, help="seconds between samples")
    parser.add_argument("--most", type=float, default=1.0, help="per cent an hour")
    chosen = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        LabBroker(offsets_partitions=PARTITIONS) as broker,
    ):
        rig = Rig(broker.bootstrap, Path(folder))
        rig.pulse("begins")
        with rig.job:
            rig.job.wait_ready()
            load = Load(broker.bootstrap, chosen.groups, chosen.rate)
            load.start()
            samples = list(_samples(rig, chosen.minutes, chosen.every))
            load.ended.set()
            rig.job.require()
            lag = re.findall(r'"behind_ms": (\d+)', rig.job.log)
    print(f"{load.written:,} records in {chosen.minutes:.0f} min over {chosen.groups:,} groups")
    print(f"lag at the end: {lag[-1] if lag else '?'} ms")
    return _report(samples, chosen.warm_up * chosen.minutes, chosen.most)


def _samples(rig: Rig, minutes: float, every_s: float) -> Iterator[Sample]:
    began = time.monotonic()
    while (spent := (time.monotonic() - began) / 60) < minutes:
        time.sleep(every_s)
        sample = _look(rig, spent)
        said = (f"{field.name} {getattr(sample, field.name):.1f}" for field in fields(sample))
        print("  ".join(said), flush=True)
        yield sample


def _look(rig: Rig, minute: float) -> Sample:
    driver, tree = rig.job.pid, children()
    below = [driver]
    for parent in below:
        below += tree.get(parent, [])
    jvms = [pid for pid in below if command_line(pid).split(" ")[0].endswith("java")]
    workers = [pid for pid in below if pid != driver and pid not in jvms]
    disk = sum(path.stat().st_size for path in rig.job.storage.rglob("*") if path.is_file()) / MB
    heap = _heap(jvms[0]) if jvms else -1
    return Sample(minute, _resident([driver]), _resident(workers), _resident(jvms), heap, disk)


def _resident(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    return total / MB


def _heap(pid: int) -> float:
    """Collect, and return what is left."""
    jcmd = find_java().home / "bin" / "jcmd"
    if not jcmd.exists():
        return -1
    subprocess.run([jcmd, str(pid), "GC.run"], capture_output=True, check=False)
    done = subprocess.run([jcmd, str(pid), "GC.heap_info"], capture_output=True, text=True, check=False)
    used = re.findall(r"used (\d+)K", done.stdout)
    return int(used[0]) / 1024 if used else -1


def _report(samples: list[Sample], warm_up: float, most: float) -> int:
    steady = [sample for sample in samples if sample.minute >= warm_up]
    bad = 0
    print(f"\n{len(steady)} samples after {warm_up:.0f} min of warm-up")
    print("| | mean, MB | slope, % an hour |\n|---|---|---|")
    for index, field in enumerate(fields(Sample)[1:], 1):
        values = [astuple(sample)[index] for sample in steady]
        slope = _slope([sample.minute / 60 for sample in steady], values)
        print(f"| {field.name} | {sum(values) / max(1, len(values)):.1f} | {slope:+.2f} |")
        bad += field.name in {"driver", "workers", "heap"} and slope > most
    return 1 if bad else 0


def _slope(hours: list[float], values: list[float]) -> float:
    """Least squares, in per cent of the mean an hour."""
    if len(values) <= 1 or not sum(values):
        return 0.0
    x, y = sum(hours) / len(hours), sum(values) / len(values)
    over = sum((a - x) ** 2 for a in hours)
    return 100 * sum((a - x) * (b - y) for a, b in zip(hours, values, strict=True)) / over / y


def _now() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
