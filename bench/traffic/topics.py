"""The topics that the groups of the mix commit for, with records that wait: so that the groups have lag.

Each partition gets a record a second, as each group reads one of it; `WAITING` of them wait all the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.traffic.mix import Group

WAITING = 200
PATIENCE_S = 120
AT_ONCE = 50
"""Topics that are created in one request."""


class Topics:
    """Topics of `width` partitions each that are produced into."""

    def __init__(self, bootstrap: str, groups: Iterable[Group], width: int) -> None:
        self._names, self._width = sorted({group.topic for group in groups}), width
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
        )
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for first in range(0, len(self._names), AT_ONCE):
            some = [NewTopic(name, width, 1) for name in self._names[first : first + AT_ONCE]]
            for made in admin.create_topics(some, operation_timeout=PATIENCE_S).values():
                made.result(PATIENCE_S)
        self.produce(WAITING + width)
        self._producer.flush(PATIENCE_S)

    def produce(self, records: int = 1) -> None:
        """Produce so many records into each partition, in the background."""
        for name in self._names:
            for partition in range(self._width):
                for _ in range(records):
                    self._producer.produce(name, b"x", partition=partition)
            self._producer.poll(0)
