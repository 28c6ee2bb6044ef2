"""Bytes of records for tests, packed by hand from Kafka's published layouts."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

Pair = tuple[bytes | None, bytes | None]


def string(text: str | bytes | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack(">H", len(data)) + data


def blob(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def compact(text: str | bytes) -> bytes:
    data = text if isinstance(text, bytes) else text.encode()
    return uvarint(len(data) + 1) + data


def commit_key(group: str | bytes, topic: str | bytes, partition: int, kind: int = 1) -> bytes:
    return struct.pack(">h", kind) + string(group) + string(topic) + struct.pack(">i", partition)


def commit_value(
    offset: int, commit_ts: int, version: int = 3, metadata: str | bytes = "", tags: bytes = b"\0"
) -> bytes:
    head = struct.pack(">hq", version, offset) + (struct.pack(">i", 5) if version >= 3 else b"")
    text = compact(metadata) if version >= 4 else string(metadata)
    expiry = struct.pack(">q", commit_ts + 1) if version == 1 else b""
    return head + text + struct.pack(">q", commit_ts) + expiry + (tags if version >= 4 else b"")


TOPIC_ID_TAG = b"\x01\x00\x10" + bytes(range(16))


def group_key(group: str) -> bytes:
    return b"\0\2" + string(group)


def member(number: int, subscription: bytes = b"", assignment: bytes = b"") -> bytes:
    names = string(f"member-{number}") + string(None) + string("client") + string("/10.0.0.1")
    return names + struct.pack(">ii", 300_000, 45_000) + blob(subscription) + blob(assignment)


def group_value(generation: int, members: Sequence[bytes]) -> bytes:
    head = b"\0\3" + string("consumer") + struct.pack(">i", generation) + string("range") + string("member-0")
    return head + struct.pack(">qi", 1_700_000_000_000, len(members)) + b"".join(members)


def batch(
    pairs: Sequence[Pair],
    partitions: Sequence[int] | None = None,
    kind: pa.DataType | None = None,
    first_offset: int = 0,
) -> pa.RecordBatch:
    """Make a batch with the Kafka source's columns; one partition and running offsets by default."""
    rows = len(pairs)
    return pa.record_batch(
        {
            "key": pa.array([key for key, _ in pairs], kind or pa.binary()),
            "value": pa.array([value for _, value in pairs], kind or pa.binary()),
            "partition": pa.array(partitions or [0] * rows, pa.int32()),
            "offset": pa.array(range(first_offset, first_offset + rows), pa.int64()),
            "timestamp": pa.array([1_700_000_000_000 + n for n in range(rows)], pa.timestamp("ms", tz="UTC")),
        }
    )
