"""Feeds a broker as a busy cluster would: every group commits every few seconds, some rebalance meanwhile.

First every group's metadata and one commit of each partition, at once; then `--per-s` commits a second, the
groups in turn, and `--rebalances` new generations a second, until `--seconds` are over. Each comes in a tenth
of its second that is drawn by lot: at a fixed one all would wait equally long for the monitor's trigger.
A record's time is that of its append, as a coordinator's is: a broker that has much to do appends seconds
after a record was produced, and the monitor is not late by that. `--hot` puts that share of the groups into
partition 0; `--one` lets the first group make that share of the commits, while the others rebalance and share
the rest. With `--as-coordinators` the log has a record batch for each request, and the requests are spread
evenly: a reader of bursts of large batches fetches and unpacks for less. With `--topics` the groups' topics
exist, and get the records that the groups commit: all of them have lag.

    python -m bench.traffic.feed --bootstrap 127.0.0.1:9092 --groups 10000 --per-s 20000 --seconds 60
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.traffic.load import TOPIC, load, producer
from bench.traffic.mix import Group, Message, Mix, groups_of, new_generation, request
from bench.traffic.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TICKS_PER_S, FINE_TICKS_PER_S = 10, 50


def now_ms() -> int:
    """Give the time in ms since epoch."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Feed:
    """The groups, and where their turn has come to.

    `second`: turns in a second, where a group commits one record a second; 0 where each turn is a hundred.
    """

    mix: Mix
    hot: float
    one: float
    active: float = 1.0
    second: int = 0
    groups: list[Group] = field(init=False)
    turn: Iterator[Group] = field(init=False)
    turns: int = 0
    clock: Callable[[], int] = now_ms

    def __post_init__(self) -> None:
        self.groups = groups_of(self.mix)
        for group in self.groups[: int(len(self.groups) * self.hot)]:
            group.shard = 0
        some = self.groups[: int(len(self.groups) * self.active)]
        self.turn = cycle(some[1:] if self.one else some)

    def beginning(self) -> Iterator[Message]:
        """Yield what every group has before it is watched."""
        for group in self.groups:
            yield new_generation(group, self.mix, self.clock())
            yield from request(group, 0, self.clock())

    def tick(self, commits: int, rebalances: int) -> Iterator[Message]:
        """Yield about `commits` commits of the groups whose turn it is, and so many new generations."""
        for _ in range(rebalances):
            yield new_generation(next(self.turn), self.mix, self.clock())
        for _ in range(commits // self.mix.width):
            self.turns += 1
            is_first = int(self.turns * self.one) > int((self.turns - 1) * self.one)
            group = self.groups[0] if is_first else next(self.turn)
            turn, records = (self.turns // self.second, 1) if self.second else (self.turns, 100)
            yield from request(group, turn, self.clock(), records=records)


def stamp_appends(bootstrap: str) -> None:
    """Let the broker give each record the time of its append. KafkaException where it refuses."""
    kind = ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[kind])
    # Its answers come as long as the client is there.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.incremental_alter_configs([wanted]).values():
        answer.result()


def run(feed: Feed, options: argparse.Namespace) -> int:
    """Load the beginning, say so on stdout, and feed until the time is over; returns the records sent."""
    ticks, flushed = (FINE_TICKS_PER_S, False) if options.as_coordinators else (TICKS_PER_S, True)
    at_once = {"at_once": options.width, "linger_ms": 0} if options.as_coordinators else {}
    client = producer(options.bootstrap, **at_once)
    stamp_appends(options.bootstrap)
    topics = Topics(options.bootstrap, feed.groups, options.width, client, ticks) if options.topics else None
    sent = load(options.bootstrap, feed.beginning())
    print("begun", flush=True)
    began, due = time.monotonic(), 0.0
    lot, drawn = Random(0), Counter[int]()  # noqa: S311 - nothing to guess
    for number in range(int(options.seconds * ticks)):
        tick = number % ticks
        if tick == 0:
            drawn = Counter(lot.choices(range(ticks), k=options.rebalances))
        if topics is not None:
            topics.tick()
        messages = feed.tick(options.per_s // ticks, drawn[tick])
        sent += load(options.bootstrap, messages, client, flush=flushed)
        due += 1 / ticks
        time.sleep(max(0.0, began + due - time.monotonic()))
    client.flush()
    behind = time.monotonic() - began - options.seconds
    print(f"{sent} records, {behind:.1f} s behind", flush=True)
    return sent


def main() -> None:
    """Feed a broker from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=10, help="partitions per group")
    parser.add_argument("--per-s", type=int, default=20_000, help="commits per second")
    parser.add_argument("--rebalances", type=int, default=1, help="new generations per second")
    parser.add_argument("--hot", type=float, default=0.0, help="share of the groups in partition 0")
    parser.add_argument("--active", type=float, default=1.0, help="share of the groups that commit")
    parser.add_argument("--one", type=float, default=0.0, help="share of the commits that one group makes")
    parser.add_argument("--shards", type=int, default=50, help="partitions that are written to")
    parser.add_argument("--as-coordinators", action="store_true")
    parser.add_argument("--topics", action="store_true", help="create the groups' topics, with records")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    mix = Mix(options.groups, options.width, 0, 0, shards=options.shards)
    second = max(1, options.per_s // options.width) if options.topics else 0
    feed = Feed(mix, options.hot, options.one, options.active, second)
    sys.exit(0 if run(feed, options) else 1)


if __name__ == "__main__":
    main()
