"""The reading loop, given what librdkafka gives at moments that no broker shows on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError, UnsupportedCodecError

from rebalance_monitor.cluster.clients.plain_consumer import PlainConsumer
from rebalance_monitor.cluster.clients.reader import (
    LARGEST_BYTES,
    RECORD_SCHEMA,
    Reading,
    RecordReader,
    UnpackError,
    behind,
)
from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Message:
    at: int
    failed: KafkaError | None = None
    named: bytes = b"k"

    def __len__(self) -> int:
        return 1

    def error(self) -> KafkaError | None:
        return self.failed

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.named

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


@pytest.fixture
def batch_end(monkeypatch: pytest.MonkeyPatch) -> int:
    """The end of each batch, which no broker says here."""
    monkeypatch.setattr("rebalance_monitor.cluster.clients.reader.last_of_batch", lambda *_: 9)
    return 9


def packed(size: int) -> Message:
    class Large(Message):
        def __len__(self) -> int:
            return size

    return Large(7)


def test_a_record_beyond_the_bound_is_refused_by_its_place_and_one_within_it_is_read(batch_end: int) -> None:
    consumer = Consumer([packed(LARGEST_BYTES)], [eof(8)])
    assert delivered(consumer, Reading({0: 7}, until={0: 8})) == [7]
    consumer = Consumer([Message(6), packed(LARGEST_BYTES + 1)])
    says = rf"from offset 7 of partition 0 .*`source\.skip: \{{0: {batch_end}\}}`"
    with pytest.raises(UnpackError, match=says):
        delivered(consumer, Reading({0: 6}, until={0: 9}))


@pytest.mark.parametrize("code", [KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG])
@pytest.mark.usefixtures("batch_end")
def test_a_batch_that_librdkafka_would_fetch_for_ever_is_refused_by_its_place(code: int) -> None:
    consumer = Consumer([Message(6)], [Message(7, KafkaError(code))])
    with pytest.raises(UnpackError, match="from offset 7 of partition 0"):
        delivered(consumer, Reading({0: 6}, until={0: 9}))


@pytest.mark.parametrize("error", [UnsupportedCodecError, CorruptRecordError])
def test_what_kafka_python_cannot_unpack_is_an_error_and_no_silence(error: type[Exception]) -> None:
    class Packed:
        def poll(self, **_: object) -> None:
            raise error("Libraries for zstd compression codec not found")

    consumer = PlainConsumer({"bootstrap.servers": "localhost:1"}, "t")
    consumer._consumer = Packed()
    with pytest.raises(DependencyError, match="cannot be unpacked by kafka-python, which logs in here"):
        consumer.consume(1, 0.0)


def test_an_offset_to_skip_moves_no_partition_back_and_none_beyond_its_end() -> None:
    ends = {0: 20, 1: 20, 2: 20, 3: 20, 4: 5}
    assert behind(dict.fromkeys(ends, 5), {0: 9, 1: 2, 3: 400, 4: 5}, ends) == {
        0: 10,
        1: 5,
        2: 5,
        3: 20,
        4: 5,
    }


class Fetched(Message):
    """One of a fetch of several partitions."""

    def __init__(self, where: int, at: int, key: bytes | None, value: bytes | None) -> None:
        super().__init__(at)
        self.where, self.content = where, (key, value)

    def __len__(self) -> int:
        return len(self.content[1] or b"")

    def partition(self) -> int:
        return self.where

    def key(self) -> bytes | None:  # type: ignore[override]
        return self.content[0]

    def value(self) -> bytes | None:  # type: ignore[override]
        return self.content[1]

    def timestamp(self) -> tuple[int, int]:
        return (self.where % 3, 1_000 + self.at)


SOME_BYTES = st.none() | st.binary(max_size=4)
FETCHES = st.lists(
    st.lists(st.builds(Fetched, st.integers(0, 2), st.integers(0, 99), SOME_BYTES, SOME_BYTES))
)


@pytest.fixture(scope="module")
def reader() -> RecordReader:
    """One for all examples: each has threads of librdkafka."""
    found = RecordReader({"bootstrap.servers": "localhost:1"}, Reading({}), "t")
    found.consumer.close()
    return found


@given(FETCHES)
def test_a_batch_has_the_columns_of_its_records_in_the_order_of_the_fetches(
    reader: RecordReader, fetches: list[list[Fetched]]
) -> None:
    reader._clear()
    reader.reading = Reading(dict.fromkeys(range(3), 0))
    reader.consumer = Consumer(*fetches)  # type: ignore[arg-type] # lists of a subclass
    for _ in fetches:
        reader.take(0.0)
    every = [one for some in fetches for one in some]
    assert reader.rows == reader.reading.rows == len(every)
    assert reader.bytes == sum(len(one) + len(one.key() or b"") for one in every)
    assert reader.reading.reached == {one.partition(): one.offset() + 1 for one in every}
    if not every:
        return
    found = reader.cut()
    assert found.schema.equals(RECORD_SCHEMA)
    names = ("key", "value", "partition", "offset", "timestampType")
    assert [tuple(row[name] for name in names) for row in found.to_pylist()] == [
        (one.key(), one.value(), one.partition(), one.offset(), one.timestamp()[0] - 1) for one in every
    ]
    assert found.column("timestamp").cast("int64").to_pylist() == [one.timestamp()[1] for one in every]
    assert reader.rows == reader.bytes == 0
