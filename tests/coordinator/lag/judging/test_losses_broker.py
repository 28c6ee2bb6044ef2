"""Losses on a real broker: what retention, DeleteRecords and topics made anew do to committed offsets."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from rebalance_monitor.cluster.ends.offsets import OffsetsClient, Which
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.coordinator.lag.real import Monitor, commit, config, create, delete, order, produce

pytestmark = [pytest.mark.broker, pytest.mark.slow]
SETTINGS = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
TOPICS = ("at", "below", "beyond", "marked", "emptied", "anew", "resets")
SEGMENT = 1_048_576
STANDS = 45
"""Committed offset of the group that retention passes."""


@pytest.fixture(scope="module")
def broker() -> Iterator[LabBroker]:
    with LabBroker(settings=SETTINGS) as started:
        yield started


def cut(broker: LabBroker, topic: str, before: int) -> None:
    order(broker, lambda client: client.delete_records([TopicPartition(topic, 0, before)]))


def expire(broker: LabBroker, topic: str) -> None:
    """Let the broker's own retention delete all that a topic holds."""
    kept = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[kept])
    order(broker, lambda client: client.incremental_alter_configs([changed]))
    with OffsetsClient({"bootstrap.servers": broker.bootstrap}) as client:

        def is_empty() -> bool:
            first, last = (
                client.ends({topic: 1}, which).offsets[topic] for which in (Which.EARLIEST, Which.LATEST)
            )
            return first == last

        assert wait_until(is_empty, 180, 0.5)


def in_transaction(broker: LabBroker, topic: str, records: int) -> None:
    """Produce records in one transaction: its marker takes the offset behind them."""
    producer = Producer(config(broker, **{"transactional.id": topic}))
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(records):
        producer.produce(topic, b"x", partition=0)
    producer.commit_transaction(30)


def read(consumer: Consumer, records: int) -> None:
    """Read so many records and commit the position behind the last one."""
    until, last = time.monotonic() + 180, None
    while records and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            records, last = records - 1, message
    assert last is not None
    consumer.commit(message=last, asynchronous=False)


@pytest.fixture(scope="module")
def found(broker: LabBroker) -> Callable[[str], list[Finding]]:
    create(broker, *(NewTopic(name, 1, 1) for name in TOPICS))
    for topic in ("at", "below", "beyond", "emptied", "anew"):
        produce(broker, topic, {0: 100})
    for _ in range(30):
        # Batches of their own, of which the member fetches one at a time.
        produce(broker, "resets", {0: 100})
    in_transaction(broker, "marked", 100)
    commit(broker, "at", {("at", 0): 60})
    commit(broker, "below", {("below", 0): 30})
    commit(broker, "beyond", {("beyond", 0): 60})
    commit(broker, "emptied", {("emptied", 0): 40})
    commit(broker, "anew", {("anew", 0): 90})
    # As a client commits that adds one to the last record that it was given.
    commit(broker, "marked", {("marked", 0): 100})
    live = Consumer(
        config(
            broker,
            **{"group.id": "resets", "auto.offset.reset": "earliest"},
            **{
                "enable.auto.commit": False,
                "fetch.message.max.bytes": 1_000,
                "queued.min.messages": 1,
            },
        )
    )
    live.subscribe(["resets"])
    monitor = Monitor(broker.bootstrap)
    for before in (20, 35, 50):
        read(live, 10)
        commit(broker, "below", {("below", 0): before + 15})
        cut(broker, "below", before)
        monitor.look()
    cut(broker, "at", 60)
    cut(broker, "beyond", 75)
    cut(broker, "resets", 2_000)
    expire(broker, "marked")
    expire(broker, "emptied")
    delete(broker, "anew")
    create(broker, NewTopic("anew", 1, 1))
    produce(broker, "anew", {0: 8})
    commit(broker, "anew", {("anew", 0): 5})
    until = time.monotonic() + 180
    while _position(live) < 2_000:
        assert time.monotonic() < until
    for _ in range(3):
        monitor.look()
    live.close()

    def of(group: str) -> list[Finding]:
        return [one for one in monitor.found if one.group == group]

    return of


