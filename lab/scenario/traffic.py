"""Light traffic: a few records per second into every partition of the lab's topics, from one thread."""

from __future__ import annotations

import threading
from typing import Self

from confluent_kafka import Producer

from rebalance_monitor.lab.cluster.quiet import quiet

TICK_S = 0.25


class Traffic:
    """Produces one small record per partition and tick until closed."""

    def __init__(self, bootstrap: str, tick_s: float = TICK_S) -> None:
        self._producer = Producer({**quiet(bootstrap), "linger.ms": 20, "acks": "1"})
        self._topics: dict[str, int] = {}
        self._tick_s = tick_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def add(self, topic: str, partitions: int) -> None:
        """Produce into this topic from now on; a topic known already gets the new number of partitions."""
        self._topics = {**self._topics, topic: partitions}

    def remove(self, topic: str) -> None:
        """Stop producing into this topic."""
        self._topics = {name: count for name, count in self._topics.items() if name != topic}

    def _run(self) -> None:
        while not self._ended.wait(self._tick_s):
            for topic, partitions in self._topics.items():
                for partition in range(partitions):
                    self._producer.produce(topic, b"x", partition=partition)
            self._producer.poll(0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=5)
        self._producer.flush(5)
