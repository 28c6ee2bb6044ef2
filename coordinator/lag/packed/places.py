"""Committed offsets of one group, packed: 16 bytes a partition. Immutable, so any thread may read them."""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.commits.positions import Position
from rebalance_monitor.coordinator.lag.packed.layout import UNKNOWN_PLACE, Layout, layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rebalance_monitor.coordinator.state.positions import Positions

    Places = Mapping[str, Mapping[int, Position]]

_BYTES = 16


class Packed:
    """Positions in the order of `layout`: offsets and commit times (ms) alternate in `body`."""

    __slots__ = ("body", "layout")

    def __init__(self, layout: Layout, body: bytes) -> None:
        self.layout, self.body = layout, body

    @property
    def topics(self) -> tuple[str, ...]:
        """Return the topics that have positions."""
        return self.layout.topics

    def values(self, start: int = 0, count: int | None = None) -> array[int]:
        """Return a copy of offsets and times, which alternate; of `count` places from `start` on."""
        end = None if count is None else _BYTES * (start + count)
        return array("q", self.body[_BYTES * start : end])

    def get(self, topic: str, partition: int) -> Position | None:
        """Return the position of a partition, None where it has none."""
        place = self.layout.place(topic, partition)
        return None if place == UNKNOWN_PLACE else self.at(place)

    def at(self, place: int) -> Position:
        """Return the position at a place of the layout."""
        offset, when = memoryview(self.body).cast("q")[2 * place : 2 * place + 2].tolist()
        return Position(offset, when)

    def newest(self) -> int:
        """Return when (ms) the newest was committed, -1 where there is none."""
        return max(self.values()[1::2], default=-1)

    def newest_by_topic(self) -> dict[str, int]:
        """Return when (ms) the newest of each topic was committed."""
        times = self.values()[1::2]
        return {
            topic: max(times[start : start + len(numbers)]) for topic, start, numbers in self.layout.spans()
        }

    def __iter__(self) -> Iterator[tuple[str, int, Position]]:
        """Yield topic, partition and position of each."""
        values = self.values()
        for number, (topic, partition) in enumerate(self.layout):
            yield topic, partition, Position(values[2 * number], values[2 * number + 1])

    def __len__(self) -> int:
        return self.layout.size


NOTHING = Packed(layout_of({}), b"")


def pack(places: Places) -> Packed:
    """Pack positions."""
    layout = layout_of(places)
    values = array("q")
    for topic, partition in layout:
        values.extend(places[topic][partition])
    return Packed(layout, values.tobytes())


def after(known: Packed, held: Positions) -> Packed | None:
    """Return `known` with the runs of `held` on top; the same object where these are nothing new.

    None where that is not enough: a partition is new, or may have been dropped. A later run overrides an
    earlier one, so all are laid over each other before anything is compared.
    """
    values = known.values()
    for listed, (at, offsets) in held.runs.items():
        places = known.layout.places_of(listed)
        if places is None or positions.has_dropped(offsets):
            return None
        read = array("q", offsets)
        if sys.byteorder == "little":
            read.byteswap()
        if isinstance(places, range):
            begin, end = 2 * places.start, 2 * places.stop
            values[begin:end:2] = read
            values[begin + 1 : end : 2] = array("q", (at,)) * len(read)
        else:
            for place, offset in zip(places, read, strict=True):
                values[2 * place], values[2 * place + 1] = offset, at
    body = values.tobytes()
    return known if body == known.body else Packed(known.layout, body)
