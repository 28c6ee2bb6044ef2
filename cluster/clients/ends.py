"""Asks the brokers where the partitions of a topic end, many times a second if need be.

librdkafka's ListOffsets by a consumer that reads nothing: for 50 partitions an eighth of a millisecond of CPU
(by its admin client, with a future a partition, five times as much). The answer is the high watermark:
whatever was readable when the brokers were asked lies below it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.clients.admin import CLIENT_ID, ClusterAdmin
from rebalance_monitor.cluster.clients.properties import reader_settings
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.logins.held import has_librdkafka

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TIMEOUT_S, AGAIN_S = 2.0, 2.0
NO_LEADER = -1
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
        self._unled: set[int] = set()
        self._again_at = 0.0

    def ask(self, partitions: Collection[int], timeout_s: float = TIMEOUT_S) -> dict[int, int] | None:
        """Return partition -> next offset of those whose leader answered in time; None where none did.

        Blocks as long. The client waits for the leaders of all that are asked for, so partitions whose leader
        did not answer are left out for a while, and for as long as they have none.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 - as above

        if self._unled and time.monotonic() >= self._again_at:
            self._unled &= set(self._by_leader(timeout_s).get(NO_LEADER, ()))
            self._again_at = time.monotonic() + AGAIN_S
        # Errors of connections would wait to be taken, ever more of them.
        self._client.poll(0)
        wanted = set(partitions) - self._unled
        try:
            found = self._ends(wanted, timeout_s)
        except KafkaException:
            found = self._ends_of_each(wanted, timeout_s)
            self._unled = (self._unled | wanted) - found.keys() if found else set()
            self._again_at = time.monotonic() + AGAIN_S
        return found if found or not partitions else None

    def _ends(self, wanted: Collection[int], timeout_s: float) -> dict[int, int]:
        from confluent_kafka import OFFSET_END, TopicPartition  # noqa: PLC0415 - as above

        if not wanted:
            return {}
        if {place.partition for place in self._asked} != wanted:
            self._asked = [TopicPartition(self._topic, partition, OFFSET_END) for partition in sorted(wanted)]
        # To Kafka the end is one of the times to ask for.
        found = self._client.offsets_for_times(self._asked, timeout=timeout_s)
        return {place.partition: place.offset for place in found if not place.error and place.offset >= 0}

    def _ends_of_each(self, wanted: set[int], timeout_s: float) -> dict[int, int]:
        """Ask one leader after the other."""
        from confluent_kafka import KafkaException  # noqa: PLC0415 - as above

        found: dict[int, int] = {}
        led = self._by_leader(timeout_s)
        led.pop(NO_LEADER, None)
        for partitions in led.values():
            with suppress(KafkaException):
                found |= self._ends(wanted & partitions, timeout_s)
        return found

    def _by_leader(self, timeout_s: float) -> dict[int, set[int]]:
        """Return leader -> its partitions; nothing where no broker answers."""
        from confluent_kafka import KafkaException  # noqa: PLC0415 - as above

        led: defaultdict[int, set[int]] = defaultdict(set)
        with suppress(KafkaException):
            topic = self._client.list_topics(self._topic, timeout=timeout_s).topics[self._topic]
            for number, one in topic.partitions.items():
                led[one.leader].add(number)
        return led


class PlainLogEnds:
    """The same by kafka-python, for logins that librdkafka does not have; connects when first asked."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        self._properties, self._topic = properties, topic
        self._admin: ClusterAdmin | None = None

    def ask(self, partitions: Collection[int], timeout_s: float = TIMEOUT_S) -> dict[int, int] | None:
        """Return partition -> next offset of those with a leader; None where one did not answer in time.

        None too where none has one. Blocks as long.
        """
        wanted = set(partitions)
        try:
            if self._admin is None:
                self._admin = ClusterAdmin(self._properties, round(timeout_s * 1000), explains=False)
            found = self._admin.log_ends(self._topic, partly=True) if wanted else {}
        except DependencyError:
            self._close()
            return None
        ends = {p: found[p][0] for p in wanted if p in found}
        return ends if ends or not wanted else None

    def _close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def log_ends(properties: Mapping[str, str], topic: str) -> LogEnds | PlainLogEnds:
    """Return the client that can log in with these properties. Raises ConfigError."""
    return (LogEnds if has_librdkafka(properties) else PlainLogEnds)(properties, topic)
