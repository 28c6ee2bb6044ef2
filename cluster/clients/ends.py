"""Asks the brokers where the partitions of a topic end, many times a second if need be.

librdkafka's ListOffsets by a consumer that reads nothing: for 50 partitions an eighth of a millisecond of CPU
(by its admin client, with a future a partition, five times as much). The answer is the high watermark:
whatever was readable when the brokers were asked lies below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.clients.admin import CLIENT_ID, ClusterAdmin
from rebalance_monitor.cluster.clients.properties import reader_settings
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.logins.held import has_librdkafka

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TIMEOUT_S = 2.0
ASKING = {
    "group.id": CLIENT_ID,  # never joined, as a reader's (reader.py)
    "isolation.level": "read_uncommitted",
    "enable.auto.commit": "false",
    "log_level": "0",
}


class LogEnds:
    """Raises ConfigError for properties that cannot be mapped."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415 - loads a C library

        self._client: Any = Consumer({**reader_settings(properties), **ASKING})
        self._topic = topic
        self._asked: list[Any] = []

    def ask(self, partitions: Collection[int], timeout_s: float = TIMEOUT_S) -> dict[int, int] | None:
        """Return partition -> next offset; None where a leader did not answer in time. Blocks as long."""
        from confluent_kafka import OFFSET_END, KafkaException, TopicPartition  # noqa: PLC0415 - as above

        if len(self._asked) != len(partitions):
            # The same partitions each time: a topic that grows is read by a new reader.
            self._asked = [TopicPartition(self._topic, partition, OFFSET_END) for partition in partitions]
        if not partitions:
            return {}
        # Errors of connections would wait to be taken, ever more of them.
        self._client.poll(0)
        try:
            # To Kafka the end is one of the times to ask for.
            found = self._client.offsets_for_times(self._asked, timeout=timeout_s)
        except KafkaException:
            return None
        ends = {place.partition: place.offset for place in found if not place.error and place.offset >= 0}
        return ends if len(ends) == len(partitions) else None


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
