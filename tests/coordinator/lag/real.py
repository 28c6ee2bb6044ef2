"""A real broker's topics and groups, and the shadow coordinators that read them: what tests of lag act on."""

import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.cluster.ends.ends import Rounds
from rebalance_monitor.cluster.ends.offsets import OffsetsClient
from rebalance_monitor.coordinator.findings.outputs import GroupOut, Output, PositionsOut
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.following import Lag
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import made_rows
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.oracle.formatters import run_tool

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

SETTINGS = DetectionSettings()
Described = dict[tuple[str, str, int], tuple[int | None, int | None, int | None]]
"""(group, topic, partition) -> committed offset, end, lag; None where the tool prints a dash."""

LINE = re.compile(r"^(\S+)\s+(\S+)\s+(\d+)\s+(\d+|-)\s+(\d+|-)\s+(-?\d+|-)\s")
TURN_MS = 60_000


def config(broker: LabBroker, **more: object) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap, "log_level": "0", **more}


def order(broker: LabBroker, call: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
    client = AdminClient(config(broker))
    for future in call(client).values():
        future.result()


def create(broker: LabBroker, *topics: NewTopic) -> None:
    """Create topics, and wait until their leaders answer for every partition."""
    order(broker, lambda client: client.create_topics([*topics]))
    wanted = {one.topic: one.num_partitions for one in topics}
    with OffsetsClient({"bootstrap.servers": broker.bootstrap}) as client:

        def is_led() -> bool:
            found = client.ends(wanted).offsets
            return all(found.get(name, ()) == (0,) * count for name, count in wanted.items())

        assert wait_until(is_led, 120, 0.2), client.ends(wanted)


def delete(broker: LabBroker, *topics: str) -> None:
    """Delete topics, and wait until the brokers know them no more."""
    order(broker, lambda client: client.delete_topics([*topics]))
    with OffsetsClient({"bootstrap.servers": broker.bootstrap}) as client:

        def is_gone() -> bool:
            return client.describe(topics).gone == {*topics}

        assert wait_until(is_gone, 120, 0.2), topics


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


def described(broker: LabBroker) -> Described:
    """What Kafka's own tool says of all groups."""
    arguments = ["--bootstrap-server", broker.bootstrap, "--describe", "--all-groups"]
    text = run_tool("4.1.1", "group.ConsumerGroupCommand", arguments)
    found: Described = {}
    for line in text.splitlines():
        told = LINE.match(line)
        if told:
            values = [None if one == "-" else int(one) for one in told.groups()[3:]]
            found[told[1], told[2], int(told[3])] = (values[0], values[1], values[2])
    return found


def as_known(told: Described) -> Described:
    """What the tool says of committed offsets; nothing waits that is known where the log is another one.

    The tool subtracts even there, and prints a negative lag.
    """
    return {
        place: (offset, end, lag if lag is None or lag >= 0 else None)
        for place, (offset, end, lag) in told.items()
        if offset is not None
    }


def lags_of(board: Board) -> Described:
    """What a board says of all groups, as the tool says it."""
    return {
        (group, topic, one.partition): (one.offset, None if one.end < 0 else one.end, one.records)
        for group, consumed in board.groups.items()
        if consumed.lag is not None
        for topic, of_topic in consumed.lag.topics.items()
        for one in of_topic.partitions
    }


class Coordinators:
    """The shadow coordinators of a broker's offsets topic."""

    def __init__(self, bootstrap: str, settings: DetectionSettings = SETTINGS) -> None:
        self._settings = settings
        self._properties = {"bootstrap.servers": bootstrap}
        self._shards: dict[int, ShardCoordinator] = {}
        self._read: dict[int, int] = {}

    def begin_anew(self, reader: int) -> None:
        """Publish all positions again, to a process that has seen none."""
        self._shards = {
            number: ShardCoordinator(one.state, self._settings, "c", reader=reader)
            for number, one in self._shards.items()
        }

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
                    self._shards[row.shard] = ShardCoordinator(state, self._settings, "c")
                said += self._shards[row.shard].on_row(row)
        self._read = ends
        return said + [one for shard in self._shards.values() for one in shard.on_clock(now)]


class Monitor:
    """Lag of a broker's groups; a minute passes from one look to the next, by default."""

    def __init__(
        self, bootstrap: str, settings: DetectionSettings = SETTINGS, turn_ms: int = TURN_MS
    ) -> None:
        self._shards, self._number, self._turn_ms = Coordinators(bootstrap, settings), 0, turn_ms
        self._client = OffsetsClient({"bootstrap.servers": bootstrap})
        self._settings, self.lag = settings, Lag(settings, "c")
        self._summaries: dict[str, dict[str, Any]] = {}
        self.found: list[Finding] = []

    def restart(self) -> None:
        """Go on as another process does, with what the ledger has."""
        self.lag = Lag(self._settings, "c", json.loads(json.dumps(self.lag.snapshot())))
        self._shards.begin_anew(self._number)

    def look(self) -> None:
        """Read commits, ask for ends, and judge."""
        self._number += 1
        now = self._now()
        said = self._shards.read(now)
        self._summaries |= {one.group: one.summary for one in said if isinstance(one, GroupOut)}
        published = {one.group: one.held for one in said if isinstance(one, PositionsOut)}
        self.found += self.lag.publish(published, now)
        self.lag.board.want(now + self._turn_ms * self._number)
        # Asked anew each time: for the first offsets, too.
        sample = Rounds(self._client, lambda: self._now() / 1000).sample(self.lag.board.topics)
        self.found += self.lag.on_samples([sample], self._summaries, ())

    def _now(self) -> int:
        return time.time_ns() // 1_000_000 + self._turn_ms * self._number
