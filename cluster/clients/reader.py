"""Reads the records of the offsets topic, bounded, through confluent-kafka.

All partitions are assigned, no group is joined and nothing is committed: that would write into the topic
being watched. Reads uncommitted, as the coordinator does: with librdkafka's default one open transaction
hides every later record of its partition. Ends at the requested offsets, after a duration, or when it is
stopped. Transaction markers and compacted records are holes in the offsets: the reader does not wait for
them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import chain, filterfalse
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rebalance_monitor.cluster.clients.admin import CLIENT_ID, OFFSETS_TOPIC, ClusterAdmin
from rebalance_monitor.cluster.clients.plain_consumer import PlainConsumer
from rebalance_monitor.cluster.clients.properties import reader_settings
from rebalance_monitor.cluster.clients.trial import cause_of, require_answer
from rebalance_monitor.cluster.errors import AccessDeniedError, BrokerUnreachableError, DependencyError
from rebalance_monitor.cluster.logins.held import has_librdkafka

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from threading import Event

# The Kafka source's own columns.
RECORD_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
    ]
)
BATCH_ROWS = 32_768
BATCH_BYTES = 16 * 1024 * 1024
MESSAGES_A_CALL = 10_000
MESSAGES_AT_ONCE = 2_000
"""So many of the client's messages exist at a time: more of them do not fit the processor's cache."""

POLL_S = 0.2
FLUSH_S = 1.0
STALLED_S = 30.0
LARGEST_BYTES = 100_000_000
"""A record with more is refused. librdkafka unpacks no more of zstd, but any size of gzip and lz4."""
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
FIXED = {
    "group.id": CLIENT_ID,  # the library insists on one; it is never joined and nothing is committed to it
    "isolation.level": "read_uncommitted",
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": "50",
    "queued.max.messages.kbytes": "65536",
    "allow.auto.create.topics": "false",
    "log_level": "0",  # it would write to stderr by itself; what matters comes as an error event
}


class UnpackError(DependencyError):
    """A batch of records cannot be unpacked: it is damaged, or larger than a reader may take.

    `offset`: of its first record, or of the record that is too large; `last`: of the batch's last record.
    """

    def __init__(self, topic: str, partition: int, offset: int, last: int) -> None:
        super().__init__(
            f"The records from offset {offset:,} of partition {partition} of {topic} on cannot be unpacked: "
            f"they are damaged, or have more than 100 MB. `source.skip: {{{partition}: {last}}}` lets "
            "`run` begin a new state behind them, and every other verb read on there."
        )
        self.partition, self.offset, self.last = partition, offset, last


class StalledError(BrokerUnreachableError):
    """Partitions that must still deliver have been silent for too long."""


@dataclass(slots=True)
class Reading:
    """What to read and how far it is: partition -> offset everywhere.

    `start`: the first offsets; `until`: stop before these (None: no end); `duration_s`: stop after this long;
    `stop`: stop when set. `reached` and `leader_epochs` are filled while reading: next offset, last leader
    epoch of a batch (-1 where brokers report none).
    """

    start: Mapping[int, int]
    until: Mapping[int, int] | None = None
    duration_s: float | None = None
    stop: Event | None = None
    reached: dict[int, int] = field(default_factory=dict)
    leader_epochs: dict[int, int] = field(default_factory=dict)
    rows: int = 0

    def open_partitions(self) -> set[int]:
        """Give the partitions that have something to read."""
        if self.until is None:
            return set(self.start)
        return {p for p, first in self.start.items() if first < self.until.get(p, 0)}

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        """Whether everything before `ends` (partition -> offset) has been read, of the partitions read."""
        reached, start = self.reached, self.start
        return all(reached.get(p, start[p]) >= end for p, end in ends.items() if p in start)


def read_records(
    properties: Mapping[str, str], reading: Reading, topic: str = OFFSETS_TOPIC
) -> Iterator[pa.RecordBatch]:
    """Yield batches of RECORD_SCHEMA, in offset order within each partition.

    A batch is cut at 32 768 rows, 16 MiB or 1 s. Blocks while there is nothing to read. Raises
    BrokerUnreachableError when partitions that must still deliver stay silent for 30 s, AccessDeniedError
    without Read on the topic, UnpackError for a batch that cannot be unpacked, ConfigError for properties
    that cannot be mapped.
    """
    require_answer(properties)
    try:
        with RecordReader(properties, reading, topic) as reader:
            yield from reader.batches()
    except StalledError as stalled:
        raise cause_of(properties) or stalled from None


def _consumer(properties: Mapping[str, str], topic: str, settings: Mapping[str, str]) -> Any:  # noqa: ANN401 - the libraries have no types
    from confluent_kafka import Consumer  # noqa: PLC0415 - loads a C library

    if not has_librdkafka(properties):
        return PlainConsumer(properties, topic)
    return Consumer({**reader_settings(properties), **FIXED, **settings})


def behind(firsts: Mapping[int, int], skip: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Return partition -> first offset, but none up to those of `skip` (`source.skip`), nor beyond `ends`.

    A client that is given an offset beyond the end begins at the first record.
    """
    start = {p: max(first, skip.get(p, -1) + 1) for p, first in firsts.items()}
    return {p: max(firsts[p], min(first, ends.get(p, first))) for p, first in start.items()}


