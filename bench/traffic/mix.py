"""A realistic mix of `__consumer_offsets` records, packed from Kafka's published layouts.

Every group commits its partitions in requests of adjacent records with one commit timestamp, in turn with
all other groups. Every group begins with its metadata (classic, v3 and v4, three members); after that 0.5 %
of the records are metadata of new generations (so short loads hold more: 10,000 groups in 2 M records 1 %)
and 0.2 % tombstones of commits; commit values are v3 and v4 by halves. 0.5 % is a rebalance of each of
10,000 groups every 100 s at 20,000 commits a second; with `QUIET`, there is one rebalance a second. The same
arguments give the same records. What only a coordinator writes, transactions with their markers, is added by
transactions.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.decoders import coordinator_partition

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA_EVERY, QUIET = 20, 2_000  # requests of 10 commits: 0.5 %, 0.005 % of the records
TOMBSTONE_EVERY = 50
MEMBERS = 3
TOPIC_ID_TAG = b"\x01\x00\x10" + bytes(range(1, 17))


class Message(NamedTuple):
    """One record for the offsets topic; timestamp in ms, value None = tombstone."""

    partition: int
    timestamp: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Mix:
    """What is written: `groups` groups of `width` partitions each, about `records` records in all.

    The last record has the timestamp `until_ms`; `per_s` commits a second in record time. One request in
    `metadata_every` comes with a new generation.
    """

    groups: int
    width: int
    records: int
    until_ms: int
    per_s: int = 20_000
    shards: int = 50
    members: int = MEMBERS
    metadata_every: int = METADATA_EVERY


def string(text: str) -> bytes:
    """Pack a STRING: two bytes of length, then UTF-8."""
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def compact(data: bytes) -> bytes:
    """Pack a COMPACT_STRING or COMPACT_BYTES shorter than 16,383 bytes."""
    length = len(data) + 1
    head = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])  # noqa: PLR2004 - a varint's border
    return head + data


def commit_key(group: str, topic: str, partition: int) -> bytes:
    """Pack an OffsetCommitKey, type 1."""
    return b"\0\1" + string(group) + string(topic) + struct.pack(">i", partition)


def commit_value(offset: int, now: int, *, flexible: bool) -> bytes:
    """Pack an OffsetCommitValue, v4 (with a topic id) or v3."""
    head = struct.pack(">hqi", 4 if flexible else 3, offset, 7)
    text = b"\x01" if flexible else b"\0\0"
    return head + text + struct.pack(">q", now) + (TOPIC_ID_TAG if flexible else b"")


def subscription(topic: str) -> bytes:
    """Pack the consumer protocol's Subscription v1 of one topic."""
    return struct.pack(">hi", 1, 1) + string(topic) + struct.pack(">ii", -1, 0)


def assignment(topic: str, partitions: range) -> bytes:
    """Pack the consumer protocol's Assignment v1 of one topic."""
    head = struct.pack(">hi", 1, 1) + string(topic) + struct.pack(">i", len(partitions))
    return head + struct.pack(f">{len(partitions)}ii", *partitions, -1)


def member(name: str, topic: str, partitions: range, *, flexible: bool) -> bytes:
    """Pack one member of a GroupMetadataValue."""
    blobs = subscription(topic), assignment(topic, partitions)
    timeouts = struct.pack(">ii", 300_000, 45_000)
    if flexible:
        names = compact(name.encode()) + b"\0" + compact(b"consumer") + compact(b"/10.0.0.1")
        return names + timeouts + compact(blobs[0]) + compact(blobs[1]) + b"\0"
    names = string(name) + b"\xff\xff" + string("consumer") + string("/10.0.0.1")
    return names + timeouts + b"".join(struct.pack(">i", len(blob)) + blob for blob in blobs)


def group_value(group: str, topic: str, mix: Mix, generation: int, now: int) -> bytes:
    """Pack a GroupMetadataValue of the mix's members; even generations of small groups are v4, others v3."""
    width, count = mix.width, mix.members
    flexible = generation % 2 == 0 and count < 127  # noqa: PLR2004 - a count of one byte
    names = [f"{group}-{generation // 4 if number == 0 else 0}-{number}" for number in range(count)]
    parts = [range(number, width, count) for number in range(count)]
    members = [member(n, topic, p, flexible=flexible) for n, p in zip(names, parts, strict=True)]
    if flexible:
        head = b"\0\4" + compact(b"consumer") + struct.pack(">i", generation) + compact(b"range")
        head += compact(names[0].encode()) + struct.pack(">qB", now, count + 1)
        return head + b"".join(members) + b"\0"
    head = b"\0\3" + string("consumer") + struct.pack(">i", generation) + string("range")
    return head + string(names[0]) + struct.pack(">qi", now, count) + b"".join(members)


@dataclass(slots=True)
class Group:
    """One group: where it lives, the keys of its commits, how many generations it has had."""

    name: str
    topic: str
    shard: int
    keys: list[bytes]
    generation: int = 0


def groups_of(mix: Mix) -> list[Group]:
    """Give the groups of the mix, before their first generation."""
    found = []
    for number in range(mix.groups):
        name, topic = f"team-{number % 97}.service-{number}", f"events-{number % 211}"
        keys = [commit_key(name, topic, partition) for partition in range(mix.width)]
        found.append(Group(name, topic, coordinator_partition(name, mix.shards), keys))
    return found


def messages(mix: Mix) -> Iterator[list[Message]]:
    """Yield the mix, the records of one request (one group, one timestamp) at a time."""
    groups, made, request = groups_of(mix), 0, 0
    start = mix.until_ms - mix.records * 1000 // mix.per_s
    while made < mix.records:
        turn, number = divmod(request, mix.groups)
        now = start + made * 1000 // mix.per_s
        batch = _request(groups[number], mix, request + turn, turn, now)
        yield batch
        made += len(batch)
        request += 1


def new_generation(group: Group, mix: Mix, now: int) -> Message:
    """Give the record of the group's next generation."""
    group.generation += 1
    value = group_value(group.name, group.topic, mix, group.generation, now)
    return Message(group.shard, now, b"\0\2" + string(group.name), value)


def request(group: Group, turn: int, now: int, *, flexible: bool = True, records: int = 100) -> list[Message]:
    """Give the records of one OffsetCommit request for all partitions of the group.

    `records`: how many it has read of each in a turn.
    """
    offsets = (turn * records + number for number in range(len(group.keys)))
    values = (commit_value(offset, now, flexible=flexible) for offset in offsets)
    return [Message(group.shard, now, key, value) for key, value in zip(group.keys, values, strict=True)]


def _request(group: Group, mix: Mix, salted: int, turn: int, now: int) -> list[Message]:
    flexible = salted % 2 == 0
    batch = []
    if salted % mix.metadata_every == 0 or group.generation == 0:
        batch.append(new_generation(group, mix, now))
    batch += request(group, turn, now, flexible=flexible)
    if salted % TOMBSTONE_EVERY == 0:
        batch.append(Message(group.shard, now, group.keys[-1], None))
    return batch