def _position(consumer: Consumer) -> int:
    """Read on, and return the position that is committed then."""
    message = consumer.poll(0.5)
    if message is None or message.error() is not None:
        return -1
    consumer.commit(message=message, asynchronous=False)
    return int(message.offset())


@pytest.mark.parametrize("group", ["at", "below", "marked", "anew"])
def test_nothing_is_lost_where_all_that_went_had_been_read(
    group: str, found: Callable[[str], list[Finding]]
) -> None:
    """DeleteRecords at or below the committed offset; a transaction's marker; a topic made anew, shorter."""
    assert found(group) == []


@pytest.mark.parametrize(("group", "records"), [("beyond", 15), ("emptied", 60)])
def test_what_was_deleted_beyond_the_committed_offset_is_lost(
    group: str, records: int, found: Callable[[str], list[Finding]]
) -> None:
    (told,) = found(group)
    assert (told.kind, told.details["records"]) == (Kind.RECORDS_LOST, records)


def test_a_live_member_that_jumps_over_deleted_records_has_lost_them(
    found: Callable[[str], list[Finding]],
) -> None:
    (told,) = [one for one in found("resets") if one.kind is Kind.RECORDS_LOST]
    assert 1_000 < int(told.details["records"]) <= 1_970
    # By then it had committed beyond the first offset that is left.
    assert int(told.details["committed_offset"]) > int(told.details["earliest_offset"])


@pytest.fixture(scope="module")
def sized(broker: LabBroker) -> dict[str, list[Finding]]:
    """Retention by size: four segments of ten records are kept; one group reads on, one stands still."""
    kept = {"segment.bytes": str(SEGMENT), "retention.bytes": str(4 * SEGMENT), "retention.ms": "-1"}
    kept["file.delete.delay.ms"] = "0"
    create(broker, NewTopic("sized", 1, 1, config=kept))
    monitor, producer, end = Monitor(broker.bootstrap), Producer(config(broker)), 0
    with OffsetsClient({"bootstrap.servers": broker.bootstrap}) as client:

        def first() -> int:
            return client.ends({"sized": 1}, Which.EARLIEST).offsets["sized"][0]

        until = time.monotonic() + 300
        while first() <= STANDS + 20 and time.monotonic() < until:
            before = first()
            for _ in range(12):
                producer.produce("sized", bytes(SEGMENT // 11), partition=0)
            assert producer.flush(30) == 0
            end += 12
            if end == 48:
                commit(broker, "stands", {("sized", 0): STANDS})
            commit(broker, "reads", {("sized", 0): end - 8})
            # From five whole segments on the broker deletes one each time, when it next looks.
            wait_until(lambda was=before: first() > was, 60 if end >= 60 else 0, 0.2)
            monitor.look()
    return {
        group: [one for one in monitor.found if one.group == group and one.kind is not Kind.FALLING_BEHIND]
        for group in ("stands", "reads")
    }


def test_retention_by_size_is_announced_before_it_passes_a_group_that_stands_still(
    sized: dict[str, list[Finding]],
) -> None:
    expiring = [one for one in sized["stands"] if one.kind is Kind.RECORDS_EXPIRING]
    lost = [one for one in sized["stands"] if one.kind is Kind.RECORDS_LOST]
    assert expiring[0].phase == "opened"
    assert 0 < int(expiring[0].details["left_ms"]) < 3_600_000
    assert expiring[0].at < lost[0].at
    for one in lost:
        assert int(one.details["records"]) == int(one.details["earliest_offset"]) - STANDS


def test_retention_by_size_says_nothing_of_a_group_that_reads_on(sized: dict[str, list[Finding]]) -> None:
    assert sized["reads"] == []
