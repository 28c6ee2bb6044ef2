"""What following lag costs the driver: positions of many groups, and a sample of ends against all of them.

Groups share partitions, `width` each. Each turn publishes the positions of a fifth of the groups, as a second
of a job does, and takes one sample, as every five seconds do. Every group has a member that owns all of its
partitions, and a lag that rises and falls; once a minute a sample has the first offsets. CPU time per second
of a job. Memory is given for one more partition, one more group, and one more partition of a topic.

    python -m bench.core.lag --groups 10000 --partitions 2000
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.lag.following import Lag
from rebalance_monitor.coordinator.lag.measured import TOTALS_KEPT
from rebalance_monitor.coordinator.lag.packed.recent_ends import TopicEnds
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

T0, A_TOPIC, EVERY_S = 1_795_000_000_000, 100, 5
FIRST_EVERY = 12
"""Samples from one with first offsets to the next."""


def published(group: int, width: int, partitions: int, offset: int, at: int) -> Positions:
    """Make what a group publishes."""
    held = Positions()
    topic, first = divmod(group * width % partitions, A_TOPIC)
    parts = b"".join(
        partition_entry(None if one else f"topic-{topic}".encode(), (first + one) % A_TOPIC)
        for one in range(width)
    )
    positions.keep(held, at, parts, offset.to_bytes(8, "big") * width)
    return positions.copied(held)


@dataclass(frozen=True, slots=True)
class Size:
    """How many groups of `width` partitions each follow topics of `partitions` in all."""

    groups: int
    width: int
    partitions: int


def summary(group: int, width: int, partitions: int) -> dict[str, Any]:
    """Make the summary of a group with one member."""
    topic, first = divmod(group * width % partitions, A_TOPIC)
    member = {"member_id": "m", "last_commit": -1, "cadence_ms": 1_000 * EVERY_S}
    given = {"assigned": {f"topic-{topic}": f"{first}-{first + width - 1}"}}
    return {"state": "Stable", "members": 1, "member_list": [member | given]}


def turns(lag: Lag, size: Size, count: int) -> Iterator[tuple[float, float]]:
    """Follow so many samples; yields the CPU seconds of the positions and of the sample of each."""
    topics = size.partitions // A_TOPIC
    known = {f"g{one}": summary(one, size.width, size.partitions) for one in range(size.groups)}
    for turn in range(count):
        at = T0 + 1_000 * EVERY_S * turn
        bodies = {
            f"g{one}": published(one, size.width, size.partitions, 10**6 * (turn + 1), at)
            for one in range(size.groups)
        }
        began = time.process_time()
        lag.publish(bodies, at)
        between = time.process_time()
        ends = {f"topic-{one}": (10**6 * (turn + 1) + 7 + turn % 5,) * A_TOPIC for one in range(topics)}
        begins = dict.fromkeys(ends, (0,) * A_TOPIC) if turn % FIRST_EVERY == 1 else {}
        lag.on_samples([EndsSample(at, at, ends, begins)], known, ())
        yield between - began, time.process_time() - between


def held(size: Size) -> int:
    """Return the bytes that are held once the totals of ten minutes are all there."""
    lag = Lag(DetectionSettings(), "bench")
    tracemalloc.start()
    for _ in turns(lag, size, TopicEnds.KEPT + 1):
        pass
    for consumed in lag.board.groups.values():
        for number in range(TOTALS_KEPT):
            consumed.totals.add(T0 + 1_000 * EVERY_S * (TopicEnds.KEPT + 1 + number), 70)
    gc.collect()
    found, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found


def memory() -> tuple[float, float, float]:
    """Return the bytes of a followed partition, of a group beside these, and of a topic's partition."""
    groups, width, partitions = 200, 10, 2_000
    least = held(Size(groups, width, partitions))
    wide = held(Size(groups, 10 * width, partitions))
    many = held(Size(2 * groups, width, partitions))
    topics = held(Size(groups, width, 2 * partitions))
    followed = (wide - least) / (9 * groups * width)
    return followed, (many - least) / groups - width * followed, (topics - least) / partitions


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--turns", type=int, default=FIRST_EVERY + 1)
    options = parser.parse_args()
    size = Size(options.groups, options.width, options.partitions)
    took = list(turns(Lag(DetectionSettings(), "bench"), size, options.turns))
    publishing, taking = (statistics.mean(found) for found in zip(*took[1:], strict=True))
    followed = size.groups * size.width
    partition, group, end = memory()
    held_mb = (followed * partition + size.groups * group + size.partitions * end) / 1e6
    print(
        f"{size.groups} groups, {followed} of their partitions, {size.partitions} partitions: positions"
        f" {publishing * 1e3:.0f} ms and a sample {taking * 1e3:.0f} ms of CPU in {EVERY_S} s"
        f" ({20 * (publishing + taking):.1f} % of a core); {partition:.0f} bytes a followed partition,"
        f" {group:.0f} a group with the totals of ten minutes, {end:.0f} a partition of a topic:"
        f" {held_mb:.0f} MB in all"
    )


if __name__ == "__main__":
    main()
