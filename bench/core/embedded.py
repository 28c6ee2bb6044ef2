"""What a second costs the embedded engine's own Python: coordinators and driver, without broker and client.

The traffic of `bench.rivals.prices steady`, made in this process, four batches a second, through the
decoder, the coordinators of all shards and the production writer with all its sinks but the page. `--ends`
adds a sample of the ends of all topics every five seconds; `--births` begins with no group and gives each
second so many new ones. Time is simulated. CPU time a second of the job, by stage, and the longest batch;
`--profile` prints where it goes.

    python -m bench.core.embedded --seconds 30 --ends
    python -m bench.core.embedded --births 1333 --seconds 45 --ends
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import logging
import pstats
import tempfile
import time
from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import structlog

from bench.core.driver import resident_mb
from bench.traffic.feed import Feed
from bench.traffic.mix import Mix, groups_of, new_generation, request
from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.cluster.clients.reader import RECORD_SCHEMA
from rebalance_monitor.config.dashboard import Audit
from rebalance_monitor.config.model import Settings
from rebalance_monitor.config.web import Web
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import BatchKey
from rebalance_monitor.engine.batch.step import Extent, Plan
from rebalance_monitor.engine.driver.outputs import storage_sinks
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.embedded.core import Core
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.memory import collected_rarely, take_for_good, uncollected, without_pandas
from rebalance_monitor.engine.outputs.serving import Serving
from rebalance_monitor.engine.outputs.upkeep import ParquetFindings
from rebalance_monitor.engine.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.traffic.mix import Message

SHARDS, A_SECOND, EVERY_S, STATE_S, AHEAD = 50, 4, 5, 15, 1_000
TOPIC = "__consumer_offsets"


class Log:
    """The offsets topic: gives records their offsets."""

    def __init__(self) -> None:
        self._next: Counter[int] = Counter()

    def batch(self, messages: Iterable[Message]) -> tuple[pa.RecordBatch, ...]:
        """Return the records as the reader cuts them."""
        found = sorted(messages, key=lambda one: one.partition)
        if not found:
            return ()
        offsets = []
        for one in found:
            offsets.append(self._next[one.partition])
            self._next[one.partition] += 1
        stamps = pa.array([one.timestamp for one in found], pa.int64())
        arrays = [
            pa.array([one.key for one in found], pa.binary()),
            pa.array([one.value for one in found], pa.binary()),
            pa.repeat(pa.scalar(TOPIC, pa.string()), len(found)),
            pa.array([one.partition for one in found], pa.int32()),
            pa.array(offsets, pa.int64()),
            stamps.cast(RECORD_SCHEMA.field("timestamp").type),
            pa.array([0] * len(found), pa.int32()),
        ]
        return (pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA),)


class World:
    """The job's own Python, and its clock (ms)."""

    def __init__(self, folder: Path, *, ends: bool) -> None:
        settings = Settings(web=Web(enabled=False), audit=Audit(every_batches=0))
        storage = Storage(folder)
        self.now = time.time_ns() // 1_000_000
        self.waiting: list[EndsSample] = []
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.longest, self.number = 0.0, 0
        detection = DetectionSettings()
        self.core = Core(Plan(detection, "bench", {}, reader=1), range(SHARDS))
        self.serving = Serving(settings, storage, "bench", Notices(), ParquetFindings(storage))
        self.parts = Parts(detection, "bench", list, ends=self._drain if ends else None)
        ledger = Ledger(storage.ledger)
        self.writer = BatchWriter(
            ledger,
            ledger.load().on_topic("topic", "bench"),
            [*storage_sinks(settings, storage, ParquetFindings(storage)), self.serving],
            self.parts,
            wall_ms=lambda: self.now + 100,
        )
        self.log = Log()

    def _drain(self) -> list[EndsSample]:
        found, self.waiting = self.waiting, []
        return found

    def sample(self, width: int, end: int) -> None:
        """Let the ends of the wanted topics be known: `end` in all partitions."""
        latest = dict.fromkeys(self.parts.topics(), (end,) * width)
        is_first = self.number % (60 * A_SECOND) < A_SECOND * EVERY_S
        begins = dict.fromkeys(latest, (0,) * width) if is_first else {}
        self.waiting.append(EndsSample(self.now - 20, self.now, latest, begins))

    def turn(self, messages: Iterable[Message]) -> None:
        """Take one batch."""
        records = self.log.batch(messages)
        self.now += 1_000 // A_SECOND
        with uncollected():
            began = time.process_time()
            batch = self.core.apply(records, self.now, Extent.USUAL)
            applied = time.process_time()
            self.writer.apply(BatchKey("bench", self.number), batch)
            written = time.process_time()
        if self.number % (STATE_S * A_SECOND) == 0:
            self.core.freeze()
        self.spent["apply"] += applied - began
        self.spent["write"] += written - applied
        self.spent["state"] += time.process_time() - written
        self.longest, self.number = max(self.longest, written - began), self.number + 1


