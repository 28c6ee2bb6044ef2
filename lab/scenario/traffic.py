"""Light traffic: records now and then into every partition of the lab's topics, from one thread."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Self
from zlib import crc32

from confluent_kafka import Producer

from rebalance_monitor.lab.cluster.quiet import quiet

TICK_S = 0.25


@dataclass(slots=True)
class _Flow:
    """One topic: so many partitions, records into each every so often, the next at `due` (monotonic)."""

    partitions: int
    every_s: float
    due: float


class Traffic:
    """Produces small records until closed, so many at a time as `at_once` says."""

    def __init__(self, bootstrap: str, tick_s: float = TICK_S, at_once: int = 1) -> None:
        self._producer = Producer({**quiet(bootstrap), "linger.ms": 20, "acks": "1"})
        self._topics: dict[str, _Flow] = {}
        self.names: frozenset[str] = frozenset()
        """All topics that were added, with records or without. Replaced as a whole: any thread may read."""
        self._tick_s, self._at_once = tick_s, at_once
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def add(self, topic: str, partitions: int, every_s: float = TICK_S) -> None:
        """Produce into each partition of this topic from now on, every `every_s`; 0 is nothing.

        A topic known already gets the new number of partitions.
        """
        self.names |= {topic}
        if every_s:
            # Not all topics at once.
            phase = crc32(topic.encode()) % 1000 / 1000 * every_s
            self._topics = {**self._topics, topic: _Flow(partitions, every_s, time.monotonic() + phase)}

    def remove(self, topic: str) -> None:
        """Stop producing into this topic."""
        self.names -= {topic}
        self._topics = {name: flow for name, flow in self._topics.items() if name != topic}

    def _run(self) -> None:
        while not self._ended.wait(self._tick_s):
            now = time.monotonic()
            for topic, flow in self._topics.items():
                if now < flow.due:
                    continue
                flow.due = max(flow.due + flow.every_s, now)
                for partition in self._at_once * [*range(flow.partitions)]:
                    self._producer.produce(topic, b"x", partition=partition)
            self._producer.poll(0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=5)
        self._producer.flush(5)
