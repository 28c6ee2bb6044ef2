"""What following lag costs the driver: positions of many groups, and a sample of ends against all of them.

Groups share partitions, `width` each. Each turn publishes the positions of a fifth of the groups, as a second
of a job does, and takes one sample, as every five seconds do. CPU time per second of a job, and memory.

    python -m bench.core.lag --groups 10000 --partitions 2000
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.lag.following import Lag
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry

T0, A_TOPIC, EVERY_S = 1_795_000_000_000, 100, 5


def published(group: int, width: int, partitions: int, offset: int, at: int) -> str:
    """Make what a group publishes."""
    held = Positions()
    topic, first = divmod(group * width % partitions, A_TOPIC)
    parts = b"".join(
        partition_entry(None if one else f"topic-{topic}".encode(), (first + one) % A_TOPIC)
        for one in range(width)
    )
    positions.keep(held, at, parts, offset.to_bytes(8, "big") * width)
    return positions.published(held)


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--turns", type=int, default=6)
    options = parser.parse_args()
    lag, taking, publishing = Lag(DetectionSettings(), "bench"), [], []
    topics = options.partitions // A_TOPIC
    tracemalloc.start()
    for turn in range(options.turns):
        if turn == 1:
            # The first turn's is all there is to hold.
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        at = T0 + 1_000 * EVERY_S * turn
        bodies = {
            f"g{one}": published(one, options.width, options.partitions, 10**6 * (turn + 1), at)
            for one in range(options.groups)
        }
        began = time.process_time()
        lag.publish(bodies, at)
        publishing.append(time.process_time() - began)
        ends = {f"topic-{one}": (10**6 * (turn + 1) + 7,) * A_TOPIC for one in range(topics)}
        began = time.process_time()
        lag.on_samples([EndsSample(at, at, ends)], {}, ())
        taking.append(time.process_time() - began)
    followed = options.groups * options.width
    print(
        f"{options.groups} groups, {followed} of their partitions, {options.partitions} partitions: positions"
        f" {min(publishing) * 1e3:.0f} ms and a sample {min(taking) * 1e3:.0f} ms of CPU in {EVERY_S} s"
        f" ({20 * (min(publishing) + min(taking)):.1f} % of a core);"
        f" {held / followed:.0f} bytes a followed partition"
    )


if __name__ == "__main__":
    main()
