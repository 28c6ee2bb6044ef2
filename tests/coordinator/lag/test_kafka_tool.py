"""The lag of a real broker's groups is what Kafka's own tool says: kafka-consumer-groups --describe."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic
from kafka import KafkaConsumer

from rebalance_monitor.cluster.ends.committed_offsets import CommittedOffsets
from rebalance_monitor.cluster.ends.ends import Rounds
from rebalance_monitor.cluster.ends.offsets import OffsetsClient
from rebalance_monitor.coordinator.findings.outputs import PositionsOut
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.scenario.processes import WorkerProcess
from rebalance_monitor.lab.workers.families import FAMILIES as FAMILIES_OF_LAB
from rebalance_monitor.lab.workers.families import why_not
from rebalance_monitor.lab.workers.flags import Flags, typed
from tests.coordinator.lag.real import (
    Coordinators,
    Described,
    as_known,
    commit,
    config,
    create,
    delete,
    described,
    lags_of,
    order,
    produce,
)
from tests.oracle.formatters import run_tool

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker() -> Iterator[LabBroker]:
    with LabBroker() as started:
        yield started


def member(broker: LabBroker, group: str, topics: list[str], records: int, **more: object) -> Consumer:
    """A member that has read so many records, committed them, and stays."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **more}
    consumer = Consumer(config(broker, **settings))
    consumer.subscribe(topics)
    read, until = 0, time.monotonic() + 180
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
    read, until = 0, time.monotonic() + 180
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

    asyncio.run(asyncio.wait_for(reads(), 180))


def java(broker: LabBroker, group: str, topic: str, records: int) -> None:
    """The same of Kafka's own client, in its console consumer, which commits on close."""
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group]
    arguments += ["--from-beginning", "--max-messages", str(records), "--timeout-ms", "180000"]
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


def held_up(broker: LabBroker, topic: str, records: int) -> Producer:
    """Leave a transaction open with so many records in the first partition."""
    settings = {"transactional.id": f"held-{topic}", "transaction.timeout.ms": 600_000}
    producer = Producer(config(broker, **settings))
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(records):
        producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0
    return producer


def read_committed(broker: LabBroker, topic: str, partition: int) -> int:
    """Where a consumer of committed records comes to the end of a partition."""
    settings = {"group.id": "none", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer(config(broker, **settings, **{"enable.auto.commit": False}))
    consumer.assign([TopicPartition(topic, partition, 0)])
    until = time.monotonic() + 180
    while time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is not None and message.error() is not None:
            consumer.close()
            return int(message.offset())
    raise TimeoutError(topic)


def workers(broker: LabBroker, topic: str, records: int, folder: Path) -> None:
    """Members of Go and Node, each in a group of its own, that read so many records and leave."""
    wanted, built = TopicPartition(topic, 0), [FAMILIES_OF_LAB[name] for name in BUILT]
    assert [why for family in built if (why := why_not(family, (4, 1, 1)))] == []
    made = [
        WorkerProcess(
            family.name,
            family,
            Flags(
                broker.bootstrap,
                family.name,
                topic,
                client_id=family.name,
                commit_ms=500,
                **typed(family.flags),
            ),
            folder,
        )
        for family in built
    ]
    readers = {one.name: Consumer(config(broker, **{"group.id": one.name})) for one in built}
    until = time.monotonic() + 240
    offsets: dict[str, int] = {}
    while set(offsets.values()) != {records} and time.monotonic() < until:
        time.sleep(0.5)
        offsets = {name: one.committed([wanted], 10)[0].offset for name, one in readers.items()}
    for reader in readers.values():
        reader.close()
    for one in made:
        one.finish()
    assert offsets == dict.fromkeys(BUILT, records)


def monitored(broker: LabBroker) -> tuple[Described, dict[tuple[str, int], int]]:
    """What the monitor makes of the offsets topic and of the ends; and its last stable offsets."""
    board, shards = Board(), Coordinators(broker.bootstrap)
    now = time.time_ns() // 1_000_000 + 60_000
    for out in shards.read(now):
        if isinstance(out, PositionsOut):
            board.publish(out.group, out.held, now)
    board.want(now)
    properties = {"bootstrap.servers": broker.bootstrap}
    coordinators = CommittedOffsets(properties)
    with OffsetsClient(properties) as client:
        for later in range(4):
            # As if so much time had passed from one round to the next.
            clock = partial(_later, later * TURN_S)
            board.take(Rounds(client, clock, coordinators).sample(board.topics, board.asks), ())
    coordinators.close()
    stable = {
        ("held", one.partition): one.stable
        for consumed in board.groups.values()
        if consumed.lag is not None and "held" in consumed.lag.topics
        for one in consumed.lag.topics["held"].partitions
        if one.stable >= 0
    }
    return lags_of(board), stable


def _later(seconds: float) -> float:
    return time.time() + seconds


TURN_S = 20.0
BUILT = ("sarama", "franz-go", "kafka-go", "kafkajs")
"""Families whose workers a toolchain builds."""

SITUATIONS: dict[str, set[str]] = {
    "of members, by the classic and the consumer protocol": {"classic", "modern"},
    "of added partitions": {"modern"},
    "of a group whose member left": {"left"},
    "of a group that only commits": {"lone", "rewound"},
    "of commits in transactions that were committed, aborted or are open": {
        "transacted",
        "aborted",
        "pending",
    },
    "of an input with an open transaction": {"behind"},
    "of a log that was cut before and behind the committed offset": {"passed", "beyond"},
    "of a topic made anew": {"after"},
}


class Compared(NamedTuple):
    """What Kafka's tool and the monitor say at the same moment; `stable`: last stable offsets, by both."""

    truth: Described
    found: Described
    stable: tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]