def last_of_batch(properties: Mapping[str, str], topic: str, partition: int, offset: int) -> int:
    """Return the last offset of the batch that holds `offset`; `offset` where it is unknown."""
    try:
        with ClusterAdmin(properties, explains=False) as admin:
            found = admin.batch_end(partition, offset, topic)
    except DependencyError:
        return offset
    return offset if found is None else found


_Part = tuple[pa.Array, pa.Array, npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Keys, values, partitions, offsets, and of each record the kind of its time and the time (ms)."""


def _partitions(kind: Any, messages: Sequence[Any]) -> npt.NDArray[np.int32]:  # noqa: ANN401 - the libraries have no types
    return np.fromiter(map(kind.partition, messages), np.int32, len(messages))


def _content(column: pa.Array) -> int:
    """Return how many bytes the values of a binary column have."""
    return int(np.frombuffer(column.buffers()[1], np.int32)[len(column)]) if len(column) else 0


def _tells_of_members(keys: pa.Array) -> bool:
    """Whether one of the keys is of no offset: its version, the first two bytes, is above 1."""
    if not _content(keys):
        return False
    _, places, content = keys.buffers()
    borders, text = np.frombuffer(places, np.int32)[: len(keys) + 1], np.frombuffer(content, np.uint8)
    begins = borders[:-1][np.diff(borders) > 1]
    return bool(((text[begins] > 0) | (text[begins + 1] > 1)).any())


class RecordReader:
    """Takes the messages of a reading as they come, and cuts batches of them; use as a context manager.

    `settings`: of librdkafka, beside those of FIXED. `tells_of_members`: whether a record taken since the
    last batch is of a group or its members, not of an offset. Raises ConfigError for properties that cannot
    be mapped.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        reading: Reading,
        topic: str = OFFSETS_TOPIC,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        self.consumer: Any = _consumer(properties, topic, settings)
        self.topic, self._properties = topic, properties
        self.reading = reading
        self.waiting = reading.open_partitions()
        self._clear()
        self.started = self.flushed = self.progressed = time.monotonic()

    def __enter__(self) -> Self:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        start = self.reading.start
        self.consumer.assign([TopicPartition(self.topic, p, start[p]) for p in sorted(self.waiting)])
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()

    def add(self, start: Mapping[int, int]) -> None:
        """Read these partitions too, from their offsets on."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415 - loads a C library

        self.reading.start = {**self.reading.start, **start}
        self.waiting |= start.keys()
        self.consumer.incremental_assign([TopicPartition(self.topic, p, at) for p, at in start.items()])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the whole reading."""
        while self.waiting and not self._ended():
            self.take(POLL_S)
            if self._is_due():
                yield self.cut()
        if self.rows:
            yield self.cut()

    def _clear(self) -> None:
        """Begin a batch."""
        self._parts: list[_Part] = []
        self.tells_of_members = False
        self.rows = self.bytes = 0
        """How many records were taken since the last batch, and the bytes of their keys and values."""

    def take(self, wait_s: float, messages: int = MESSAGES_A_CALL) -> bool:
        """Take what there is, after `wait_s` at the latest; True where that was as many `messages`.

        Raises AccessDeniedError, DependencyError.
        """
        until = time.monotonic() + wait_s
        while messages > 0:
            asked = min(messages, MESSAGES_AT_ONCE)
            found = self.consumer.consume(asked, max(wait_s, 0.0))
            self._take(found)
            if len(found) < asked:
                return False
            messages, wait_s = messages - asked, until - time.monotonic()
        return True

    @property
    def is_full(self) -> bool:
        """Whether what was taken is as much as a batch may have."""
        return self.rows >= BATCH_ROWS or self.bytes >= BATCH_BYTES

    def _ended(self) -> bool:
        now, reading = time.monotonic(), self.reading
        if reading.stop is not None and reading.stop.is_set():
            return True
        if reading.duration_s is not None and now - self.started >= reading.duration_s:
            return True
        if reading.until is not None and now - self.progressed > STALLED_S:
            raise StalledError(
                f"Partitions {sorted(self.waiting)} of {self.topic} delivered nothing for {STALLED_S:.0f} s.",
                "Check the brokers' health and the permission to read the topic.",
            )
        return False

    def _take(self, messages: Sequence[Any]) -> None:
        if not messages:
            return
        # As in `_add`, a method of the class.
        error = type(messages[0]).error
        failed = list(filter(error, messages))
        if good := list(filterfalse(error, messages)) if failed else messages:
            self._add(good)
        for message in failed:
            self._heed(message)

    def _add(self, messages: Sequence[Any]) -> None:
        reading = self.reading
        self.progressed = time.monotonic()
        # Methods of the class, called from C: these calls are most of what a record costs here.
        kind: Any = type(messages[0])
        partitions = _partitions(kind, messages)
        # They come many of one partition at a time.
        lasts = [messages[place] for place in [*np.flatnonzero(np.diff(partitions)).tolist(), -1]]
        for last in lasts:
            partition, epoch = last.partition(), last.leader_epoch()
            reading.reached[partition] = last.offset() + 1
            reading.leader_epochs[partition] = -1 if epoch is None else epoch
        if (until := reading.until) is not None:
            messages = [
                m for m, p in zip(messages, partitions.tolist(), strict=True) if m.offset() < until[p]
            ]
            partitions = _partitions(kind, messages)
            for last in lasts:
                if last.offset() + 1 >= until[last.partition()]:
                    self._done(last.partition())
        read = len(messages)
        if max(map(len, messages), default=0) > LARGEST_BYTES:
            raise self._refused(next(one for one in messages if len(one) > LARGEST_BYTES))
        keys = pa.array(list(map(kind.key, messages)), pa.binary())
        values = pa.array(list(map(kind.value, messages)), pa.binary())
        offsets = np.fromiter(map(kind.offset, messages), np.int64, read)
        # At once: a million kept pairs would be a million objects.
        pairs = chain.from_iterable(map(kind.timestamp, messages))
        stamps = np.fromiter(pairs, np.int64, 2 * read).reshape(-1, 2)
        self._parts.append((keys, values, partitions, offsets, stamps))
        self.rows += read
        self.bytes += _content(keys) + _content(values)
        self.tells_of_members = self.tells_of_members or _tells_of_members(keys)
        reading.rows += read

    def _refused(self, message: Any) -> UnpackError:  # noqa: ANN401 - the library has no types
        partition, offset = message.partition(), message.offset()
        return UnpackError(
            self.topic, partition, offset, last_of_batch(self._properties, self.topic, partition, offset)
        )

    def _heed(self, message: Any) -> None:  # noqa: ANN401 - the library has no types
        """Act on an event that is no record: an end of partition, or an error that ends the reading."""
        from confluent_kafka import KafkaError  # noqa: PLC0415

        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's public name for it
            partition, until = message.partition(), self.reading.until
            self.reading.reached[partition] = message.offset()
            # A new leader's end lags behind the old one's until its followers have fetched: no end yet.
            if until is not None and message.offset() >= until[partition]:
                self._done(partition)
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise AccessDeniedError(
                f"The topic {self.topic} may not be read.", f"Grant Read on the topic {self.topic}."
            )
        elif error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}:  # noqa: SLF001
            raise DependencyError(
                f"The topic {self.topic} does not exist.", "It appears with the first group."
            )
        elif error.code() in {KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG}:  # noqa: SLF001
            # It would be fetched again and again.
            raise self._refused(message)
        # The rest (a broker away, a group permission that assign does not need) heals or stalls.

    def _done(self, partition: int) -> None:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        if partition in self.waiting:
            self.waiting.discard(partition)
            self.consumer.pause([TopicPartition(self.topic, partition)])

    def _is_due(self) -> bool:
        return bool(self.rows) and (self.is_full or time.monotonic() - self.flushed >= FLUSH_S)

    def cut(self) -> pa.RecordBatch:
        """Return a batch of what was taken since the last one; there must be something."""
        keys, values, partitions, offsets, stamps = zip(*self._parts, strict=True)
        times = np.concatenate(stamps)
        arrays = [
            pa.concat_arrays(keys),
            pa.concat_arrays(values),
            pa.repeat(pa.scalar(self.topic, pa.string()), self.rows),
            pa.array(np.concatenate(partitions)),
            pa.array(np.concatenate(offsets)),
            pa.array(times[:, 1], pa.int64()).cast(RECORD_SCHEMA.field("timestamp").type),
            # The client counts from "none" = 0, the Kafka source from "none" = -1.
            pa.array((times[:, 0] - 1).astype(np.int32), pa.int32()),
        ]
        self.flushed = time.monotonic()
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)