def births(mix: Mix, a_second: int, world: World) -> Iterator[list[Message]]:
    """Yield batches of new groups."""
    made = groups_of(mix)
    each = a_second // A_SECOND
    for place in range(0, len(made), each):
        some, now = made[place : place + each], world.now
        yield [one for group in some for one in (new_generation(group, mix, now), *request(group, 0, now))]


def steady(feed: Feed, per_s: int) -> Iterator[list[Message]]:
    """Yield the beginning, and batches of steady traffic with a rebalance a second."""
    yield list(feed.beginning())
    number = 0
    while True:
        number += 1
        yield list(feed.tick(per_s // A_SECOND, int(number % A_SECOND == 0)))


def run(options: argparse.Namespace, folder: Path) -> None:
    """Run, and print one line."""
    world = World(folder, ends=options.ends)
    groups = options.births * options.seconds if options.births else options.groups
    mix = Mix(groups, options.width, 0, 0, shards=SHARDS)
    if options.births:
        feed, batches, warm = None, births(mix, options.births, world), 0
    else:
        feed = Feed(mix, 0.0, 0.0, clock=lambda: world.now)
        batches, warm = steady(feed, options.per_s), 2 * EVERY_S * A_SECOND
    profile = cProfile.Profile(time.process_time)
    with world.serving, collected_rarely():
        for number, messages in zip(range(warm + options.seconds * A_SECOND), batches, strict=False):
            if number == warm:
                gc.collect()
                take_for_good()
                world.spent.clear()
                world.longest = 0.0
            # The making of the traffic is not profiled.
            made = [*chain(messages)]
            if options.profile and number >= warm:
                profile.enable()
            if options.ends and number % (EVERY_S * A_SECOND) == EVERY_S * A_SECOND - 1:
                world.sample(options.width, AHEAD * number if feed is None else 100 * feed.turns + AHEAD)
            world.turn(made)
            profile.disable()
    stages = ", ".join(f"{name} {1e3 * spent / options.seconds:.1f}" for name, spent in world.spent.items())
    whole = 1e3 * sum(world.spent.values()) / options.seconds
    print(
        f"{groups:,} groups, {options.seconds} s: {whole:.1f} CPU-ms a second ({stages});"
        f" the longest batch {world.longest:.2f} CPU-s; {resident_mb():.0f} MB"
    )
    if options.profile:
        pstats.Stats(profile).sort_stats(options.profile).print_stats(45)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--per-s", type=int, default=20_000, help="commits a second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--births", type=int, default=0, help="new groups a second")
    parser.add_argument("--ends", action="store_true")
    parser.add_argument("--profile", choices=("tottime", "cumulative"))
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    without_pandas()
    with tempfile.TemporaryDirectory(prefix="bench-embedded-") as folder:
        run(options, Path(folder))


if __name__ == "__main__":
    main()
