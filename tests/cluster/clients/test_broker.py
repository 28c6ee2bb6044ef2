"""The edge to Kafka against a real broker: what is asked, what is read, and that nothing is written."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import ConfigResource, KafkaAdminClient
from kafka.protocol.consumer.group import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC, ClusterAdmin
from rebalance_monitor.cluster.clients.ends import log_ends
from rebalance_monitor.cluster.clients.plain_consumer import PlainConsumer
from rebalance_monitor.cluster.clients.reader import RECORD_SCHEMA, Reading, RecordReader, read_records
from rebalance_monitor.cluster.errors import BrokerUnreachableError
from rebalance_monitor.cluster.probe.probe import ProbeThread
from rebalance_monitor.coordinator.probe.sample import RebalancingGroup, from_json, to_json
from rebalance_monitor.decoders import coordinator_partition, decode_record
from rebalance_monitor.decoders.records.classic import OffsetCommitKey
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.workers.flags import Flags
from rebalance_monitor.lab.workers.raw import Wire

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.probe.sample import ProbeSample

pytestmark = pytest.mark.broker
TOPIC = "cluster-tests"
HELD, BEHIND = "in-transaction", "in-transaction-38"


@pytest.fixture(scope="module")
def servers(lab_broker: LabBroker) -> str:
    client = AdminClient({"bootstrap.servers": lab_broker.bootstrap})
    client.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result()
    return lab_broker.bootstrap


@pytest.fixture
def admin(servers: str) -> Iterator[ClusterAdmin]:
    with ClusterAdmin({"bootstrap.servers": servers}) as client:
        yield client


def commit(servers: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(TOPIC, p, offset) for p in range(4)], asynchronous=False)
    consumer.close()


def read_all(servers: str, admin: ClusterAdmin) -> pa.Table:
    reading = Reading(admin.begin_offsets(), admin.end_offsets())
    return pa.Table.from_batches(read_records({"bootstrap.servers": servers}, reading), RECORD_SCHEMA)


def keys_with(table: pa.Table, group: str) -> list[tuple[int, int]]:
    rows = table.select(["key", "partition", "offset"]).to_pylist()
    return [(row["partition"], row["offset"]) for row in rows if group.encode() in row["key"]]


def commits_of(table: pa.Table, group: str) -> list[tuple[str, int]]:
    keys = [decode_record(key, None).key for key in table["key"].to_pylist()]
    found = [key for key in keys if isinstance(key, OffsetCommitKey) and key.group == group]
    return [(key.topic, key.partition) for key in found]


def test_the_cluster_shows_what_the_monitor_needs(admin: ClusterAdmin) -> None:
    topic = admin.topic()
    assert topic is not None
    assert topic.partitions == admin.partition_count() == 50
    assert len(topic.id) == 36
    assert {leader.broker for leader in topic.leaders} == {broker.id for broker in admin.brokers()}
    assert admin.metadata() == (admin.brokers(), topic)
    assert admin.metadata("no-such-topic") == (admin.brokers(), None)
    assert len(admin.cluster_id()) == 22
    assert admin.broker_version().startswith("4.")
    assert admin.offsets_retention_ms() == 7 * 24 * 3600 * 1000
    assert admin.max_message_bytes() == 1_048_588
    timeout = admin.session_timeout_848_ms()
    assert timeout is not None
    assert admin.session_timeout_share_ms() == admin.session_timeout_streams_ms() == timeout
    assert admin.group_session_timeouts() == {}
    assert {"READ", "DESCRIBE"} <= admin.topic_operations()
    assert "DESCRIBE" in admin.cluster_operations()


def test_a_group_with_a_session_timeout_of_its_own_is_reported(servers: str, admin: ClusterAdmin) -> None:
    properties = {"bootstrap.servers": servers, "group.protocol": "consumer"}
    members = [Consumer({**properties, "group.id": f"{name}-timeout"}) for name in ("own", "usual")]
    for member in members:
        member.subscribe([TOPIC])
    deadline = time.monotonic() + 60
    while not all(member.assignment() for member in members) and time.monotonic() < deadline:
        for member in members:
            member.poll(0.1)
    timeout = (admin.session_timeout_848_ms() or 0) + 1_000
    client = KafkaAdminClient(bootstrap_servers=servers)
    client.alter_configs(
        [ConfigResource("GROUP", "own-timeout", {"consumer.session.timeout.ms": str(timeout)})],
        raise_on_unknown=False,
    )
    client.close()
    while not admin.group_session_timeouts() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert admin.group_session_timeouts() == {"own-timeout": timeout}
    for member in members:
        member.close()


NO_SUBSCRIPTION = b"\0\1\0\x1ahttp"
"""What a worker of Kafka Connect says of itself begins like a consumer's subscription, and is none."""


