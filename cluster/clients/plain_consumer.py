"""kafka-python's consumer in the shape of librdkafka's, for logins that librdkafka does not have.

Only what the record reader uses: assigned partitions, raw bytes, an event where a partition has been read to
its end. It joins no group, commits nothing and reads uncommitted records. Slower by far: some 20 000 records
a second of one core.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.clients.properties import admin_arguments
from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FETCHED_BYTES = 1_048_576
ARGUMENTS: dict[str, Any] = {
    "group_id": None,
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "isolation_level": "read_uncommitted",
    "max_partition_fetch_bytes": FETCHED_BYTES,
    "fetch_max_wait_ms": 100,
    "allow_auto_create_topics": False,
}


@dataclass(frozen=True, slots=True)
class Message:
    """One record, or the error that stands in its place, with the methods of librdkafka's messages."""

    record: Any
    failure: Failure | None = None

    def __len__(self) -> int:
        """Give the bytes of the value."""
        return len(self.record.value or b"")

    def error(self) -> Failure | None:
        """Give what is wrong, None for a record."""
        return self.failure

    def key(self) -> bytes | None:
        """Give the key."""
        return self.record.key  # type: ignore[no-any-return]  # the library has no types

    def value(self) -> bytes | None:
        """Give the value."""
        return self.record.value  # type: ignore[no-any-return]  # as above

    def partition(self) -> int:
        """Give the partition."""
        return int(self.record.partition)

    def offset(self) -> int:
        """Give the offset; of an end, the next one."""
        return int(self.record.offset)

    def timestamp(self) -> tuple[int, int]:
        """Give the kind (librdkafka counts from "none" = 0) and the time (ms)."""
        return (self.record.timestamp_type or 0) + 1, self.record.timestamp

    def leader_epoch(self) -> int | None:
        """Give the epoch of the leader that wrote it."""
        return int(self.record.leader_epoch)


@dataclass(frozen=True, slots=True)
class Failure:
    """librdkafka's number of an error."""

    number: int

    def code(self) -> int:
        """Give the number."""
        return self.number


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an event that is no record."""

    partition: int
    offset: int


class PlainConsumer:
    """Connects when it is first read from. While no broker answers there is nothing to read.

    Raises ConfigError as `admin_arguments`.
    """

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        self._topic, self._arguments = topic, _fitting(admin_arguments(properties))
        self._consumer: Any = None
        self._places: list[Any] = []
        # Partition -> the last end that the broker returned.
        self._reported: dict[int, int] = {}

    def assign(self, places: Sequence[Any]) -> None:
        """Read these partitions from their offsets."""
        self._places = list(places)

    def incremental_assign(self, places: Sequence[Any]) -> None:
        """Read these partitions too."""
        self._places += places
        if self._consumer is not None:
            # Those that are read stay where they are.
            self._consumer.assign([self._partition(place.partition) for place in self._places])
            self._seek(places)

    def _connect(self) -> None:
        """Connect. Raises KafkaError, OSError."""
        from kafka import KafkaConsumer  # noqa: PLC0415 - slow to import

        self._consumer = KafkaConsumer(**self._arguments, **ARGUMENTS)
        self._consumer.assign([self._partition(place.partition) for place in self._places])
        self._seek(self._places)

    def _seek(self, places: Sequence[Any]) -> None:
        for place in places:
            self._consumer.seek(self._partition(place.partition), place.offset)

    def pause(self, places: Sequence[Any]) -> None:
        """Read these no more."""
        self._consumer.pause(*(self._partition(place.partition) for place in places))

    def consume(self, messages: int, wait_s: float) -> list[Message]:
        """Return what there is, after `wait_s` at the latest. Raises DependencyError."""
        from confluent_kafka import KafkaError  # noqa: PLC0415 - loads a C library
        from kafka.errors import (  # noqa: PLC0415 - as above
            CorruptRecordError,
            TopicAuthorizationFailedError,
            UnsupportedCodecError,
        )
        from kafka.errors import KafkaError as PlainError  # noqa: PLC0415 - slow to import

        try:
            if self._consumer is None:
                self._connect()
            found = self._consumer.poll(timeout_ms=max(1, round(wait_s * 1000)), max_records=messages)
        except TopicAuthorizationFailedError:
            return [Message(Place(-1, -1), Failure(KafkaError.TOPIC_AUTHORIZATION_FAILED))]
        except (UnsupportedCodecError, CorruptRecordError) as error:
            # It would be fetched again and again.
            raise DependencyError(
                f"Records of {self._topic} cannot be unpacked by kafka-python, which logs in here: {error}.",
                "Where `offsets.topic.compression.codec` of the brokers is 2, 3 or 4, install python-snappy, "
                "lz4 or zstandard.",
            ) from error
        except (PlainError, OSError):
            # Unreachable brokers come back, or the caller that waits for the ends of the topic reports them.
            time.sleep(wait_s)
            return []
        taken = [Message(record) for records in found.values() for record in records]
        ends = Failure(KafkaError._PARTITION_EOF)  # noqa: SLF001 - the library's public name for it
        return taken + [Message(place, ends) for place in self._ends()]

    def close(self) -> None:
        """Close the connections."""
        if self._consumer is not None:
            self._consumer.close()

    def _ends(self) -> list[Place]:
        """Return the partitions that are newly read to their end, markers of transactions included."""
        found = []
        for partition in self._consumer.assignment() - self._consumer.paused():
            number, end = partition.partition, self._consumer.highwater(partition)
            if end is None or self._reported.get(number) == end:
                continue
            if self._consumer.position(partition) >= end:
                self._reported[number] = end
                found.append(Place(number, end))
        return found

    def _partition(self, number: int) -> Any:  # noqa: ANN401 - the library has no types
        from kafka import TopicPartition  # noqa: PLC0415 - as above

        return TopicPartition(self._topic, number)


def _fitting(arguments: Mapping[str, Any]) -> dict[str, Any]:
    servers = str(arguments["bootstrap_servers"]).split(",")
    return {**arguments, "bootstrap_servers": [server.strip() for server in servers]}
