"""What one sample of ends says of a group: its lag by topic and partition, and the sources of the numbers.

Partitions are kept packed, and unpacked when a caller reads them: most never are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, overload

from rebalance_monitor.coordinator.lag.arithmetic import most, records, total
from rebalance_monitor.coordinator.lag.ends import UNKNOWN
from rebalance_monitor.coordinator.lag.windows import MARKER
from rebalance_monitor.decoders.layouts.twins import quickly_made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.lag.packed.layout import Numbers
    from rebalance_monitor.coordinator.lag.packed.places import Packed

TOTALS_KEPT = 120
"""Totals of a group that are remembered: with a sample every 5 s those of ten minutes."""

_CUT = 2**32
NO_AGE = _CUT - 1
"""In place of an age that nobody knows; ages are cut below it, at 49 days."""


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


class Compared:
    """What one sample gave for many partitions, of which a group's begin at a place of their own.

    `ends`: what lag is measured to (64 bits each). `aged` gives the ages of the oldest waiting records (ms),
    which are worked out when a caller reads them: of each partition (32 bits, `NO_AGE` where no one knows),
    and the most of each group (UNKNOWN). Any thread may read.
    """

    __slots__ = ("_aged", "_worked_out", "ends", "sample")

    def __init__(
        self, sample: EndsSample, ends: bytes, aged: Callable[[], tuple[bytes, Sequence[int]]]
    ) -> None:
        self.sample, self.ends = sample, ends
        self._aged = aged
        self._worked_out: tuple[bytes, Sequence[int]] | None = None

    @property
    def ages(self) -> bytes:
        """Return the age of each partition."""
        return self._read()[0]

    def oldest(self, place: int) -> int:
        """Return the age of the oldest record that waits for a group."""
        return self._read()[1][place]

    def _read(self) -> tuple[bytes, Sequence[int]]:
        if self._worked_out is None:
            self._worked_out = self._aged()
        return self._worked_out


class Partitions(Sequence[PartitionLag]):
    """The partitions of one topic as a sample found them; immutable, so any thread may read them.

    `packed`: the positions of the group at the sample, of which this topic's begin at `start`; `numbers`: its
    partitions. `compared`: the sample, in which the group's begin at `first`. `stable`: last stable offsets
    by partition, () where none is held up.
    """

    __slots__ = ("_compared", "_first", "_numbers", "_packed", "_stable", "_start")

    def __init__(
        self,
        packed: Packed,
        start: int,
        numbers: Numbers,
        compared: Compared,
        first: int,
        stable: Sequence[int] = (),
    ) -> None:
        self._packed, self._start, self._numbers = packed, start, numbers
        self._compared, self._first, self._stable = compared, first + start, stable

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> PartitionLag: ...
    @overload
    def __getitem__(self, place: slice) -> list[PartitionLag]: ...
    def __getitem__(self, place: int | slice) -> PartitionLag | list[PartitionLag]:
        """Return the partition at a place, or the partitions of a slice."""
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        number = range(len(self))[place]
        partition, compared = self._numbers[number], self._compared
        offset, at = self._packed.at(self._start + number)
        end = memoryview(compared.ends).cast("q")[self._first + number]
        age = memoryview(compared.ages).cast("I")[self._first + number]
        stable = self._stable[partition] if 0 <= partition < len(self._stable) else UNKNOWN
        waiting = records(offset, at, end, compared.sample.asked_at)
        return PartitionLag(partition, offset, at, end, waiting, None if age == NO_AGE else age, stable)

    def summed(self) -> TopicLag:
        """Return what they are together. A scrape asks for every topic of every group: none is unpacked."""
        count, compared = len(self), self._compared
        places = self._packed.values(self._start, count)
        ends = memoryview(compared.ends).cast("q")[self._first : self._first + count]
        ages = memoryview(compared.ages).cast("I")[self._first : self._first + count]
        asked_at = compared.sample.asked_at
        offsets = places[::2]
        waits = [
            records(offset, at, end, asked_at)
            for offset, at, end in zip(offsets, places[1::2], ends, strict=True)
        ]
        oldest = most([None if age == NO_AGE else age for age in ages])
        return TopicLag(total(waits), oldest, waits.count(None), sum(offsets), self)


@dataclass(frozen=True, slots=True)
class TopicLag:
    """A group's lag on one topic.

    `records`: of the partitions whose lag is known, None where it is of none. `age_ms`: of the oldest waiting
    record. `unknown`: how many partitions have a position and no known lag. `offsets`: the sum of the
    committed ones. `partitions`: in their order.
    """

    records: int | None
    age_ms: int | None
    unknown: int
    offsets: int
    partitions: Sequence[PartitionLag]

    def of(self, partition: int) -> PartitionLag | None:
        """Return a partition's lag, None where the group has no position of it."""
        place = bisect_left(self.partitions, partition, key=_number)
        found = self.partitions[place] if place < len(self.partitions) else None
        return found if found is not None and found.partition == partition else None


