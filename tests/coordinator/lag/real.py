"""A real broker's topics and groups, and the shadow coordinators that read them: what tests of lag act on."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.cluster.ends.ends import Rounds
from rebalance_monitor.cluster.ends.offsets import OffsetsClient
from rebalance_monitor.coordinator.findings.outputs import GroupOut, Output, PositionsOut
from rebalance_monitor.coordinator.lag.following import Lag
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import made_rows
from rebalance_monitor.lab.cluster.broker import LabBroker

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

SETTINGS = DetectionSettings()
TURN_MS = 60_000


def config(broker: LabBroker, **more: object) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap, "log_level": "0", **more}


def order(broker: LabBroker, call: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
    client = AdminClient(config(broker))
    for future in call(client).values():
        future.result()


def produce(broker: LabBroker, topic: str, records: Mapping[int, int]) -> None:
    producer = Producer(config(broker))
    for partition, count in records.items():
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(30) == 0


def commit(broker: LabBroker, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit without being a member."""
    consumer = Consumer(config(broker, **{"group.id": group}))
    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


class Coordinators:
    """The shadow coordinators of a broker's offsets topic."""

    def __init__(self, broker: LabBroker) -> None:
        self._properties = {"bootstrap.servers": broker.bootstrap}
        self._shards: dict[int, ShardCoordinator] = {}
        self._read: dict[int, int] = {}

    def read(self, now: int) -> list[Output]:
        """Read what is new, and return what is said of it until the clock `now` (ms)."""
        with ClusterAdmin(self._properties) as admin:
            ends = admin.end_offsets()
        start = {partition: self._read.get(partition, 0) for partition in ends}
        new = {partition: at for partition, at in start.items() if at < ends[partition]}
        said: list[Output] = []
        for batch in read_records(self._properties, Reading(new, {one: ends[one] for one in new})):
            for row in made_rows(decode_batch(batch)):
                if row.shard not in self._shards:
                    state = new_shard_state(row.shard, 0, None)
                    self._shards[row.shard] = ShardCoordinator(state, SETTINGS, "c")
                said += self._shards[row.shard].on_row(row)
        self._read = ends
        return said + [one for shard in self._shards.values() for one in shard.on_clock(now)]


class Monitor:
    """Lag of a broker's groups; a minute passes from one look to the next, as for the first offsets."""

    def __init__(self, broker: LabBroker) -> None:
        self._shards, self._number = Coordinators(broker), 0
        self._client = OffsetsClient({"bootstrap.servers": broker.bootstrap})
        self.lag = Lag(SETTINGS, "c")
        self._summaries: dict[str, dict[str, Any]] = {}
        self.found: list[Finding] = []

    def look(self) -> None:
        """Read commits, ask for ends, and judge."""
        self._number += 1
        now = self._now()
        said = self._shards.read(now)
        self._summaries |= {one.group: one.summary for one in said if isinstance(one, GroupOut)}
        published = {one.group: one.held for one in said if isinstance(one, PositionsOut)}
        self.found += self.lag.publish(published, now)
        self.lag.board.want(now + TURN_MS * self._number)
        # Asked anew each time: for the first offsets, too.
        sample = Rounds(self._client, lambda: self._now() / 1000).sample(self.lag.board.topics)
        self.found += self.lag.on_samples([sample], self._summaries, ())

    def _now(self) -> int:
        return time.time_ns() // 1_000_000 + TURN_MS * self._number
