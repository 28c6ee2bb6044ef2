"""Many new groups at once against the running job: `make bench-births ARGS="--groups 100000 --seconds 75"`.

Every group is new: its first generation and one commit of each of its partitions, at an even rate. Printed:
the batches meanwhile (`STAGES` of the engine, by the job's own metrics), how long the job took to catch
up, how many first generations were not told, and the most that driver, Python workers and JVM had in memory.
Exit code 1 where a batch took longer than `--most` or a group was lost.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.job.soak import resident
from bench.measure.stages import STAGES, stages
from bench.traffic.load import load, producer
from bench.traffic.mix import Mix, groups_of, new_generation, request
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import Rig, command_line

if TYPE_CHECKING:
    from collections.abc import Collection

PARTITIONS = 50
LOOK_S, TICKS_PER_S = 0.5, 10


@dataclass(slots=True)
class Watched:
    """What was seen of the job: (batches, their seconds) between two looks, and the most memory, MB."""

    batches: list[tuple[float, float]] = field(default_factory=list)
    memory: dict[str, float] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def longest(self) -> float:
        """Return the seconds of the longest batch; of two within one look, of both."""
        return max((seconds for _, seconds in self.batches), default=0.0)


def main(arguments: list[str]) -> int:
    """Run the measurement and print what it saw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--engine", choices=STAGES, default="spark")
    parser.add_argument("--width", type=int, default=10, help="partitions per group")
    parser.add_argument("--most", type=float, default=10.0, help="seconds of a batch")
    parser.add_argument("--patience", type=float, default=900.0, help="seconds until all is told")
    chosen = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="births-") as folder,
        LabBroker(offsets_partitions=PARTITIONS) as broker,
    ):
        rig = Rig(broker.bootstrap, Path(folder), {"engine": chosen.engine})
        rig.pulse("begins")
        with rig.job:
            rig.job.wait_ready()
            rig.completed("begins")
            watched = Watched()
            watching = threading.Thread(target=watch, args=(rig, watched, STAGES[chosen.engine]), daemon=True)
            watching.start()
            born = bear(broker.bootstrap, chosen.groups, chosen.width, chosen.seconds)
            began = time.monotonic()
            told: set[str] = set()
            wait_until(lambda: is_told(rig, told, chosen.groups), chosen.patience, 0.5)
            caught_up = time.monotonic() - began
            watched.over.set()
            watching.join()
            rig.job.require()
    lost = chosen.groups - len(told)
    count, spent = (sum(values) for values in zip(*watched.batches, strict=True))
    print(f"{chosen.groups:,} groups in {born:.0f} s; all were told {caught_up:.0f} s after the last")
    longest = watched.longest()
    print(f"{count:.0f} batches, {spent / max(count, 1):.1f} s on average, the longest {longest:.1f} s")
    print("most memory, MB: " + ", ".join(f"{name} {mb:.0f}" for name, mb in watched.memory.items()))
    print(f"not told: {lost:,}")
    return 1 if lost or longest > chosen.most else 0


def bear(bootstrap: str, groups: int, width: int, seconds: float) -> float:
    """Write the groups' first records over so many seconds; return how long it took."""
    client, began = producer(bootstrap), time.monotonic()
    made = groups_of(Mix(groups, width, 0, 0, shards=PARTITIONS))
    mix, ticks = Mix(groups, width, 0, 0, shards=PARTITIONS), int(seconds * TICKS_PER_S)
    for tick in range(ticks):
        now = time.time_ns() // 1_000_000
        part = made[len(made) * tick // ticks : len(made) * (tick + 1) // ticks]
        load(
            bootstrap,
            (one for group in part for one in [new_generation(group, mix, now), *request(group, 0, now)]),
            client,
        )
        time.sleep(max(0.0, began + (tick + 1) / TICKS_PER_S - time.monotonic()))
    client.flush()
    return time.monotonic() - began


def is_told(rig: Rig, told: set[str], groups: int) -> bool:
    """Read on in the job's file; whether the first generation of all groups is told by now."""
    told |= {
        f.group for f in rig.job.findings() if f.kind == "rebalance" and f.group and "service-" in f.group
    }
    return len(told) >= groups or not rig.job.alive


def watch(rig: Rig, watched: Watched, wanted: Collection[str]) -> None:
    """Look at batches and memory until it is over."""
    page, before = rig.job.page() or "", {"count": 0.0, "sum": 0.0}
    before |= stages(page, wanted)
    while not watched.over.wait(LOOK_S):
        found = stages(page, wanted)
        if found and found["count"] > before["count"]:
            watched.batches.append((found["count"] - before["count"], found["sum"] - before["sum"]))
            before = found
        for name, pids in parts(rig).items():
            watched.memory[name] = max(resident(pids), watched.memory.get(name, 0.0))


def parts(rig: Rig) -> dict[str, list[int]]:
    """Give the job's processes by what they are."""
    below = rig.job.below()
    jvms = [pid for pid in below if command_line(pid).split(" ")[0].endswith("java")]
    workers = [pid for pid in below if "pyspark" in command_line(pid) and pid not in jvms]
    return {"driver": [rig.job.pid], "workers": workers, "JVM": jvms}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
