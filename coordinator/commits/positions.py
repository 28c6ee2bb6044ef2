"""Committed offsets of a group, kept and published as positions: offset and commit time of each partition.

A commit run is kept as it is, under its list of partitions: a client that commits the same partitions again
and again replaces one entry each time, which costs two operations on a dict. When runs of different lists
have piled up they are merged into a table of 20 bytes a partition.

Published is the same data in one line of text, which the reader unpacks. Positions are what the topic holds.
Offsets of a transaction are written before it ends, and no record marks them. So positions include the
offsets of open and aborted transactions.
"""

from __future__ import annotations

import base64
from struct import Struct, unpack
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import listed_partitions, partition_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_RUNS = 64
ROOM_BYTES = 4_096
"""Runs are merged when they hold so many bytes more than twice the table."""

# Runs more than `MAX_RUNS` that may pile up: one for so many partitions of the table. A merge visits each of
# them, and each of ten thousand members may commit a partition of its own.
_SHARE = 4

DROPPED = -1
"""Committed offset of a partition that the coordinator has dropped."""

_OFFSET_BYTES = 8
_DROPPED = DROPPED.to_bytes(_OFFSET_BYTES, "big", signed=True)

_TOPIC = Struct(">HI")
_ENTRY = Struct(">iqq")
_packed = msgspec.msgpack.Encoder().encode
_unpacked = msgspec.msgpack.Decoder(Positions).decode


class Position(NamedTuple):
    """Committed offset of one partition and when (ms) it was committed."""

    offset: int
    at: int


Places = dict[str, dict[int, Position]]
"""topic -> partition -> position"""


def take_commits(held: Positions, at: int, partitions: bytes, offsets: bytes, runs: int = 1) -> None:
    """Keep a commit run of `at` (ms), and count the commits of `runs` like it, of which it is the last.

    The other arguments are those of `keep`.
    """
    held.commits += runs * (len(offsets) // _OFFSET_BYTES)
    keep(held, at, partitions, offsets)


def keep(held: Positions, at: int, partitions: bytes, offsets: bytes) -> None:
    """Keep a commit run of `at` (ms): `partitions` and `offsets` are T and O of the row contract."""
    runs = held.runs
    # Taken out first: the newest run is the last one.
    known = runs.pop(partitions, None)
    runs[partitions] = at, offsets
    if known is None:
        held.size += len(partitions) + len(offsets)
        many = MAX_RUNS + len(held.table) // (_SHARE * _ENTRY.size)
        if len(runs) > many or held.size > ROOM_BYTES + 2 * len(held.table):
            merge(held)


def drop(held: Positions, at: int, topic: str, partition: int) -> None:
    """Take the position of a partition out: its offset expired, or was deleted."""
    keep(held, at, partition_entry(topic.encode(), partition), _DROPPED)


def merge(held: Positions) -> None:
    """Merge runs and table into a table that has each partition once."""
    held.table, held.runs, held.size = _table(places_of(held)), {}, 0


def places_of(held: Positions) -> Places:
    """Return the position of each partition."""
    found = _listed(held.table)
    for partitions, (at, offsets) in held.runs.items():
        values = unpack(f">{len(offsets) // _OFFSET_BYTES}q", offsets)
        for (topic, partition), offset in zip(listed_partitions(partitions), values, strict=True):
            found.setdefault(topic, {})[partition] = Position(offset, at)
    kept = {
        topic: {p: place for p, place in places.items() if place.offset >= 0}
        for topic, places in found.items()
    }
    return {topic: places for topic, places in kept.items() if places}


def went_back(held: Positions, partitions: bytes, offsets: bytes) -> set[str]:
    """Return the topics of which a commit run that is not kept yet takes a partition back."""
    places, values = places_of(held), unpack(f">{len(offsets) // _OFFSET_BYTES}q", offsets)
    before = (
        (topic, places.get(topic, {}).get(partition)) for topic, partition in listed_partitions(partitions)
    )
    return {
        topic
        for (topic, known), offset in zip(before, values, strict=True)
        if known is not None and offset < known.offset
    }


def copied(held: Positions) -> Positions:
    """Return a copy that stays as it is; runs and table are shared, for they are never changed in place."""
    return Positions(held.table, held.runs.copy(), held.size, held.commits, held.lone, held.marked)


def published(held: Positions) -> str:
    """Return the positions in one line of text."""
    return base64.b64encode(_packed(held)).decode()


def read(text: str) -> Positions:
    """Inverse of `published`. ValueError for what it did not make."""
    return _unpacked(base64.b64decode(text, validate=True))


def newest(places: Mapping[str, Mapping[int, Position]]) -> int:
    """Return when (ms) the newest of the positions was committed, -1 where there is none."""
    return max((place.at for topic in places.values() for place in topic.values()), default=-1)


def committed_at(held: Positions) -> int | None:
    """Return when (ms) the newest of the positions was committed, -1 where there is none.

    None for positions that have to be unpacked: of a group without a record of its own, or with a partition
    that was perhaps dropped.
    """
    if held.lone:
        return None
    at = -1
    for committed, offsets in held.runs.values():
        if _DROPPED in offsets:
            return None
        at = max(at, committed)
    return at if held.runs else newest(_listed(held.table))


def has_dropped(offsets: bytes) -> bool:
    """Whether the offsets of a run (O of the row contract) may say that a partition was dropped."""
    return _DROPPED in offsets


def _table(places: Places) -> bytes:
    parts = []
    for topic, entries in places.items():
        name = topic.encode()
        parts += [_TOPIC.pack(len(name), len(entries)), name]
        parts += [_ENTRY.pack(partition, *place) for partition, place in sorted(entries.items())]
    return b"".join(parts)


def _listed(table: bytes) -> Places:
    found: Places = {}
    at = 0
    while at < len(table):
        length, count = _TOPIC.unpack_from(table, at)
        at += _TOPIC.size
        topic = table[at : at + length].decode()
        at += length
        end = at + count * _ENTRY.size
        found[topic] = {p: Position(offset, when) for p, offset, when in _ENTRY.iter_unpack(table[at:end])}
        at = end
    return found
