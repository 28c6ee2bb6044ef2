"""The lag of a real broker's groups is what Kafka's own tool says: kafka-consumer-groups --describe."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka import KafkaConsumer

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.cluster.ends.committed_offsets import CommittedOffsets
from rebalance_monitor.cluster.ends.ends import Rounds
from rebalance_monitor.cluster.ends.offsets import OffsetsClient
from rebalance_monitor.coordinator.findings.outputs import PositionsOut
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import made_rows
from rebalance_monitor.lab.cluster.broker import LabBroker
from tests.oracle.formatters import run_tool

pytestmark = [pytest.mark.broker, pytest.mark.slow]
Described = dict[tuple[str, str, int], tuple[int | None, int | None, int | None]]
"""(group, topic, partition) -> committed offset, end, lag; None where the tool prints a dash."""

LINE = re.compile(r"^(\S+)\s+(\S+)\s+(\d+)\s+(\d+|-)\s+(\d+|-)\s+(-?\d+|-)\s")


@pytest.fixture(scope="module")
def broker() -> Iterator[LabBroker]:
    with LabBroker() as started:
        yield started


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


def member(broker: LabBroker, group: str, topics: list[str], records: int, **more: object) -> Consumer:
    """A member that has read so many records, committed them, and stays."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **more}
    consumer = Consumer(config(broker, **settings))
    consumer.subscribe(topics)
    read, until = 0, time.monotonic() + 60
    while read < records and time.monotonic() < until:
        message = consumer.poll(0.5)
        read += message is not None and message.error() is None
    assert read == records
    consumer.commit(asynchronous=False)
    return consumer


def kafka_python(broker: LabBroker, group: str, topic: str, records: int) -> None:
    """A member of kafka-python that reads so many records, commits and leaves."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=records,
    )
    read, until = 0, time.monotonic() + 60
    while read < records and time.monotonic() < until:
        read += sum(map(len, consumer.poll(500).values()))
    assert read == records
    consumer.commit()
    consumer.close(autocommit=False)


def aio(broker: LabBroker, group: str, topic: str, records: int) -> None:
    """The same of aiokafka."""

    async def reads() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        read = 0
        while read < records:
            found = await consumer.getmany(timeout_ms=500, max_records=records - read)
            read += sum(map(len, found.values()))
        await consumer.commit()
        await consumer.stop()

    asyncio.run(asyncio.wait_for(reads(), 60))


def java(broker: LabBroker, group: str, topic: str, records: int) -> None:
    """The same of Kafka's own client, in its console consumer, which commits on close."""
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group]
    arguments += ["--from-beginning", "--max-messages", str(records), "--timeout-ms", "60000"]
    run_tool("4.1.1", "ConsoleConsumer", arguments)


FAMILIES = {"kafka-python": kafka_python, "aiokafka": aio, "java": java}


def transacted(broker: LabBroker, group: str, topic: str, offset: int, *, ends: str) -> Producer:
    """Commit an offset in a transaction that is committed, aborted or left open."""
    settings = {"transactional.id": f"tx-{group}", "transaction.timeout.ms": 600_000}
    producer = Producer(config(broker, **settings))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"made", partition=1)
    consumer = Consumer(config(broker, **{"group.id": group}))
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 30
    )
    consumer.close()
    if ends == "commit":
        producer.commit_transaction(30)
    elif ends == "abort":
        producer.abort_transaction(30)
    return producer


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


def monitored(broker: LabBroker) -> Described:
    """What the monitor makes of the offsets topic and of the ends."""
    with ClusterAdmin({"bootstrap.servers": broker.bootstrap}) as admin:
        ends = admin.end_offsets()
    reading = Reading({partition: 0 for partition, end in ends.items() if end}, ends)
    shards: dict[int, ShardCoordinator] = {}
    for batch in read_records({"bootstrap.servers": broker.bootstrap}, reading):
        for row in made_rows(decode_batch(batch)):
            if row.shard not in shards:
                shards[row.shard] = ShardCoordinator(new_shard_state(row.shard, 0, None), SETTINGS, "c")
            shards[row.shard].on_row(row)
    board, now = Board(), time.time_ns() // 1_000_000 + 60_000
    for shard in shards.values():
        for out in shard.on_clock(now):
            if isinstance(out, PositionsOut):
                board.publish(out.group, out.body, now)
    board.want(now)
    properties = {"bootstrap.servers": broker.bootstrap}
    coordinators = CommittedOffsets(properties)
    with OffsetsClient(properties) as client:
        for later in range(4):
            # As if so much time had passed from one round to the next.
            clock = partial(_later, later * TURN_S)
            board.take(Rounds(client, clock, coordinators).sample(board.topics, board.asks), ())
    coordinators.close()
    return {
        (group, topic, one.partition): (one.offset, None if one.end < 0 else one.end, one.records)
        for group, consumed in board.groups.items()
        if consumed.lag is not None
        for topic, told in consumed.lag.topics.items()
        for one in told.partitions
    }


