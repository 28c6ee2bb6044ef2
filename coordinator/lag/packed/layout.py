"""Which partitions a group has positions of, in which order: one object for all groups that have the same.

Positions and windows of a group are packed in this order, so no partition has an object, a key or a name of
its own. Topics stand in the order of their names, the partitions of each ascending.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from rebalance_monitor.decoders.rows import listed_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Numbers = range | array[int]
    """Partitions of a topic, ascending."""

    Span = tuple[str, int, Numbers]
    """A topic, the place of its first partition, and its partitions."""

    Key = tuple[tuple[str, Numbers | bytes], ...]

UNKNOWN_PLACE = -1

MAX_LISTS = 256
"""Lists of partitions whose places are remembered: a client commits the same ones over and over."""


class Layout:
    """The partitions of a group; made by `layout_of`, which gives the same object for the same partitions."""

    __slots__ = ("__weakref__", "_lists", "numbers", "rows", "size", "starts", "topics", "whole")

    def __init__(self, topics: tuple[str, ...], numbers: tuple[Numbers, ...]) -> None:
        self.topics, self.numbers = topics, numbers
        self.starts: dict[str, int] = {}
        self.size = 0
        for topic, found in zip(topics, numbers, strict=True):
            self.starts[topic] = self.size
            self.size += len(found)
        self.whole = b""
        """A list of all partitions in their order (T of the row contract), if one was seen."""
        self._lists: dict[bytes, range | array[int]] = {}
        self.rows: tuple[object, bytes] = (None, b"")
        """What numbers the rows of all topics, and the rows of these partitions (`ends_columns.py`)."""

    def place(self, topic: str, partition: int) -> int:
        """Return where a partition stands, `UNKNOWN_PLACE` where the group has no position of it."""
        start = self.starts.get(topic)
        if start is None:
            return UNKNOWN_PLACE
        found = self.numbers[self.topics.index(topic)]
        if isinstance(found, range):
            return start + partition - found.start if partition in found else UNKNOWN_PLACE
        at = bisect_left(found, partition)
        return start + at if at < len(found) and found[at] == partition else UNKNOWN_PLACE

    def at(self, place: int) -> tuple[str, int]:
        """Return topic and partition of a place."""
        which = bisect_right(tuple(self.starts.values()), place) - 1
        topic = self.topics[which]
        return topic, self.numbers[which][place - self.starts[topic]]

    def places_of(self, listed: bytes) -> range | array[int] | None:
        """Return the places of a list of partitions (T of the row contract); None where one is not known."""
        known = self._lists.get(listed)
        if known is not None:
            return known
        found = array("i", (self.place(*one) for one in listed_partitions(listed)))
        if UNKNOWN_PLACE in found or len(set(found)) < len(found):
            return None
        places = _compact(found)
        if len(self._lists) >= MAX_LISTS:
            del self._lists[next(iter(self._lists))]
        self._lists[listed] = places
        return places

    def spans(self) -> Iterator[Span]:
        """Yield the topics."""
        return zip(self.topics, self.starts.values(), self.numbers, strict=True)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield topic and partition of each place."""
        return (
            (topic, one) for topic, numbers in zip(self.topics, self.numbers, strict=True) for one in numbers
        )


_LAYOUTS: WeakValueDictionary[Key, Layout] = WeakValueDictionary()


def layout_of(partitions: Mapping[str, Iterable[int]]) -> Layout:
    """Return the layout of these partitions; topics without any are left out."""
    numbers = {topic: _compact(array("i", sorted(found))) for topic, found in sorted(partitions.items())}
    kept = {topic: found for topic, found in numbers.items() if found}
    key = tuple(
        (topic, found if isinstance(found, range) else found.tobytes()) for topic, found in kept.items()
    )
    known = _LAYOUTS.get(key)
    if known is None:
        known = _LAYOUTS[key] = Layout(tuple(kept), tuple(kept.values()))
    return known


def _compact(found: array[int]) -> Numbers:
    """Return the numbers as a range where they are one."""
    if not found:
        return found
    whole = range(found[0], found[0] + len(found))
    return whole if all(one == other for one, other in zip(found, whole, strict=True)) else found