class Totals(Sequence[tuple[int, int]]):
    """A group's newest totals, oldest first: time of the sample (ms) and records that waited.

    One thread adds, any may read: times since the oldest and records alternate in one array, of four bytes
    each as long as they fit.
    """

    __slots__ = ("_held",)

    def __init__(self, totals: Iterable[tuple[int, int]] = ()) -> None:
        self._held = (0, array("I"))
        for at, waiting in totals:
            self.add(at, waiting)

    def add(self, at: int, waiting: int) -> None:
        """Take a total; of too many the oldest go."""
        since, pairs = self._held
        if not pairs or not (0 <= at - since < _CUT and (waiting < _CUT or pairs.typecode == "q")):
            kept = [*self.copied(), (at, waiting)]
            since = kept[0][0]
            fits = all(0 <= when - since < _CUT and one < _CUT for when, one in kept)
            numbers = (number for when, one in kept for number in (when - since, one))
            pairs = array("I" if fits else "q", numbers)
        else:
            pairs.extend((at - since, waiting))
        if len(pairs) > 2 * TOTALS_KEPT:
            del pairs[:2]
        self._held = since, pairs

    def every(self, step: int) -> list[int]:
        """Return the newest records, the ones `step` samples before, and so on, oldest first."""
        return self._held[1][::-2][::step].tolist()[::-1]

    def copied(self) -> list[tuple[int, int]]:
        """Return all of them."""
        since, held = self._held
        pairs = held[:]
        return [(since + at, waiting) for at, waiting in zip(pairs[::2], pairs[1::2], strict=True)]

    def __len__(self) -> int:
        return len(self._held[1]) // 2

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over a copy."""
        return iter(self.copied())

    @overload
    def __getitem__(self, place: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[int, int]]: ...
    def __getitem__(self, place: int | slice) -> tuple[int, int] | list[tuple[int, int]]:
        """Return the total at a place, or the totals of a slice."""
        if isinstance(place, slice):
            return self.copied()[place]
        since, pairs = self._held
        number = range(len(pairs) // 2)[place]
        return since + pairs[2 * number], pairs[2 * number + 1]


NO_TOTALS = Totals()


@quickly_made
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
    totals: Totals = field(default=NO_TOTALS, compare=False, repr=False)
    asked_at: int = -1

    @property
    def ends_source(self) -> EndsSource:
        """Return where the ends come from that lag is measured to."""
        return EndsSource.INTERPOLATED if self.as_of < self.asked_at else EndsSource.BROKERS


class Topics(Mapping[str, TopicLag]):
    """A group's lag by topic, made when a caller reads it; immutable, so any thread may read it.

    `packed`: the positions of the group at the sample `compared`, in which they begin at `first`.
    """

    __slots__ = ("_compared", "_first", "_made", "_packed")

    def __init__(self, packed: Packed, compared: Compared, first: int) -> None:
        self._packed, self._compared, self._first = packed, compared, first
        self._made: dict[str, TopicLag] | None = None

    def __getitem__(self, topic: str) -> TopicLag:
        return self._topics()[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed.topics)

    def __len__(self) -> int:
        return len(self._packed.topics)

    def _topics(self) -> dict[str, TopicLag]:
        if self._made is None:
            self._made = {
                topic: self._topic(topic, start, numbers)
                for topic, start, numbers in self._packed.layout.spans()
            }
        return self._made

    def _topic(self, topic: str, start: int, numbers: Numbers) -> TopicLag:
        sample = self._compared.sample
        count = len(sample.latest.get(topic, ()))
        stable = [sample.last_stable(topic, one) for one in range(count)] if topic in sample.stable else ()
        return Partitions(self._packed, start, numbers, self._compared, self._first, stable).summed()


class Measured(NamedTuple):
    """What a sample gave for groups whose partitions lie end to end; immutable, so any thread may read it.

    By the groups' places: their positions and totals, which of them commit by transactions, records that
    wait, partitions whose lag is not known, and those whose lag is; as of when (ms), and where they begin.
    """

    compared: Compared
    places: Sequence[Packed]
    totals: Sequence[Totals]
    transactional: frozenset[int]
    records: Sequence[int]
    unknown: Sequence[int]
    known: Sequence[int]
    as_of: Sequence[int]
    begins: Sequence[int]

    def of(self, place: int) -> GroupLag:
        """Return the lag of one group. Most are never asked for."""
        sample, age = self.compared.sample, self.compared.oldest(place)
        return GroupLag(
            sample.at,
            self.records[place] if self.known[place] else None,
            None if age == UNKNOWN else age,
            self.unknown[place],
            Topics(self.places[place], self.compared, self.begins[place]),
            self.as_of[place],
            Source.BROKERS if place in self.transactional else Source.TOPIC,
            self.totals[place],
            sample.asked_at,
        )


class Lags(Mapping[str, GroupLag]):
    """The lag of groups at their newest samples, each made when a caller reads it; any thread may."""

    def __init__(self, measured: Mapping[str, tuple[Measured, int]]) -> None:
        self._measured = measured
        self._made: dict[str, GroupLag] = {}

    def __getitem__(self, group: str) -> GroupLag:
        found = self._made.get(group)
        if found is None:
            measured, place = self._measured[group]
            found = self._made[group] = measured.of(place)
        return found

    def measured(self) -> int:
        """Return how many groups have a known lag; none is made for that."""
        return sum(bool(measured.known[place]) for measured, place in self._measured.values())

    def __contains__(self, group: object) -> bool:
        return group in self._measured

    def __iter__(self) -> Iterator[str]:
        return iter(self._measured)

    def __len__(self) -> int:
        return len(self._measured)


def _number(one: PartitionLag) -> int:
    return one.partition
