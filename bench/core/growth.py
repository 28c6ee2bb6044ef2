"""How batch time and state grow: with the number of groups, and with the members of a group. No Spark.

Fills the state of 50 shards through the job's own decoder and `step`, then measures batches with nothing but
clock rows (idle) and batches in which some groups commit (active), and the bytes of the state as Spark stores
it (compressed) and as Python holds it; that of one group also after each of forty generations. Prints tables
with fitted slopes and writes build/bench/growth.json.

    python -m bench.core.growth --groups 1000 --groups 10000 --groups 100000
    python -m bench.core.growth --removals 1000 --removals 16000    KIP-848 groups that lose half of them
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.traffic.mix import Group, Message, Mix, groups_of, new_generation, request
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.engine.batch.step import OutRow, Plan, step
from rebalance_monitor.streaming.rows.lanes import Lanes
from rebalance_monitor.streaming.rows.packing import Unpacked, packed
from tests.coordinator.support.epochs import Epochs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.checkpoints.state.codec import Stored

START, BATCH_MS, BATCHES = 1_795_000_000_000, 1_000, 5
GENERATIONS, APART_MS = 40, 1_000_000
SHARDS, ACTIVE, CHUNK = 50, 1_000, 200_000
PLAN = Plan(DetectionSettings(), "bench", {})
OUT = Path(__file__).parents[2] / "build" / "bench" / "growth.json"


@dataclass(slots=True)
class World:
    """The state of all shards, how far each was read, and the batch's time (ms)."""

    mix: Mix
    groups: list[Group]
    stored: dict[int, Stored | None]
    offsets: dict[int, int]
    now: int = START

    def batch(self, messages: Iterable[Message]) -> float:
        """Apply one batch; CPU seconds of `step`, without making and decoding the records."""
        return self.told(messages)[0]

    def told(self, messages: Iterable[Message]) -> tuple[float, list[OutRow]]:
        """Apply one batch as `batch` does; what it cost, and the rows that leave the operator."""
        self.now += BATCH_MS
        packs = self._decoded(messages)
        out: list[OutRow] = []
        began = time.process_time()
        found = Unpacked(packs.values())
        for shard in range(SHARDS):
            rows = list(found.rows((shard, 0)))
            self.stored[shard], said = step(PLAN, shard, 0, rows, self.now, self.stored[shard], ticks=True)
            out += said
        return time.process_time() - began, out

    def _decoded(self, messages: Iterable[Message]) -> dict[int, bytes]:
        by_shard: dict[int, list[Message]] = {}
        for message in messages:
            by_shard.setdefault(message.partition, []).append(message)
        return {shard: self._pack(shard, found) for shard, found in by_shard.items()}

    def _pack(self, shard: int, messages: list[Message]) -> bytes:
        first = self.offsets[shard]
        self.offsets[shard] += len(messages)
        columns = {
            "key": pa.array([m.key for m in messages], pa.binary()),
            "value": pa.array([m.value for m in messages], pa.binary()),
            "partition": pa.array([shard] * len(messages), pa.int32()),
            "offset": pa.array(range(first, first + len(messages)), pa.int64()),
            "timestamp": pa.array([m.timestamp * 1000 for m in messages], pa.timestamp("us", tz="UTC")),
        }
        rows = decode_batch(pa.RecordBatch.from_pydict(columns), 1)
        (pack,) = packed(rows, Lanes(SHARDS, 1, 1)).column("rows").to_pylist()
        return bytes(pack)