@pytest.fixture(scope="module")
def compared(broker: LabBroker) -> Compared:
    topics = [
        NewTopic("orders", 4, 1),
        NewTopic("grown", 1, 1),
        NewTopic("cut", 2, 1),
        NewTopic("gone", 1, 1),
        NewTopic("anew", 2, 1),
        NewTopic("held", 2, 1),
    ]
    compacted = NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"})
    create(broker, *topics, compacted)
    produce(broker, "orders", {0: 100, 1: 50, 2: 7})
    produce(broker, "grown", {0: 20})
    produce(broker, "cut", {0: 60, 1: 60})
    produce(broker, "compacted", {0: 30})
    produce(broker, "gone", {0: 5})
    produce(broker, "anew", {0: 30, 1: 30})
    produce(broker, "held", {0: 12, 1: 3})
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
    holds = held_up(broker, "held", 9)
    produce(broker, "held", {0: 4})
    commit(broker, "behind", {("held", 0): 10, ("held", 1): 3})
    # A committed offset that the log's beginning has passed, one at its end, and one beyond it.
    commit(broker, "passed", {("cut", 0): 5, ("cut", 1): 60})
    commit(broker, "beyond", {("cut", 0): 75, ("cut", 1): 61})
    order(broker, lambda client: client.delete_records([TopicPartition("cut", 0, 40)]))
    order(broker, lambda client: client.create_partitions([NewPartitions("grown", 3)]))
    delete(broker, "gone", "anew")
    # Of the same name, shorter, and with other records.
    create(broker, NewTopic("anew", 2, 1))
    produce(broker, "anew", {0: 8})
    commit(broker, "after", {("anew", 0): 5, ("anew", 1): 0})
    produce(broker, "grown", {0: 4, 2: 3})
    produce(broker, "orders", {0: 11})

    truth, (found, stable) = described(broker), monitored(broker)
    read = {("held", partition): read_committed(broker, "held", partition) for partition in range(2)}
    # A consumer that is not closed before it is collected waits for ever.
    for consumer in (classic, modern):
        consumer.close()
    del still_open, holds
    return Compared(truth, found, (read, stable))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_lag_equals_kafka_s_own_tool(situation: str, compared: Compared) -> None:
    wanted = {place: value for place, value in compared.truth.items() if place[0] in SITUATIONS[situation]}
    assert {group for group, _, _ in wanted} == SITUATIONS[situation]
    told = as_known(wanted)
    assert {place: compared.found.get(place) for place in told} == told


def test_every_committed_offset_is_compared_and_none_differs(compared: Compared) -> None:
    """Prints what stands in docs/measurements/lag.md, with `-s`."""
    told = as_known(compared.truth)
    seen = set[tuple[str, str, int]]()
    for situation, groups in SITUATIONS.items():
        places = {place for place in told if place[0] in groups}
        differing = [place for place in places if compared.found.get(place) != told[place]]
        print(f"| {situation.removeprefix('of ')} | {len(places)} | {len(differing)} |")  # noqa: T201 - for the page
        assert differing == []
        seen |= places
    assert seen == told.keys()


def test_a_pending_or_aborted_commit_is_no_position(compared: Compared) -> None:
    assert [compared.found[name, "orders", 0][0] for name in ("aborted", "pending")] == [12, 13]


def test_lag_stable_ends_where_a_consumer_of_committed_records_does(compared: Compared) -> None:
    read, found = compared.stable
    assert read == {("held", 0): 12, ("held", 1): 3}
    assert found == {place: end for place, end in read.items() if place == ("held", 0)}


def test_what_has_no_committed_offset_has_no_lag(compared: Compared) -> None:
    wanted = {place for place, value in compared.truth.items() if value[0] is not None}
    assert compared.found.keys() == wanted
    assert {group for group, _, _ in wanted} == set().union(*SITUATIONS.values())


def test_lag_equals_kafka_s_own_tool_whatever_client_committed(tmp_path: Path) -> None:
    """On a broker of its own: what one client cannot do in time is no fault of the others' lag."""
    with LabBroker() as broker:
        create(broker, NewTopic("read", 1, 1))
        produce(broker, "read", {0: 20})
        for family, reads in FAMILIES.items():
            reads(broker, family, "read", 20)
        workers(broker, "read", 20, tmp_path)
        produce(broker, "read", {0: 5})
        wanted = as_known(described(broker))
        assert {group for group, _, _ in wanted} == {*FAMILIES, *BUILT}
        assert set(wanted.values()) == {(20, 25, 5)}
        assert monitored(broker)[0] == wanted
