"""ListOffsets for many partitions at once, over one connection of kafka-python to each leader.

Why not librdkafka: its admin client makes an object and a future for each partition, many times what the
answer costs here (`requests/list_offsets.py`). Neither question ever creates a topic. (The watermarks and
`list_topics(name)` of librdkafka would, as would kafka-python's `end_offsets`.) Nothing here raises but for
properties that cannot be mapped: what a broker refuses is an answer, and so is that none can be reached.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.properties import portable
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.requests.list_offsets import EARLIEST, LATEST, UNREACHED
from rebalance_monitor.cluster.requests.topology import Topic
from rebalance_monitor.coordinator.lag.ends import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

TIMEOUT_S = 4.0
TOPICS_A_REQUEST = 500
LOCAL = "_"
"""Prefix of the client's own errors: it reached no broker."""

NOT_CONNECTED = "_NOT_CONNECTED"
ANEW_S = 15.0
"""A connection that did not reach a leader is made anew, at most so often: the leader may be a new broker."""

UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
GONE = frozenset({UNKNOWN_TOPIC, "UNKNOWN_TOPIC_ID", "INVALID_TOPIC_EXCEPTION"})


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
    """Asks for topics and offsets; connects when first asked. Not for several threads at once.

    `properties` are Kafka client properties by their Java names: ConfigError for those that cannot be mapped.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        portable(properties)
        self._properties, self._timeout_ms, self._clock = properties, round(timeout_s * 1000), clock
        self._admin: ClusterAdmin | None = None
        self._made_at = float("-inf")
        self._missed = self._is_stale = False
        self._known: dict[str, Topic] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next question makes others."""
        if self._admin is not None:
            with suppress(Exception):
                self._admin.close()
        self._admin, self._missed = None, False

    def describe(self, topics: Collection[str]) -> Described:
        """Return which of the topics exist, with how many partitions. Needs Describe on each."""
        if self._missed and self._clock() >= self._made_at + ANEW_S:
            self.close()
        described: dict[str, Topic | str] = {}
        try:
            for names in _chunks(sorted(topics), TOPICS_A_REQUEST):
                described |= self._connected().describe_topics(names)
        except DependencyError:
            self.close()
            described = {name: described.get(name, NOT_CONNECTED) for name in topics}
        self._is_stale = False
        self._known = {name: one for name, one in described.items() if isinstance(one, Topic)}
        wrong = {name: one for name, one in described.items() if isinstance(one, str)}
        return Described(
            {name: (one.partitions, one.id) for name, one in self._known.items()},
            frozenset(name for name, why in wrong.items() if why in GONE),
            {name: why for name, why in wrong.items() if why not in GONE},
        )

    def ends(self, topics: Mapping[str, int], which: Which = Which.LATEST) -> Offsets:
        """Return these offsets of all partitions of topics (name -> partitions).

        Their leaders are looked up first where that was not done, or where the last answer had errors.
        """
        if not topics:
            return Offsets()
        if self._is_stale or not topics.keys() <= self._known.keys():
            self.describe({*self._known, *topics})
        offsets = {name: (UNKNOWN,) * count for name, count in topics.items()}
        known = {name: self._known[name] for name in topics if name in self._known}
        unknown = sum(count for name, count in topics.items() if name not in known)
        errors = {UNKNOWN_TOPIC: unknown} if unknown else {}
        stamp = EARLIEST if which is Which.EARLIEST else LATEST
        try:
            found = self._connected().list_offsets(known, stamp, committed=which is Which.STABLE)
        except DependencyError:
            self.close()
            self._is_stale = True
            return Offsets(offsets, {NOT_CONNECTED: sum(topics.values())})
        self._missed |= UNREACHED in found.errors
        for name, some in found.offsets.items():
            count = topics[name]
            offsets[name] = (*some[:count], *(UNKNOWN,) * (count - len(some)))
        errors |= found.errors
        self._is_stale = bool(errors)
        return Offsets(offsets, errors)

    def _connected(self) -> ClusterAdmin:
        if self._admin is None:
            self._admin = ClusterAdmin(self._properties, self._timeout_ms, explains=False)
            self._made_at = self._clock()
        return self._admin


def reached_nobody(errors: Iterable[str]) -> bool:
    """Whether all these errors are the client's own."""
    return all(why.startswith(LOCAL) for why in errors)


def _chunks(names: list[str], size: int) -> Iterable[list[str]]:
    return (names[at : at + size] for at in range(0, len(names), size))
