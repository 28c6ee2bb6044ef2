"""A record of a group is read twice: by its batch, which must know whether it can be, and by its shard.

In one process the second reading takes what the first one made. Commits are not read so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.decoders import decode_record

if TYPE_CHECKING:
    from rebalance_monitor.decoders import Decoded, Failure

MOST = 1_024
"""So many records wait for their second reading, some 2 kB each; the others are read anew.

A batch of history has some 650 generations where one record in 200 is one.
"""


class ReadOnce:
    """Reads records as `decode_record` does."""

    def __init__(self) -> None:
        self._read: dict[tuple[bytes | None, bytes | None], Decoded | Failure] = {}

    def __call__(self, key: bytes | None, value: bytes | None) -> Decoded | Failure:
        """Read one record; never raises, whatever the bytes."""
        record = key, value
        found = self._read.pop(record, None)
        if found is None:
            found = decode_record(key, value)
            if value is not None and len(self._read) < MOST:
                self._read[record] = found
        return found

    def forget(self) -> None:
        """Forget what was read once: the batch has been applied."""
        self._read.clear()
