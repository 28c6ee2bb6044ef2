"""The reading loop, given what librdkafka gives at moments that no broker shows on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from rebalance_monitor.cluster.clients.reader import Reading, RecordReader

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Message:
    at: int
    failed: KafkaError | None = None

    def __len__(self) -> int:
        return 1

    def error(self) -> KafkaError | None:
        return self.failed

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def timestamp(self) -> tuple[int, int]:
        return (1, 0)

    def leader_epoch(self) -> int:
        return 3


class Consumer:
    """Gives what it was made with, one list a call."""

    def __init__(self, *answers: list[Message]) -> None:
        self.answers = list(answers)

    def consume(self, _number: int, _timeout: float) -> list[Message]:
        return self.answers.pop(0) if self.answers else []

    def pause(self, _partitions: Sequence[object]) -> None:
        """Nothing more comes."""


def eof(at: int) -> Message:
    return Message(at, KafkaError(KafkaError._PARTITION_EOF))


def delivered(consumer: Consumer, reading: Reading) -> list[int]:
    reader = RecordReader({"bootstrap.servers": "localhost:1"}, reading, "t")
    reader.consumer.close()
    reader.consumer = consumer
    return [offset for batch in reader.batches() for offset in batch.column("offset").to_pylist()]


def test_a_new_leaders_early_end_of_partition_is_no_end() -> None:
    """Its high watermark lags behind the old leader's until its followers have fetched."""
    first, rest = [Message(at) for at in range(90, 95)], [Message(at) for at in range(95, 100)]
    consumer = Consumer([*first, eof(95)], rest)
    assert delivered(consumer, Reading({0: 90}, until={0: 100})) == list(range(90, 100))


def test_records_that_compaction_removed_before_the_end_are_not_waited_for() -> None:
    consumer = Consumer([Message(90), Message(93), eof(100)])
    assert delivered(consumer, Reading({0: 90}, until={0: 100})) == [90, 93]