def _later(seconds: float) -> float:
    return time.time() + seconds


SETTINGS = DetectionSettings()
TURN_S = 20.0


def test_lag_equals_kafka_s_own_tool_in_every_situation(broker: LabBroker) -> None:
    topics = [
        NewTopic("orders", 4, 1),
        NewTopic("grown", 1, 1),
        NewTopic("cut", 2, 1),
        NewTopic("gone", 1, 1),
        NewTopic("anew", 2, 1),
        NewTopic("read", 1, 1),
    ]
    compacted = NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"})
    order(broker, lambda client: client.create_topics([*topics, compacted]))
    time.sleep(2)
    produce(broker, "orders", {0: 100, 1: 50, 2: 7})
    produce(broker, "grown", {0: 20})
    produce(broker, "cut", {0: 60, 1: 60})
    produce(broker, "compacted", {0: 30})
    produce(broker, "gone", {0: 5})
    produce(broker, "anew", {0: 30, 1: 30})
    produce(broker, "read", {0: 25})
    for family, reads in FAMILIES.items():
        reads(broker, family, "read", 20)
    commit(broker, "before", {("anew", 0): 25, ("anew", 1): 30})
    classic = member(broker, "classic", ["orders", "compacted"], 120)
    modern = member(broker, "modern", ["grown"], 20, **{"group.protocol": "consumer"})
    left = member(broker, "left", ["orders"], 40)
    left.close()
    commit(broker, "lone", {("orders", 0): 3, ("orders", 3): 0, ("cut", 0): 50, ("gone", 0): 2})
    commit(broker, "lone", {("orders", 0): 33})
    commit(broker, "rewound", {("orders", 0): 90})
    commit(broker, "rewound", {("orders", 0): 10})
    transacted(broker, "transacted", "orders", 21, ends="commit")
    commit(broker, "aborted", {("orders", 0): 12})
    transacted(broker, "aborted", "orders", 42, ends="abort")
    commit(broker, "pending", {("orders", 0): 13})
    still_open = transacted(broker, "pending", "orders", 43, ends="never")
    transacted(broker, "first", "orders", 44, ends="abort")
    # A committed offset that the log's beginning has passed, and one at its end.
    commit(broker, "passed", {("cut", 0): 5, ("cut", 1): 60})
    order(broker, lambda client: client.delete_records([TopicPartition("cut", 0, 40)]))
    order(broker, lambda client: client.create_partitions([NewPartitions("grown", 3)]))
    order(broker, lambda client: client.delete_topics(["gone", "anew"]))
    time.sleep(3)
    # Of the same name, shorter, and with other records.
    order(broker, lambda client: client.create_topics([NewTopic("anew", 2, 1)]))
    time.sleep(2)
    produce(broker, "anew", {0: 8})
    commit(broker, "after", {("anew", 0): 5, ("anew", 1): 0})
    produce(broker, "grown", {0: 4, 2: 3})
    produce(broker, "orders", {0: 11})

    truth, found = described(broker), monitored(broker)
    # A consumer that is not closed before it is collected waits for ever.
    for consumer in (classic, modern):
        consumer.close()
    del still_open
    wanted = {place: value for place, value in truth.items() if value[0] is not None}
    groups = {group for group, _, _ in wanted}
    assert {"classic", "modern", "left", "lone", "rewound", "transacted", "passed", "after"} <= groups
    assert {wanted[family, "read", 0] for family in FAMILIES} == {(20, 25, 5)}
    assert wanted["after", "anew", 0] == (5, 8, 3)
    assert (wanted["aborted", "orders", 0][0], wanted["pending", "orders", 0][0]) == (12, 13)
    assert {place: found.get(place) for place in wanted} == wanted
    # And nothing beside that: what has no committed offset has no lag.
    assert found.keys() - wanted.keys() == set()
