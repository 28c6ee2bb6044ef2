"""The topics that the groups of the mix commit for, with records that wait: so that the groups have lag.

Each partition gets `EVERY_S` records every `EVERY_S` seconds, as each group reads one of it a second;
`WAITING` of them wait all the time. The partitions take turns: a record into each of two thousand at once
holds the broker up, and the offsets topic with it.
"""

from __future__ import annotations

import time
from itertools import cycle, islice
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, NewTopic

from bench.traffic.load import produce, producer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Producer

    from bench.traffic.mix import Group

WAITING = 200
PATIENCE_S = 120
AT_ONCE = 50
"""Topics that are created in one request."""

EVERY_S = 5


class Topics:
    """Topics of `width` partitions each that `client` produces into, `ticks` times a second."""

    def __init__(
        self, bootstrap: str, groups: Iterable[Group], width: int, client: Producer, ticks: int
    ) -> None:
        self._producer = client
        names = sorted({group.topic for group in groups})
        self._create(AdminClient({"bootstrap.servers": bootstrap}), names, width)
        places = [(name, partition) for partition in range(width) for name in names]
        self._turn = cycle(places)
        self._a_tick, self._owed = len(places) / (EVERY_S * ticks), 0.0
        filling = producer(bootstrap)
        self._produce(filling, len(places), WAITING + width)
        filling.flush(PATIENCE_S)

    @staticmethod
    def _create(admin: AdminClient, names: list[str], width: int) -> None:
        for first in range(0, len(names), AT_ONCE):
            some = [NewTopic(name, width, 1) for name in names[first : first + AT_ONCE]]
            for made in admin.create_topics(some, operation_timeout=PATIENCE_S).values():
                made.result(PATIENCE_S)
        # The controller has them, but a broker on a busy machine takes half a minute to make their logs.
        until = time.monotonic() + PATIENCE_S
        while missing := set(names).difference(admin.list_topics(timeout=PATIENCE_S).topics):
            if time.monotonic() > until:
                raise TimeoutError(f"{len(missing)} of {len(names)} topics are not there")
            time.sleep(EVERY_S / 10)

    def tick(self) -> None:
        """Produce into the partitions whose turn it is, in the background."""
        self._owed += self._a_tick
        due, self._owed = divmod(self._owed, 1)
        self._produce(self._producer, int(due), EVERY_S)

    def _produce(self, client: Producer, partitions: int, records: int) -> None:
        for name, partition in islice(self._turn, partitions):
            for _ in range(records):
                produce(client, topic=name, partition=partition, value=b"x")
        client.poll(0)
