"""A record of a group is read twice: by its batch, which must know whether it can be, and by its shard.

In one process the second reading takes what the first one made. Commits are not read so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.decoders import decode_record

if TYPE_CHECKING:
    from rebalance_monitor.decoders import Decoded, Failure

MOST_BYTES = 1 << 22
"""What waits for its second reading: records of so many bytes, and some four times that as objects."""


class ReadOnce:
    """Reads records as `decode_record` does; of those that wait for long the oldest are read anew."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._read: dict[tuple[bytes | None, bytes | None], Decoded | Failure] = {}

    def first(self, key: bytes | None, value: bytes | None) -> Decoded | Failure:
        """Read a record for its batch; never raises, whatever the bytes."""
        record = key, value
        found = self._take(record) or decode_record(key, value)
        if value is not None and (size := _size(record)) <= self._most_bytes:
            while self._bytes + size > self._most_bytes:
                self._take(next(iter(self._read)))
            self._read[record] = found
            self._bytes += size
        return found

    def again(self, key: bytes | None, value: bytes | None) -> Decoded | Failure:
        """Read a record for its shard; never raises, whatever the bytes."""
        return self._take((key, value)) or decode_record(key, value)

    def _take(self, record: tuple[bytes | None, bytes | None]) -> Decoded | Failure | None:
        found = self._read.pop(record, None)
        if found is not None:
            self._bytes -= _size(record)
        return found


def _size(record: tuple[bytes | None, bytes | None]) -> int:
    key, value = record
    return len(key or b"") + len(value or b"")
