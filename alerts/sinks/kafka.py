"""A Kafka topic: one JSON record per notification, keyed by the group.

The producer is idempotent and waits for all in-sync replicas, so one call writes one record; a call that may
have been made before is written again, with the same `key` header for consumers to drop. Records of one group
stay in order. librdkafka believes what answers, and some answers abort its process, the job: so the servers
are asked before a producer is given them, and the addresses that they advertise; one whose servers do not
answer is given up.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from rebalance_monitor.alerts.messages.notification import Sent, SinkError
from rebalance_monitor.alerts.sinks.payload import payload_of
from rebalance_monitor.alerts.sinks.quiet import SILENT, short
from rebalance_monitor.cluster.clients.servers import require_brokers
from rebalance_monitor.cluster.clients.trial import require_named
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

    from rebalance_monitor.alerts.messages.notification import Notification

_PERMANENT = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the name that the client gives its own codes
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
}
_UNANSWERED = {KafkaError._MSG_TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}  # noqa: SLF001 - as above
_SERVERS = "bootstrap.servers"


class KafkaSink:
    """Writes to one topic; `properties` are client properties, `secrets` are added to them."""

    kind = "kafka"
    resend_ms = None

    def __init__(
        self,
        name: str,
        topic: str,
        properties: Mapping[str, str],
        *,
        secrets: Mapping[str, SecretStr] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self.name = name
        self._topic = topic
        self._timeout_s = timeout_s
        self._given = dict(properties)
        self._properties = {
            # What a broker takes by default; the client's own limit is a twentieth lower.
            "message.max.bytes": 1_048_588,
            **properties,
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": round(timeout_s * 1000),
            # Without this a missing topic and a broker that does not answer are the same error.
            "topic.metadata.propagation.max.ms": round(timeout_s * 500),
        }
        self._secrets = dict(secrets or {})
        self._producer: Producer | None = None
        # The library judges all values. A client that knows a server connects to it at once.
        self._made({name: value for name, value in self._properties.items() if name != _SERVERS})

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Write one record and wait until the brokers have it."""
        try:
            return self._sent(self._connected(), notification, now_ms)
        except _SpentError:
            self.close()
            raise

    def _connected(self) -> Producer:
        if self._producer is None:
            stripped = (one.strip() for one in self._given.get(_SERVERS, "").split(","))
            servers = [one for one in stripped if one]
            given = {**self._given, **self._shown(), _SERVERS: ",".join(servers)}
            try:
                if require_brokers(servers, given):
                    # Of properties that kafka-python lacks the servers alone are asked.
                    with suppress(ConfigError):
                        require_named(given)
                self._producer = self._made(self._properties)
            except DependencyError as error:
                raise SinkError(error.what.rstrip(".")) from None
            except ValueError as error:
                # A file of certificates that was there at the start.
                raise SinkError(str(error)) from None
        return self._producer

    def _sent(self, producer: Producer, notification: Notification, now_ms: int) -> Sent:
        outcome: list[KafkaError | None] = []
        self._write(producer, notification, now_ms, outcome)
        try:
            producer.flush(self._timeout_s + 1)
        except (KafkaException, SystemError) as error:
            raise _raised(error) from None
        if not outcome:
            raise _SpentError("Kafka did not answer in time")
        if outcome[0] is not None:
            raise _failed(outcome[0])
        return Sent()

    def close(self) -> None:
        """Forget what is still queued and let the connections go."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            with suppress(KafkaException, SystemError):
                producer.flush(1)

    def _made(self, properties: Mapping[str, Any]) -> Producer:
        hidden = self._shown()
        try:
            return Producer({**properties, **hidden}, logger=SILENT)
        except KafkaException as error:
            raise ValueError(f"the Kafka client: {_said(error.args[0], hidden)}") from None

    def _shown(self) -> dict[str, str]:
        return {name: value.get_secret_value() for name, value in self._secrets.items()}

    def _write(
        self, producer: Producer, notification: Notification, now_ms: int, outcome: list[KafkaError | None]
    ) -> None:
        def on_delivery(error: KafkaError | None, _: Any) -> None:  # noqa: ANN401 - the client's record
            outcome.append(error)

        labels = notification.labels
        group = labels.get("group") or labels.get("cluster") or notification.thread
        try:
            producer.produce(
                self._topic,
                json.dumps(payload_of(notification, now_ms)).encode(),
                group.encode(errors="backslashreplace"),
                headers={"key": short(notification.key).encode()},
                on_delivery=on_delivery,
            )
        except (KafkaException, BufferError) as error:
            first = error.args[0] if error.args else None
            raise (
                _failed(first) if isinstance(first, KafkaError) else SinkError("Kafka's queue is full")
            ) from None


class _SpentError(SinkError):
    """Its producer is given up: it never writes again, or connects to whatever answers there next."""


def _said(error: KafkaError, hidden: Mapping[str, str]) -> str:
    """Return the client's text, or its code where the text holds a secret."""
    words = str(error.str())
    return error.name() if any(value and value in words for value in hidden.values()) else words


def _raised(error: Exception) -> SinkError:
    """Return what `flush` raised: an error that no producer survives, in a callback of ours a SystemError."""
    cause = error if isinstance(error, KafkaException) else error.__cause__
    first = cause.args[0] if cause is not None and cause.args else None
    return _failed(first) if isinstance(first, KafkaError) else _SpentError("Kafka's client failed")


def _failed(error: KafkaError) -> SinkError:
    """Return the error by its code; the client's words may hold addresses and are left out."""
    why = f"Kafka answered {error.name()}"
    if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - as above
        return _SpentError(why, permanent=True)
    if error.code() in _UNANSWERED:
        return _SpentError(why)
    return SinkError(why, permanent=error.code() in _PERMANENT)
