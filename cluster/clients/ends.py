"""Asks the brokers where the partitions of a topic end, many times a second if need be.

librdkafka's ListOffsets in C: for 50 partitions half a millisecond of CPU. The answer is the high watermark:
whatever was readable when the brokers were asked lies below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.properties import reader_settings
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.logins.held import has_librdkafka

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TIMEOUT_S = 2.0


class LogEnds:
    """Raises ConfigError for properties that cannot be mapped."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - loads a C library

        self._client: Any = AdminClient({**reader_settings(properties), "log_level": "0"})
        self._topic = topic
        self._asked: dict[Any, Any] = {}

    def ask(self, partitions: Collection[int], timeout_s: float = TIMEOUT_S) -> dict[int, int] | None:
        """Return partition -> next offset; None where a leader did not answer in time. Blocks as long."""
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415 - as above
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

        if len(self._asked) != len(partitions):
            # The same partitions each time: a topic that grows is read by a new reader.
            latest = OffsetSpec.latest()
            self._asked = {TopicPartition(self._topic, partition): latest for partition in partitions}
        if not partitions:
            return {}
        try:
            found = self._client.list_offsets(self._asked, request_timeout=timeout_s)
            return {place.partition: answer.result(timeout_s).offset for place, answer in found.items()}
        except (KafkaException, TimeoutError):
            return None


class PlainLogEnds:
    """The same by kafka-python, for logins that librdkafka does not have; connects when first asked."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        self._properties, self._topic = properties, topic
        self._admin: ClusterAdmin | None = None

    def ask(self, partitions: Collection[int], timeout_s: float = TIMEOUT_S) -> dict[int, int] | None:
        """Return partition -> next offset; None where a leader did not answer in time. Blocks as long."""
        wanted = set(partitions)
        try:
            if self._admin is None:
                self._admin = ClusterAdmin(self._properties, round(timeout_s * 1000), explains=False)
            found = self._admin.end_offsets(self._topic) if wanted else {}
        except DependencyError:
            self._close()
            return None
        return {p: found[p] for p in wanted} if wanted <= found.keys() else None

    def _close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def log_ends(properties: Mapping[str, str], topic: str) -> LogEnds | PlainLogEnds:
    """Return the client that can log in with these properties. Raises ConfigError."""
    return (LogEnds if has_librdkafka(properties) else PlainLogEnds)(properties, topic)
