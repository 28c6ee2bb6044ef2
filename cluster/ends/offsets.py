"""ListOffsets for many partitions at once, through confluent-kafka's admin client.

Why this client and this call: librdkafka asks each leader once for all of its partitions, and returns one
outcome for each partition. Its consumer's `offsets_for_times` is cheaper by a half and fails whole where one
leader has moved. Neither `describe_topics` nor `list_offsets` ever creates a topic: both ask for metadata
with `allow_auto_topic_creation` off. (The consumer's watermarks and `list_topics(name)` would, as would
kafka-python's `end_offsets`.) Nothing here raises: what a broker refuses is an answer too.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from rebalance_monitor.cluster.clients.admin import CLIENT_ID
from rebalance_monitor.cluster.clients.properties import reader_settings
from rebalance_monitor.coordinator.lag.ends import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

TIMEOUT_S = 4.0
TOPICS_A_REQUEST = 500
LOCAL = "_"
"""Prefix of the client's own errors: it reached no broker."""

NO_ANSWER = "_NO_ANSWER"

FIXED = {
    "client.id": CLIENT_ID,
    "allow.auto.create.topics": "false",
    "log_level": "0",  # it would write to stderr by itself; what matters comes as an outcome
}
_LOG = logging.getLogger("rebalance_monitor.ends.librdkafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


class Which(StrEnum):
    """Which offset of a partition is asked for.

    LATEST: the high watermark, as in Kafka's own tool. STABLE: the last stable offset, before which every
    transaction has ended; a consumer of committed records reads no further.
    """

    LATEST = "latest"
    EARLIEST = "earliest"
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class Described:
    """Topic -> (partitions, topic id); topics that do not exist; topic -> why it is unknown."""

    topics: dict[str, tuple[int, str]] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Offsets:
    """Topic -> offset of each partition, UNKNOWN where it failed; and how often which error came."""

    offsets: dict[str, tuple[int, ...]] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


class OffsetsClient:
    """One connection to the cluster; use as a context manager. Not for several threads at once.

    `properties` are Kafka client properties by their Java names: ConfigError for those that cannot be mapped.
    """

    def __init__(self, properties: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._settings = {**reader_settings(properties), **FIXED}
        self._connect()

    def _connect(self) -> None:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - loads a C library

        self._admin: Any = AdminClient(self._settings, logger=_LOG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections up; the library does so with its object."""
        self._admin = None

    def describe(self, topics: Collection[str]) -> Described:
        """Return which of the topics exist, with how many partitions. Needs Describe on each."""
        from confluent_kafka import TopicCollection  # noqa: PLC0415

        found: dict[str, tuple[int, str]] = {}
        gone: set[str] = set()
        refused: dict[str, str] = {}
        for names in _chunks(sorted(topics), TOPICS_A_REQUEST):
            asked = self._admin.describe_topics(TopicCollection(names), request_timeout=self._timeout_s)
            for name, future in asked.items():
                try:
                    description = future.result()
                except Exception as error:  # noqa: BLE001 - whatever the library raises is this topic's outcome
                    if _name_of(error) in _NO_TOPIC:
                        gone.add(name)
                    else:
                        refused[name] = _name_of(error)
                else:
                    found[name] = len(description.partitions), _id_of(description)
        if not (found or gone):
            self._connect_if_away(refused.values())
        return Described(found, frozenset(gone), refused)

    def ends(self, topics: Mapping[str, int], which: Which = Which.LATEST) -> Offsets:
        """Return these offsets of all partitions of topics (name -> partitions)."""
        from confluent_kafka import IsolationLevel, TopicPartition  # noqa: PLC0415
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

        spec = OffsetSpec.earliest() if which is Which.EARLIEST else OffsetSpec.latest()
        isolation = (
            IsolationLevel.READ_COMMITTED if which is Which.STABLE else IsolationLevel.READ_UNCOMMITTED
        )
        wanted = {TopicPartition(name, p): spec for name, count in topics.items() for p in range(count)}
        if not wanted:
            return Offsets()
        found = {name: [UNKNOWN] * count for name, count in topics.items()}
        errors: dict[str, int] = {}
        asked = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=self._timeout_s)
        for place, future in asked.items():
            try:
                offset = future.result().offset
            except Exception as error:  # noqa: BLE001 - whatever the library raises is this partition's outcome
                why = _name_of(error)
            else:
                if offset >= 0:
                    found[place.topic][place.partition] = offset
                    continue
                # Of a leader that did not answer librdkafka returns its own -1001, and no error.
                why = NO_ANSWER
            errors[why] = errors.get(why, 0) + 1
        if sum(errors.values()) == len(wanted):
            self._connect_if_away(errors)
        return Offsets({name: tuple(offsets) for name, offsets in found.items()}, errors)

    def _connect_if_away(self, errors: Collection[str]) -> None:
        """Begin with a new client where no broker has answered.

        librdkafka's admin client may go on to wait for a broker that is gone, while others would answer.
        """
        if errors and reached_nobody(errors):
            self._connect()


def reached_nobody(errors: Iterable[str]) -> bool:
    """Whether all these errors are the client's own."""
    return all(why.startswith(LOCAL) for why in errors)


_NO_TOPIC = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_ID", "TOPIC_EXCEPTION"})


def _name_of(error: Exception) -> str:
    """Return Kafka's name of the error, else the exception's own."""
    found = error.args[0] if error.args else None
    name = getattr(found, "name", None)
    return str(name()) if callable(name) else type(error).__name__


def _id_of(description: Any) -> str:  # noqa: ANN401 - the library has no types
    return "" if description.topic_id is None else str(description.topic_id)


def _chunks(names: list[str], size: int) -> Iterable[list[str]]:
    return (names[at : at + size] for at in range(0, len(names), size))