def world(groups: int, members: int, width: int) -> World:
    """Make the state of so many groups, each with its first generation and two commits of each partition."""
    mix = Mix(groups, width, 0, 0, members=members)
    made = World(mix, groups_of(mix), dict.fromkeys(range(SHARDS)), dict.fromkeys(range(SHARDS), 0))
    some = max(1, CHUNK // (width + 1))
    for first in range(0, groups, some):
        part = made.groups[first : first + some]
        made.batch(chain.from_iterable((new_generation(g, mix, START), *request(g, 0, START)) for g in part))
        made.batch(chain.from_iterable(request(g, 1, START + 5_000) for g in part))
    made.now += 60_000
    made.batch(())
    return made


def figures(groups: int, members: int, width: int) -> dict[str, float]:
    """Measure one world."""
    made = world(groups, members, width)
    idle = min(made.batch(()) for _ in range(BATCHES))
    turn = iter(range(2, 2 + BATCHES))

    def active() -> float:
        number = next(turn)
        part = islice(made.groups, min(ACTIVE, groups))
        return made.batch(chain.from_iterable(request(g, number, made.now) for g in part))

    busy = min(active() for _ in range(BATCHES))
    stored, raw = size(made)
    new = made.groups[0]
    one = min(made.batch([new_generation(new, made.mix, made.now)]) for _ in range(BATCHES)) - idle
    return {
        "groups": groups,
        "members": members,
        "partitions": width,
        "idle_ms": idle * 1000,
        "active_ms": busy * 1000,
        "generation_ms": max(0.0, one * 1000),
        "stored_per_group": stored / groups,
        "raw_per_group": raw / groups,
        "allowed_per_group": 1_024 + 200 * members + 24 * width,
    }


def size(made: World) -> tuple[int, int]:
    """Give the bytes of the state as Spark stores it, and as Python holds it."""
    blobs = [stored.blob for stored in made.stored.values() if stored]
    return sum(map(len, blobs)), sum(struct.unpack_from(">BI", blob)[1] for blob in blobs)


def ageing(generations: int, groups: int = 500) -> list[dict[str, float]]:
    """Give the state of one group after each of so many generations; every fourth has another member."""
    made = world(groups, 3, 10)
    rows: list[dict[str, float]] = []
    for generation in range(1, generations + 1):
        begun = [new_generation(group, made.mix, made.now) for group in made.groups] if generation > 1 else []
        made.batch(chain(begun, *(request(group, generation * 900, made.now + 500) for group in made.groups)))
        for turn in range(1, 4):
            made.now += 4_000
            made.batch(chain(*(request(group, generation * 900 + turn, made.now) for group in made.groups)))
        made.now += APART_MS
        rows.append({"generation": generation, "raw_per_group": size(made)[1] / groups})
    return rows


def table(name: str, cells: list[tuple[int, int, int]]) -> list[dict[str, float]]:
    """Measure the cells, print a line for each, and the slope (exponent) of what grows along `name`."""
    names = ["groups", "members", "partitions", "idle_ms", "active_ms", "generation_ms"]
    names += ("stored_per_group", "raw_per_group", "allowed_per_group")
    print("  ".join(f"{title:>17}" for title in names), flush=True)
    rows = []
    for cell in cells:
        rows.append(figures(*cell))
        print("  ".join(f"{rows[-1][title]:>17,.1f}" for title in names), flush=True)
    for column in ("idle_ms", "active_ms", "generation_ms", "raw_per_group"):
        print(f"  {column} ~ {name}^{exponent(rows, name, column):.2f}", flush=True)
    return rows


def removal(members: int) -> dict[str, float]:
    """Give what the removal of each second one costs (CPU-ms), and each member before it (µs)."""
    topic, ids, removed = Epochs(), [f"{number:022}" for number in range(members)], members // 2
    for name in ids:
        topic.metadata(0, name)
    topic.bump(0, 1)
    topic.target(0, 1)
    for number, name in enumerate(ids):
        topic.ack(0, name, 1, (number,))
    for turn in range(3):
        for number in range(members):
            topic.commit(1_000 + turn * 5_000, {number: turn})
    begun = len(topic.rows)
    for number, name in enumerate(ids[:removed]):
        at = 60_000 + 10 * number
        topic.leave(at, name, number + 2)
        topic.target(at, number + 2)
        topic.ack(at, ids[-1 - number], number + 2, (members - 1 - number,))
        topic.commit(at, {members - 1 - number: 100})
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, None), DetectionSettings(), "bench")
    times = [time.process_time()]
    for rows in (topic.rows[:begun], topic.rows[begun:]):
        for row in rows:
            shard.on_row(row)
        times.append(time.process_time())
    filled, spent = (after - before for before, after in pairwise(times))
    return {"members": members, "filled_us": filled / members * 1e6, "removal_ms": spent / removed * 1e3}


def exponent(rows: list[dict[str, float]], by: str, column: str) -> float:
    """Fit log(column) against log(by)."""
    points = [(row[by], row[column]) for row in rows if row[column] > 0]
    if len(points) < 2:  # noqa: PLR2004 - a line needs two
        return float("nan")
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, action="append")
    parser.add_argument("--members", type=int, action="append")
    parser.add_argument("--removals", type=int, action="append", help="members of a KIP-848 group")
    options = parser.parse_args()
    for members in options.removals or ():
        found = removal(members)
        print("  ".join(f"{name} {value:,.2f}" for name, value in found.items()), flush=True)
    if options.removals:
        return
    by_groups = table("groups", [(n, 3, 10) for n in options.groups or (1_000, 10_000, 100_000)])
    cells = [(max(1, 20_000 // (10 * n)), n, 10 * n) for n in options.members or (1, 10, 100, 1_000)]
    by_members = table("members", cells)
    aged = ageing(GENERATIONS)
    for row in aged:
        print(f"  generation {row['generation']:>3}: {row['raw_per_group']:.0f} bytes a group", flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"groups": by_groups, "members": by_members, "generations": aged}, indent=1))


if __name__ == "__main__":
    main()
