"""A Kafka topic: one JSON record per notification, keyed by the group.

The producer is idempotent and waits for all in-sync replicas, so one call writes one record; a call that may
have been made before is written again, with the same `key` header for consumers to drop. Records of one group
stay in order.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from rebalance_monitor.alerts.messages.notification import Sent, SinkError
from rebalance_monitor.alerts.sinks.payload import payload_of
from rebalance_monitor.alerts.sinks.quiet import SILENT, short

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
        self._secrets = dict(secrets or {})
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
        self._producer = self._made()

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Write one record and wait until the brokers have it."""
        try:
            return self._sent(notification, now_ms)
        except _FatalError:
            # Such a producer never writes again, even after the brokers have recovered.
            self.close()
            self._producer = self._made()
            raise

    def _sent(self, notification: Notification, now_ms: int) -> Sent:
        outcome: list[KafkaError | None] = []
        self._write(notification, now_ms, outcome)
        self._producer.flush(self._timeout_s + 1)
        if not outcome:
            self._producer.purge()
            self._producer.flush(1)
            raise SinkError("Kafka did not answer in time")
        if outcome[0] is not None:
            raise _failed(outcome[0])
        return Sent()

    def close(self) -> None:
        """Forget what is still queued and let the connections go."""
        self._producer.purge()
        self._producer.flush(1)

    def _made(self) -> Producer:
        hidden = {name: value.get_secret_value() for name, value in self._secrets.items()}
        try:
            return Producer({**self._properties, **hidden}, logger=SILENT)
        except KafkaException as error:
            raise ValueError(f"the Kafka client: {_said(error.args[0], hidden)}") from None

    def _write(self, notification: Notification, now_ms: int, outcome: list[KafkaError | None]) -> None:
        def told(error: KafkaError | None, _: Any) -> None:  # noqa: ANN401 - the client's record
            outcome.append(error)

        labels = notification.labels
        group = labels.get("group") or labels.get("cluster") or notification.thread
        try:
            self._producer.produce(
                self._topic,
                json.dumps(payload_of(notification, now_ms)).encode(),
                group.encode(errors="backslashreplace"),
                headers={"key": short(notification.key).encode()},
                on_delivery=told,
            )
        except (KafkaException, BufferError) as error:
            first = error.args[0] if error.args else None
            raise (
                _failed(first) if isinstance(first, KafkaError) else SinkError("Kafka's queue is full")
            ) from None


class _FatalError(SinkError):
    pass


def _said(error: KafkaError, hidden: Mapping[str, str]) -> str:
    """Return the client's text, or its code where the text holds a secret."""
    words = str(error.str())
    return error.name() if any(value and value in words for value in hidden.values()) else words


def _failed(error: KafkaError) -> SinkError:
    """Return the error by its code; the client's words may hold addresses and are left out."""
    why = f"Kafka answered {error.name()}"
    if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - as above
        return _FatalError(why, permanent=True)
    return SinkError(why, permanent=error.code() in _PERMANENT)
