"""Light traffic: a record now and then into every partition of the lab's topics, from one thread."""

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
    """One topic: so many partitions, a record into each every so often, the next one at `due` (monotonic)."""

    partitions: int
    every_s: float
    due: float


class Traffic:
    """Produces small records until closed."""

    def __init__(self, bootstrap: str, tick_s: float = TICK_S) -> None:
        self._producer = Producer({**quiet(bootstrap), "linger.ms": 20, "acks": "1"})
        self._topics: dict[str, _Flow] = {}
        self._tick_s = tick_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def add(self, topic: str, partitions: int, every_s: float = TICK_S) -> None:
        """Produce into this topic from now on, a record per partition every `every_s`; 0 is nothing.

        A topic known already gets the new number of partitions.
        """
        if every_s:
            # Not all topics at once.
            phase = crc32(topic.encode()) % 1000 / 1000 * every_s
            self._topics = {**self._topics, topic: _Flow(partitions, every_s, time.monotonic() + phase)}

    def remove(self, topic: str) -> None:
        """Stop producing into this topic."""
        self._topics = {name: flow for name, flow in self._topics.items() if name != topic}

    def _run(self) -> None:
        while not self._ended.wait(self._tick_s):
            now = time.monotonic()
            for topic, flow in self._topics.items():
                if now < flow.due:
                    continue
                flow.due = max(flow.due + flow.every_s, now)
                for partition in range(flow.partitions):
                    self._producer.produce(topic, b"x", partition=partition)
            self._producer.poll(0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=5)
        self._producer.flush(5)
