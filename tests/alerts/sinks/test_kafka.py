"""The Kafka sink against a real broker."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import certifi
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pydantic import SecretStr

from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.sinks.kafka import KafkaSink
from rebalance_monitor.lab.cluster.node import wait_until
from tests.alerts.sinks.contract import RemoteContract, Trouble
from tests.alerts.sinks.notes import NOW, note
from tests.cluster.support.strangers import BROKER, answers, server
from tests.processes import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import Message

    from rebalance_monitor.alerts.messages.notification import Notification, Sent
    from rebalance_monitor.lab.cluster.broker import LabBroker

PASSWORD = "a-kafka-password"  # noqa: S105 - opens nothing
ELSEWHERE = {"bootstrap.servers": "127.0.0.1:1"}


class Switch:
    """A sink whose next call goes through another one."""

    kind = "kafka"
    name = "topic"
    resend_ms = None

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self.once: KafkaSink | None = None

    def send(self, notification: Notification, now_ms: int) -> Sent:
        if self.once is None:
            return self._sink.send(notification, now_ms)
        with closing(self.once) as broken:
            self.once = None
            return broken.send(notification, now_ms)

    def close(self) -> None:
        self._sink.close()


class KafkaHarness:
    secrets = (PASSWORD,)
    troubles = (Trouble.RETRYABLE, Trouble.PERMANENT, Trouble.SILENCE)

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._servers, self._topic = {"bootstrap.servers": bootstrap}, topic
        self.sink = Switch(KafkaSink("topic", topic, self._servers))

    def received(self) -> list[str]:
        return [(record.value() or b"").decode() for record in _records(self._servers, self._topic)]

    def goes_wrong(self, trouble: Trouble) -> None:
        if trouble is Trouble.PERMANENT:
            self.sink.once = KafkaSink("topic", "no such topic!", self._servers, timeout_s=4)
        else:
            secrets = {"sasl.password": SecretStr(PASSWORD), "sasl.username": SecretStr(PASSWORD)}
            servers = {**ELSEWHERE, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}
            self.sink.once = KafkaSink("topic", self._topic, servers, secrets=secrets, timeout_s=1)


@pytest.fixture
def topic(lab_broker: LabBroker) -> str:
    name = f"alerts-{uuid4().hex[:8]}"
    client = AdminClient({"bootstrap.servers": lab_broker.bootstrap})
    client.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


@pytest.mark.broker
class TestKafka(RemoteContract):
    @pytest.fixture
    def harness(self, lab_broker: LabBroker, topic: str) -> Iterator[KafkaHarness]:
        made = KafkaHarness(lab_broker.bootstrap, topic)
        yield made
        made.sink.close()


@pytest.mark.broker
def test_records_are_keyed_by_the_group_and_carry_the_key_of_the_notification(
    lab_broker: LabBroker, topic: str
) -> None:
    servers = {"bootstrap.servers": lab_broker.bootstrap}
    with closing(KafkaSink("topic", topic, servers)) as sink:
        sink.send(note(), NOW)
        sink.send(note(), NOW)
        sink.send(note(Phase.RESOLVED), NOW)
    first, second, third = _records(servers, topic)
    assert first.key() == b"orders"
    assert first.headers() == second.headers() != third.headers()
    said = json.loads(third.value() or b"")
    assert (said["status"], said["phase"], said["version"]) == ("resolved", "resolved", 1)
    assert said["alerts"][0]["finding"]["kind"] == "storm"


LIBRDKAFKA_S = 300
"""How long librdkafka keeps a message by default."""


def test_a_broker_that_is_not_there_is_retryable_within_the_timeout() -> None:
    began = time.monotonic()
    with closing(KafkaSink("topic", "alerts", ELSEWHERE, timeout_s=1)) as sink:  # noqa: SIM117 - one at a time
        with pytest.raises(SinkError) as raised:
            sink.send(note(), NOW)
    assert not raised.value.permanent
    assert time.monotonic() - began < LIBRDKAFKA_S


def test_a_receiver_connects_to_nothing_before_it_has_something_to_send() -> None:
    asked: list[bytes] = []
    with (
        server(lambda link: asked.append(link.recv(1_024))) as listener,
        closing(KafkaSink("topic", "alerts", {"bootstrap.servers": listener})),
    ):
        time.sleep(0.5)
    assert asked == []


def test_an_answer_that_makes_librdkafka_abort_is_an_error_of_the_receiver() -> None:
    code = (
        "import sys; from rebalance_monitor.alerts.sinks.kafka import KafkaSink, SinkError\n"
        "from tests.alerts.sinks.notes import NOW, note\n"
        "sink = KafkaSink('topic', 'alerts', {'bootstrap.servers': sys.argv[1]}, timeout_s=2)\n"
        "for _ in range(2):\n"
        "    try: sink.send(note(), NOW)\n"
        "    except SinkError as error: print(error.permanent, error.why)\n"
    )
    with server(answers(bytes(16))) as strange:
        done = subprocess.run(
            [sys.executable, "-c", code, strange],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    said = [f"False What answers at {strange} is no Kafka broker"] * 2
    assert (done.returncode, done.stdout.splitlines()) == (0, said), done.stderr[-2_000:]


def test_a_producer_that_failed_for_good_does_not_connect_to_what_answers_there_next() -> None:
    asked: list[bytes] = []
    with server(answers(BROKER)) as quiet:
        sink = KafkaSink("topic", "alerts", {"bootstrap.servers": quiet}, timeout_s=1)
        with pytest.raises(SinkError) as raised:
            sink.send(note(), NOW)
    assert str(raised.value) == "Kafka answered _UNSUPPORTED_FEATURE"
    host, port = quiet.split(":")
    with server(lambda link: asked.append(link.recv(1_024)), (host, int(port))):
        time.sleep(1.5)
    sink.close()
    assert asked == []


def test_a_file_that_is_gone_by_the_time_of_a_notification_is_an_error_of_the_receiver(
    tmp_path: Path,
) -> None:
    authorities = Path(shutil.copy(certifi.where(), tmp_path / "ca.pem"))
    trust = {"security.protocol": "SSL", "ssl.ca.location": str(authorities)}
    with closing(KafkaSink("topic", "alerts", {**ELSEWHERE, **trust}, timeout_s=1)) as sink:
        authorities.unlink()
        with pytest.raises(SinkError, match=r"^the Kafka client: .*ssl\.ca\.location failed"):
            sink.send(note(), NOW)


class Mortal:
    """A producer of which the first one dies: as librdkafka's, it takes nothing any more after that."""

    made: ClassVar[list[Mortal]] = []
    dies_of: ClassVar[KafkaError]

    def __init__(self, config: dict[str, Any], **_: Any) -> None:  # noqa: ANN401 - as the client's own
        # One without servers only judges the values.
        if "bootstrap.servers" in config:
            self.made.append(self)

    def produce(self, *_: Any, on_delivery: Callable[[Any, Any], None], **__: Any) -> None:  # noqa: ANN401 - as above
        if self is not self.made[0]:
            on_delivery(None, None)
        elif self.dies_of.fatal():
            on_delivery(self.dies_of, None)
        else:
            raise KafkaException(self.dies_of)

    def flush(self, _timeout: float) -> int:
        return 0

    def purge(self) -> None:
        pass