def stable_worker(wire: Wire, group: str) -> str:
    """Join a group as its only member, in the protocol of Kafka Connect, until it is stable; give its id."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="sessioned", metadata=NO_SUBSCRIPTION)
    fields: dict[str, object] = {"group_id": group, "protocol_type": "connect", "protocols": [protocol]}
    fields |= {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "group_instance_id": None}
    known = wire.ask(JoinGroupRequest, JoinGroupResponse, 5, member_id="", **fields).member_id
    joined = wire.ask(JoinGroupRequest, JoinGroupResponse, 5, member_id=known, **fields)
    given = SyncGroupRequest.SyncGroupRequestAssignment(member_id=known, assignment=NO_SUBSCRIPTION)
    fields = {"group_id": group, "generation_id": joined.generation_id, "member_id": known}
    fields |= {"group_instance_id": None, "assignments": [given]}
    assert wire.ask(SyncGroupRequest, SyncGroupResponse, 3, **fields).error_code == 0
    return str(known)


def test_members_are_described_whatever_their_metadata_say(servers: str, admin: ClusterAdmin) -> None:
    wire = Wire(Flags(servers, "of-connect", TOPIC))
    known = stable_worker(wire, "of-connect")
    (broker,) = admin.brokers()
    told = admin.describe_groups(["of-connect"], broker.id)["of-connect"]
    wire.close()
    (member,) = told["members"]
    assert (told["group_state"], member["member_id"]) == ("Stable", known)
    assert member["member_metadata"]


def test_a_topic_that_is_not_there_has_no_partitions(admin: ClusterAdmin) -> None:
    assert admin.topic("never-made") is None
    assert admin.partition_count("never-made") == 0
    assert admin.end_offsets("never-made") == {}


def test_no_broker_is_one_sentence_with_its_address() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1\b") as told:
        ClusterAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_ms=500)
    assert "kafka.bootstrap_servers" in told.value.remedy


def test_reading_delivers_every_record_once_and_writes_nothing(servers: str, admin: ClusterAdmin) -> None:
    for offset in range(20):
        commit(servers, "read-me", offset)
    before = admin.end_offsets()
    table = read_all(servers, admin)
    places = list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert len(keys_with(table, "read-me")) == 80
    assert len(set(places)) == len(places)
    # The lab has no transactions and no compaction yet, so every offset is a record.
    begin = admin.begin_offsets()
    assert set(places) >= {
        (p, o)
        for p, end in before.items()
        for o in range(begin[p], end)
        if p != coordinator_partition(HELD, 50)
    }
    assert set(table["timestampType"].to_pylist()) == {0}
    assert admin.end_offsets() == before
    listed = [g["group_id"] for broker in admin.brokers() for g in admin.list_groups(broker.id)]
    assert "rebalance-monitor" not in listed


def test_reading_from_offsets_begins_there(servers: str, admin: ClusterAdmin) -> None:
    start = admin.end_offsets()
    commit(servers, "later", 1)
    reading = Reading(start, admin.end_offsets())
    table = pa.Table.from_batches(read_records({"bootstrap.servers": servers}, reading), RECORD_SCHEMA)
    assert len(keys_with(table, "later")) == table.num_rows == 4
    (partition,) = set(table["partition"].to_pylist())
    assert reading.reached[partition] == start[partition] + 4
    assert reading.leader_epochs[partition] >= 0


@pytest.mark.parametrize("plain", [False, True], ids=["librdkafka", "kafka-python"])
def test_a_partition_that_is_added_is_read_from_its_offset_and_the_other_goes_on(
    servers: str,
    plain: bool,  # noqa: FBT001 - a case
) -> None:
    properties, topic = {"bootstrap.servers": servers}, f"added-later-{plain}"
    client = AdminClient(dict(properties))
    client.create_topics([NewTopic(topic, 2, 1)])[topic].result()
    producer, reader = Producer(dict(properties)), RecordReader(properties, Reading({0: 1}), topic)
    if plain:
        reader.consumer.close()
        reader.consumer = PlainConsumer(properties, topic)

    def write() -> None:
        for partition in (0, 0, 0, 1, 1, 1):
            producer.produce(topic, b"value", b"key", partition)
        producer.flush()

    def read(records: int) -> list[tuple[int, int]]:
        def is_read() -> bool:
            reader.take(0.2)
            return reader.rows >= records

        assert wait_until(is_read, 60)
        found = reader.cut()
        places = (found.column(name).to_pylist() for name in ("partition", "offset"))
        return sorted(zip(*places, strict=True))

    write()
    with reader:
        assert read(2) == [(0, 1), (0, 2)]
        reader.add({1: 2})
        write()
        assert read(7) == [(0, 3), (0, 4), (0, 5), (1, 2), (1, 3), (1, 4), (1, 5)]


def test_reading_for_a_duration_delivers_what_comes_meanwhile(servers: str, admin: ClusterAdmin) -> None:
    # A busy machine may take seconds for the commit.
    reading = Reading(admin.end_offsets(), duration_s=8.0)
    writer = threading.Timer(0.5, commit, [servers, "meanwhile", 7])
    writer.start()
    began = time.monotonic()
    table = pa.Table.from_batches(read_records({"bootstrap.servers": servers}, reading), RECORD_SCHEMA)
    writer.join()
    assert 7.5 < time.monotonic() - began < 60
    assert len(keys_with(table, "meanwhile")) == 4


def test_an_open_transaction_hides_nothing(servers: str, admin: ClusterAdmin) -> None:
    # Behind an open transaction others of the same partition are hidden from who reads what is committed.
    assert coordinator_partition(HELD, 50) == coordinator_partition(BEHIND, 50)
    group = Consumer({"bootstrap.servers": servers, "group.id": HELD})
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "tx", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    places = [TopicPartition(TOPIC, 0, 5)]
    group.subscribe([TOPIC])
    group.poll(5)
    producer.send_offsets_to_transaction(places, group.consumer_group_metadata(), 30)
    commit(servers, BEHIND, 1)
    table = read_all(servers, admin)
    ends = log_ends({"bootstrap.servers": servers}, OFFSETS_TOPIC).ask(range(50), 60.0)
    written = dict(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    producer.abort_transaction(30)
    group.close()
    assert ends is not None
    assert ends[coordinator_partition(HELD, 50)] == written[coordinator_partition(HELD, 50)] + 1
    assert len(commits_of(table, BEHIND)) == 4
    assert commits_of(table, HELD) == commits_of(read_all(servers, admin), HELD) == [(TOPIC, 0)]


def eventually(look: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if look():
            return True
        time.sleep(0.2)
    return False


def joined(servers: str, group: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "session.timeout.ms": 10_000})
    # With a callback librdkafka rejoins only when the application polls.
    consumer.subscribe([TOPIC], on_revoke=lambda _consumer, _partitions: None)
    return consumer


def test_the_probe_sees_a_rebalance_that_writes_nothing(servers: str, admin: ClusterAdmin) -> None:
    """A member that does not rejoin holds the barrier: the topic is silent, the probe is not."""
    holding = joined(servers, "held")
    assert eventually(lambda: holding.poll(0.1) is None and len(holding.assignment()) == 4)
    coming = joined(servers, "held")
    seen: list[ProbeSample] = []

    def sees_it() -> bool:
        coming.poll(0.1)
        seen.extend(probe.drain())
        return any(
            one.group == "held" and one.state == "PreparingRebalance" for s in seen for one in s.groups
        )

    with ProbeThread({"bootstrap.servers": servers}, 0.5) as probe:
        found = eventually(sees_it)
    holding.close()
    coming.close()
    assert found
    sighting = next(s for s in seen if any(one.group == "held" for one in s.groups))
    assert RebalancingGroup("held", "PreparingRebalance", "classic", "consumer") in sighting.groups
    assert {member[2] for member in sighting.members["held"]} == {"rdkafka"}
    assert sighting.brokers == tuple((broker.id, True) for broker in admin.brokers())
    assert len(sighting.leaders) == admin.partition_count(OFFSETS_TOPIC)
    parsed = from_json(to_json(sighting))
    assert (parsed.at, parsed.leaders, parsed.brokers) == (sighting.at, sighting.leaders, sighting.brokers)
    assert parsed.took == sighting.took > 0
    assert parsed.groups == sighting.groups


@pytest.mark.slow
def test_what_every_broker_knows_is_known_while_the_first_is_dead_and_what_it_alone_has_is_named() -> None:
    """A dead broker is listed until its session ends, and as fenced from then on."""
    with LabBroker(nodes=3) as cluster, ClusterAdmin({"bootstrap.servers": cluster.bootstrap}) as admin:
        first, version = cluster.nodes[0], admin.broker_version()
        places = [[cluster.nodes[1].address.node], [first.address.node]]
        client = AdminClient({"bootstrap.servers": cluster.bootstrap})
        client.create_topics([NewTopic("of-one", 2, replica_assignment=places)])["of-one"].result()
        retention = admin.offsets_retention_ms()
        assert retention is not None

        interrupted: list[BrokerUnreachableError] = []

        def is_fenced() -> bool:
            try:
                assert admin.broker_version() == version
            except BrokerUnreachableError as error:
                interrupted.append(error)
                return False
            return first.address.node not in {one.id for one in admin.brokers()}

        first.kill()
        assert wait_until(is_fenced, 120, 1)
        # The request that was under way as it died.
        assert len(interrupted) <= 1
        assert admin.broker_version() == version
        assert admin.offsets_retention_ms() == retention
        with pytest.raises(
            BrokerUnreachableError, match=r"No broker leads 1 of 2 partitions of of-one: \[1\]"
        ):
            admin.log_ends("of-one")
