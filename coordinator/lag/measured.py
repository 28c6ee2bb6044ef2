"""What one sample of ends says of a group: its lag by topic and partition, and the sources of the numbers."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, overload

from rebalance_monitor.coordinator.lag.ends import UNKNOWN
from rebalance_monitor.coordinator.lag.windows import MARKER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TOTALS_KEPT = 120
"""Totals of a group that are remembered: with a sample every 5 s those of ten minutes."""


class Source(StrEnum):
    """Where positions come from: commits on the topic, or the brokers' answers to OffsetFetch."""

    TOPIC = "topic"
    BROKERS = "brokers"


class EndsSource(StrEnum):
    """Where ends come from: the brokers' newest answer, or interpolated between two to an earlier time."""

    BROKERS = "brokers"
    INTERPOLATED = "interpolated"


class PartitionLag(NamedTuple):
    """One partition of a group; `records` and `age_ms` None where they are not known. Times in ms.

    `end`: the high watermark that lag is measured to, interpolated to the time of the positions. `stable`:
    the last stable offset, where an open transaction holds it below that; UNKNOWN elsewhere.
    """

    partition: int
    offset: int
    committed_at: int
    end: int
    records: int | None
    age_ms: int | None
    stable: int = UNKNOWN

    @property
    def stable_records(self) -> int | None:
        """Return how many records wait that a reader of committed ones may read; None as `records`."""
        if self.records is None or self.stable == UNKNOWN:
            return self.records
        return max(0, min(self.records, self.stable - self.offset))

    @property
    def waits_for_transaction(self) -> bool:
        """Whether all that a reader of committed records may read is read: it waits for a transaction."""
        return self.stable != UNKNOWN and 0 <= self.stable - self.offset <= MARKER


@dataclass(frozen=True, slots=True)
class TopicLag:
    """A group's lag on one topic.

    `records`: of the partitions whose lag is known, None where it is of none. `age_ms`: of the oldest waiting
    record. `unknown`: how many partitions have a position and no known lag.
    """

    records: int | None
    age_ms: int | None
    unknown: int
    partitions: tuple[PartitionLag, ...]


class Totals(Sequence[tuple[int, int]]):
    """A group's newest totals, oldest first: time of the sample (ms) and records that waited.

    One thread adds, any may read: times and records alternate in one array, which changes as a whole.
    """

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs = array("q")

    def add(self, at: int, records: int) -> None:
        """Take a total; of too many the oldest go."""
        self._pairs.extend((at, records))
        if len(self._pairs) > 2 * TOTALS_KEPT:
            del self._pairs[:2]

    def every(self, step: int) -> list[int]:
        """Return the newest records, the ones `step` samples before, and so on, oldest first."""
        return self._pairs[::-2][::step].tolist()[::-1]

    def copied(self) -> list[tuple[int, int]]:
        """Return all of them."""
        pairs = self._pairs[:]
        return list(zip(pairs[::2], pairs[1::2], strict=True))

    def __len__(self) -> int:
        return len(self._pairs) // 2

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over a copy."""
        return iter(self.copied())

    @overload
    def __getitem__(self, place: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[int, int]]: ...
    def __getitem__(self, place: int | slice) -> tuple[int, int] | list[tuple[int, int]]:
        """Return the total at a place, or those of a slice."""
        if isinstance(place, slice):
            return self.copied()[place]
        number = range(len(self))[place]
        return self._pairs[2 * number], self._pairs[2 * number + 1]


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group's lag at one sample (`at`, ms): sums and worst of its topics, None where it is of none.

    `as_of`: the time (ms) of which positions and ends are compared. `source`: of the positions. `totals`: the
    group's newest ones, which go on. `asked_at`: when (ms) the brokers were asked for the ends.
    """

    at: int
    records: int | None
    age_ms: int | None
    unknown: int
    topics: Mapping[str, TopicLag]
    as_of: int = -1
    source: Source = Source.TOPIC
    totals: Totals = field(default_factory=Totals, compare=False, repr=False)
    asked_at: int = -1

    @property
    def ends_source(self) -> EndsSource:
        """Return where the ends come from that lag is measured to."""
        return EndsSource.INTERPOLATED if self.as_of < self.asked_at else EndsSource.BROKERS
