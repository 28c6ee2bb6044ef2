"""The ends of topics, asked of real brokers: never creating one, and never an answer that nobody gave."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from itertools import count

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.cluster.ends.ends import FOLLOWED, MANY, EndsThread, Rounds, every_s, missing
from rebalance_monitor.cluster.ends.offsets import Described, Offsets, OffsetsClient, Which
from rebalance_monitor.coordinator.lag import ends
from rebalance_monitor.coordinator.lag.ends import UNKNOWN, EndsSample
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until

BROKER = pytest.mark.broker


@pytest.fixture(scope="module")
def creating() -> Iterator[LabBroker]:
    """A broker that creates every topic that somebody asks for carelessly."""
    with LabBroker(settings={"auto.create.topics.enable": "true"}) as broker:
        yield broker


def admin(broker: LabBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": "0"})


def order(broker: LabBroker, call: Callable[[AdminClient], Mapping[str, Future[None]]]) -> None:
    """Let the admin client live until what was ordered is done."""
    client = admin(broker)
    for future in call(client).values():
        future.result()


def topics_of(broker: LabBroker) -> set[str]:
    return set(admin(broker).list_topics(timeout=10).topics)


def make(broker: LabBroker, topic: str, partitions: int = 2) -> None:
    order(broker, lambda client: client.create_topics([NewTopic(topic, partitions, 1)]))


def fill(broker: LabBroker, topic: str, partition: int, records: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": "0"})
    for number in range(records):
        producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(20) == 0


def a_minute_a_look() -> Callable[[], float]:
    """A clock (s) by which each sample asks anew which topics exist: brokers learn it in the background."""
    minutes = count(start=0, step=61)
    return lambda: float(next(minutes))


def until(rounds: Rounds, topics: Collection[str], holds: Callable[[EndsSample], bool]) -> EndsSample:
    """Take samples until one shows what must come true; leaders are elected in the background."""
    for _ in range(60):
        sample = rounds.sample(topics)
        if holds(sample):
            return sample
        time.sleep(0.25)
    pytest.fail(f"still {sample}")


@BROKER
def test_no_request_for_a_deleted_topic_with_committed_offsets_creates_it(creating: LabBroker) -> None:
    make(creating, "deleted")
    fill(creating, "deleted", 0, 3)
    settings = {"bootstrap.servers": creating.bootstrap, "group.id": "left", "log_level": "0"}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("deleted", 0, 3)], asynchronous=False)
    consumer.close()
    order(creating, lambda client: client.delete_topics(["deleted"]))
    with OffsetsClient({"bootstrap.servers": creating.bootstrap}) as client:
        rounds = Rounds(client, a_minute_a_look())
        gone = until(rounds, {"deleted"}, lambda sample: sample.gone == {"deleted"})
        assert (gone.latest, gone.partial) == ({}, "")
        # Even where it is believed to exist still.
        lost = client.ends({"deleted": 2})
        assert lost.offsets == {"deleted": (UNKNOWN, UNKNOWN)}
        assert sum(lost.errors.values()) == 2
    assert "deleted" not in topics_of(creating)
    # The control: this broker does create what is asked for by name.
    admin(creating).list_topics("careless", timeout=10)
    assert wait_until(lambda: "careless" in topics_of(creating), 30)


@BROKER
def test_ends_follow_topics_that_grow_go_and_are_made_anew(creating: LabBroker) -> None:
    make(creating, "moving")
    fill(creating, "moving", 1, 5)
    with OffsetsClient({"bootstrap.servers": creating.bootstrap}) as client:
        rounds = Rounds(client, a_minute_a_look())
        first = until(rounds, {"moving"}, lambda sample: sample.latest.get("moving") == (0, 5))
        assert first.earliest["moving"] == (0, 0)
        order(creating, lambda client: client.create_partitions([NewPartitions("moving", 3)]))
        grown = until(rounds, {"moving"}, lambda sample: sample.latest.get("moving") == (0, 5, 0))
        order(creating, lambda client: client.delete_topics(["moving"]))
        until(rounds, {"moving"}, lambda sample: sample.gone == {"moving"})
        make(creating, "moving", 1)
        anew = until(rounds, {"moving"}, lambda sample: sample.latest.get("moving") == (0,))
    assert grown.ids["moving"] == first.ids["moving"] != anew.ids["moving"]


@BROKER
def test_a_stable_offset_below_the_end_is_reported_while_a_transaction_is_open_and_no_longer(
    lab_broker: LabBroker,
) -> None:
    make(lab_broker, "in-transaction")
    fill(lab_broker, "in-transaction", 0, 3)
    producer = Producer(
        {"bootstrap.servers": lab_broker.bootstrap, "transactional.id": "t", "log_level": "0"}
    )
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(2):
        producer.produce("in-transaction", b"x", partition=0)
    assert producer.flush(20) == 0
    with OffsetsClient({"bootstrap.servers": lab_broker.bootstrap}) as client:
        rounds = Rounds(client, a_minute_a_look())
        sample = until(rounds, {"in-transaction"}, lambda one: one.end("in-transaction", 0) == 5)
        assert sample.last_stable("in-transaction", 0) == 3
        assert sample.last_stable("in-transaction", 1) == UNKNOWN
        producer.commit_transaction()
        until(rounds, {"in-transaction"}, lambda one: not one.stable)


@BROKER
def test_the_thread_asks_for_what_is_wanted(lab_broker: LabBroker) -> None:
    make(lab_broker, "wanted-ends", 1)
    with EndsThread({"bootstrap.servers": lab_broker.bootstrap}, lambda: {"wanted-ends"}, 0.1) as thread:
        for _ in range(100):
            found = [one for one in thread.drain() if one.end("wanted-ends", 0) == 0]
            if found:
                break
            time.sleep(0.1)
    assert found
    assert found[0].begin("wanted-ends", 0) in {0, UNKNOWN}
    assert found[0].end("wanted-ends", 1) == found[0].end("other", 0) == UNKNOWN


@BROKER
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_leader_that_does_not_answer_leaves_its_ends_unknown_and_is_said() -> None:
    """librdkafka has an offset of its own for that, -1001, beside errors: it is no end that went back."""
    with LabBroker(nodes=2) as broker:
        first, second = broker.nodes
        replicas = [[first.address.node], [second.address.node]]
        order(broker, lambda a: a.create_topics([NewTopic("split", 2, replica_assignment=replicas)]))
        answers: list[Offsets] = []

        def asked(*, known: bool) -> bool:
            answers.append(client.ends({"split": 2}))
            return (answers[-1].offsets["split"][1] != UNKNOWN) == known

        servers = {"bootstrap.servers": f"127.0.0.1:{first.address.port}"}
        with OffsetsClient(servers, timeout_s=1.0) as client:
            assert wait_until(lambda: asked(known=True), 60, 0.2)
            second.pause()
            assert wait_until(lambda: asked(known=False), 60, 0.2)
            for _ in range(3):
                asked(known=False)
            second.kill()
            for _ in range(3):
                asked(known=False)
    for one in answers:
        found = one.offsets["split"]
        assert set(found) <= {0, UNKNOWN}
        assert sum(one.errors.values()) == found.count(UNKNOWN)


def test_a_capture_that_holds_what_librdkafka_returns_without_an_answer_has_no_such_end() -> None:
    """As one was recorded while the brokers were starved."""
    line = (
        '{"asked_at":1,"at":2,"latest":{"t":[-1001,11]},"earliest":{"t":[0,-1001]},"stable":{"t":[-1001,9]}}'
    )
    sample = ends.from_json(line)
    assert (sample.end("t", 0), sample.end("t", 1)) == (UNKNOWN, 11)
    assert (sample.begin("t", 0), sample.begin("t", 1)) == (0, UNKNOWN)
    assert (sample.last_stable("t", 0), sample.last_stable("t", 1)) == (UNKNOWN, 9)


def test_brokers_that_are_away_are_said_and_never_zero() -> None:
    with OffsetsClient({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.5) as client:
        sample = Rounds(client).sample({"there"})
    assert (sample.latest, sample.gone) == ({}, frozenset())
    assert "there" in sample.partial
    assert sample.is_away


class Answering:
    """A client whose answers are given; counts what is asked."""

    def __init__(self, described: Described, offsets: Offsets) -> None:
        self.described, self.offsets = described, offsets
        self.asked: list[str] = []

    def describe(self, topics: Collection[str]) -> Described:  # noqa: ARG002 - as the client
        self.asked.append("describe")
        return self.described

    def ends(self, topics: Mapping[str, int], which: Which = Which.LATEST) -> Offsets:  # noqa: ARG002 - as above
        self.asked.append(which)
        return self.offsets


def test_earliest_offsets_and_topics_are_asked_for_once_a_minute_only() -> None:
    client, clock = Answering(Described({"t": (1, "id")}), Offsets({"t": (7,)})), [0.0]
    rounds = Rounds(client, lambda: clock[0])
    for _ in range(24):
        rounds.sample({"t"})
        clock[0] += 5
    assert client.asked.count("latest") == 24
    assert client.asked.count("earliest") == client.asked.count("describe") == 2


def test_a_failure_of_some_partitions_leaves_the_others_and_is_said() -> None:
    client = Answering(Described({"t": (2, "")}, refused={"u": "TOPIC_AUTHORIZATION_FAILED"}), Offsets())
    client.offsets = Offsets({"t": (7, UNKNOWN)}, {"NOT_LEADER_FOR_PARTITION": 1})
    sample = Rounds(client).sample({"t", "u"})
    assert (sample.end("t", 0), sample.end("t", 1), sample.end("u", 0)) == (7, UNKNOWN, UNKNOWN)
    assert "u (TOPIC_AUTHORIZATION_FAILED)" in sample.partial
    assert "1 NOT_LEADER_FOR_PARTITION" in sample.partial
    assert missing({}, {}, {}) == ""


@given(st.floats(0.5, 60), st.integers(0, 1_000_000), st.integers(0, 10_000_000))
def test_rounds_cost_no_more_partitions_a_second_than_at_the_limit(
    interval_s: float, count: int, followed: int
) -> None:
    found = every_s(interval_s, count, followed)
    assert count / found <= MANY / interval_s * (1 + 1e-9)
    assert followed / found <= FOLLOWED / interval_s * (1 + 1e-9)
    assert found >= interval_s
    assert every_s(interval_s, min(count, MANY), min(followed, FOLLOWED)) == interval_s
