"""Which topics the groups of a capture have committed to lately: those whose ends are worth asking for."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from rebalance_monitor.coordinator.lag.ends import LATELY_MS
from rebalance_monitor.decoders import Decoded, OffsetCommitKey, decode_record

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


class ConsumedTopics:
    """Topics by the keys of OffsetCommit records; `clock` in s since the epoch.

    One thread adds; any may read.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._keys: set[bytes] = set()
        self._topics: frozenset[str] = frozenset()

    def lately(self) -> frozenset[str]:
        """Return the topics of commits that were younger than a week when they were read."""
        return self._topics

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch in RECORD_SCHEMA."""
        since = datetime.fromtimestamp(self._clock(), UTC) - timedelta(milliseconds=LATELY_MS)
        recent = pc.and_(pc.greater(batch.column("timestamp"), since), pc.is_valid(batch.column("value")))
        keys = set(pc.unique(batch.column("key").filter(recent)).to_pylist()) - self._keys - {None}
        self._keys |= keys
        found = {topic for key in keys if (topic := _topic(key)) is not None}
        if not found <= self._topics:
            self._topics |= found


def _topic(key: bytes) -> str | None:
    found = decode_record(key, None)
    known = found.key if isinstance(found, Decoded) else None
    return known.topic if isinstance(known, OffsetCommitKey) else None
