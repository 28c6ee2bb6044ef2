"""Which topics the groups of a capture have committed to lately, and which groups these are.

The ends of the topics are worth asking for, and, in turns, the groups' committed offsets: a commit on the
topic may be that of a transaction that has not ended.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from rebalance_monitor.coordinator.lag.ends import A_SECOND, AGAIN_MS, LATELY_MS
from rebalance_monitor.decoders import Decoded, OffsetCommitKey, decode_record

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


AGAIN_S = AGAIN_MS / 1000
AT_ONCE = 5 * A_SECOND
"""Groups at once: a round comes every five seconds."""


class ConsumedTopics:
    """Topics and groups by the keys of OffsetCommit records; `clock` in s since the epoch.

    One thread adds; any may read.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._keys: set[bytes] = set()
        self._topics: frozenset[str] = frozenset()
        self._groups: frozenset[str] = frozenset()
        self._asked: dict[str, float] = {}

    def lately(self) -> frozenset[str]:
        """Return the topics of commits that were younger than a week when they were read."""
        return self._topics

    def groups(self) -> tuple[str, ...]:
        """Return groups to ask for now, the longest waiting first; for one thread."""
        now = self._clock()
        due = [name for name in self._groups if now - self._asked.get(name, -AGAIN_S) >= AGAIN_S]
        found = sorted(due, key=lambda name: self._asked.get(name, 0.0))[:AT_ONCE]
        self._asked |= dict.fromkeys(found, now)
        return tuple(found)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch in RECORD_SCHEMA."""
        since = datetime.fromtimestamp(self._clock(), UTC) - timedelta(milliseconds=LATELY_MS)
        recent = pc.and_(pc.greater(batch.column("timestamp"), since), pc.is_valid(batch.column("value")))
        keys = set(pc.unique(batch.column("key").filter(recent)).to_pylist()) - self._keys - {None}
        self._keys |= keys
        read = [found for key in keys if (found := _commit(key)) is not None]
        if not {found.topic for found in read} <= self._topics:
            self._topics |= {found.topic for found in read}
        if not {found.group for found in read} <= self._groups:
            self._groups |= {found.group for found in read}


def _commit(key: bytes) -> OffsetCommitKey | None:
    found = decode_record(key, None)
    known = found.key if isinstance(found, Decoded) else None
    return known if isinstance(known, OffsetCommitKey) else None
