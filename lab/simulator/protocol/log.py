"""The offsets topic of a simulation: what was appended, and the rows that the shard coordinator reads.

A row is what `decoders.batch` makes of real bytes: a commit run per OffsetCommit request, and every other
record whole. `decode_record` reads the bytes of these.
"""

from __future__ import annotations

from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING

from rebalance_monitor.decoders.rows import COMMIT_RUN, RECORD, Row, partition_entry, record_body, run_body

if TYPE_CHECKING:
    from collections.abc import Callable


def partitions_bytes(owned: list[tuple[str, list[int]]]) -> bytes:
    """Write the partitions of a commit run (T of `decoders.rows`)."""
    parts = []
    for topic, numbers in owned:
        name: bytes | None = topic.encode()
        for number in numbers:
            parts.append(partition_entry(name, number))
            name = None
    return b"".join(parts)


class Log:
    """Collects appends in any order; `rows` gives them in order of time with offsets."""

    def __init__(self, epoch: int, shard: int) -> None:
        self.epoch, self._shard = epoch, shard
        self._commits: list[tuple[float, str, bytes, tuple[int, ...]]] = []
        self._records: list[tuple[float, str, bytes, bytes | None]] = []

    def commit(self, at: float, group: str, partitions: bytes, offsets: tuple[int, ...]) -> None:
        """Append the commits of one request."""
        self._commits.append((at, group, partitions, offsets))

    def record(self, at: float, group: str, key: bytes, value: bytes | None) -> None:
        """Append any other record."""
        self._records.append((at, group, key, value))

    def rows(self) -> list[Row]:
        """Give everything appended as rows, in order of time."""
        entries: list[tuple[float, str, bytes, tuple[int, ...] | bytes | None]] = []
        entries += self._commits
        entries += self._records
        # Stable: what was appended first at one time stays first.
        entries.sort(key=itemgetter(0))
        found, offset, epoch, shard = [], 0, self.epoch, self._shard
        heads: dict[bytes, tuple[bytes, int, Callable[..., bytes]]] = {}
        for at, group, first, second in entries:
            ts = epoch + int(at)
            if type(second) is tuple:
                head = heads.get(first)
                if head is None:
                    count = len(second)
                    head = heads[first] = run_body(first, b""), count, Struct(f">{count}q").pack
                begun, count, packed = head
                body = begun + packed(*second)
                row = Row(shard, 0, COMMIT_RUN, offset, offset + count - 1, ts, group, ts, count, body)
                offset += count
            else:
                body = record_body(first, second)  # type: ignore[arg-type]
                row = Row(shard, 0, RECORD, offset, offset, ts, group, -1, 1, body)
                offset += 1
            found.append(row)
        return found