@pytest.mark.parametrize(
    "told",
    [
        KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, fatal=True),
        KafkaError(KafkaError._FATAL),
    ],
)
def test_a_right_that_was_missing_and_is_given_by_now_is_used_without_a_restart(
    monkeypatch: pytest.MonkeyPatch, told: KafkaError
) -> None:
    monkeypatch.setattr(Mortal, "made", [])
    monkeypatch.setattr(Mortal, "dies_of", told, raising=False)
    monkeypatch.setattr("rebalance_monitor.alerts.sinks.kafka.Producer", Mortal)
    with closing(KafkaSink("topic", "alerts", ELSEWHERE, timeout_s=1)) as sink:
        with pytest.raises(SinkError, match=told.name()) as raised:
            sink.send(note(), NOW)
        assert raised.value.permanent
        sink.send(note(), NOW)
    assert len(Mortal.made) == 2


@pytest.mark.parametrize("name", ["sasl.pasword", "message.max.bytes"])
def test_a_property_that_kafka_refuses_is_named_without_its_value(name: str) -> None:
    with pytest.raises(ValueError, match="the Kafka client: ") as raised:
        KafkaSink("topic", "alerts", ELSEWHERE, secrets={name: SecretStr(PASSWORD)})
    assert PASSWORD not in str(raised.value)


def _end(consumer: Consumer, topic: str) -> int:
    """Ask until the leader of a topic that was just made has taken it over."""
    ends: list[int] = []

    def asked() -> bool:
        with suppress(KafkaException):
            ends.append(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1])
        return bool(ends)

    assert wait_until(asked, 60)
    return ends[0]


def _records(servers: dict[str, str], topic: str) -> list[Message]:
    consumer = Consumer({**servers, "group.id": f"read-{uuid4().hex[:8]}", "enable.auto.commit": False})
    try:
        end = _end(consumer, topic)
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer.consume(end, timeout=60) if end else []
    finally:
        consumer.close()
