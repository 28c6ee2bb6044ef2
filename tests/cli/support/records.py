"""Raw records of a hand-written topic, for the verbs that read captures."""

from __future__ import annotations

from struct import pack

import pyarrow as pa

from rebalance_monitor.cluster.clients.reader import RECORD_SCHEMA
from tests.coordinator.support.timeline import T0, Client, metadata, text

CLIENTS = [Client("a-1", (0, 1), "consumer-a"), Client("b-1", (2,), "rdkafka", "/10.0.0.2")]


class Records:
    """Collects records: `at` in ms after T0; each group stays in one partition."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self._ends: dict[int, int] = {}

    def add(self, partition: int, at: int, key: bytes, value: bytes | None) -> None:
        offset = self._ends.get(partition, 0)
        self._ends[partition] = offset + 1
        place = {"topic": "__consumer_offsets", "partition": partition, "offset": offset}
        stamp = {"timestamp": T0 + at, "timestampType": 0}
        self.rows.append({"key": key, "value": value, **place, **stamp})

    def generation(self, partition: int, at: int, group: str, number: int, members: list[Client]) -> None:
        self.add(partition, at, b"\0\2" + text(group), metadata(number, members, T0 + at))

    def commit(self, partition: int, at: int, group: str, offset: int, count: int = 2) -> None:
        value = b"\0\3" + pack(">qi", offset, -1) + text("") + pack(">q", T0 + at)
        for number in range(count):
            self.add(partition, at, b"\0\1" + text(group) + text("orders") + pack(">i", number), value)

    def batch(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(self.rows, schema=RECORD_SCHEMA)
