"""The blind guard: the source must deliver what the brokers have.

Spark's Kafka source gives nothing of an internal topic, and no error, unless
`spark.sql.streaming.kafka.useDeprecatedOffsetFetching` is true; a platform's own connector may not honour it.
A monitor that sees nothing and says nothing is worse than none, so the job compares the offsets that the
first batches read up to with those the brokers had before, and stops. Offsets, not rows: compaction and
transactions leave offsets without a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from rebalance_monitor.streaming.topic import TopicFacts

SHOWN = 5
# The first batch after a crash is the one that was under way then: it reads up to where the topic ended then.
PATIENCE = 2


class BlindError(DependencyError):
    """The source delivers nothing, or not everything, of what the brokers have."""


def source_ends(progress: Mapping[str, Any], topic: str) -> dict[int, int] | None:
    """Return partition -> next offset to read, as one progress report tells; None without a Kafka source."""
    for source in progress["sources"]:
        if not str(source["description"]).startswith("Kafka"):
            continue
        ends = source["endOffset"]
        offsets = ends.get(topic, {}) if isinstance(ends, Mapping) else {}
        return {int(partition): int(offset) for partition, offset in offsets.items()}
    return None


def unseen(facts: TopicFacts, ends: Mapping[int, int], *, limited: bool) -> list[int]:
    """Return the partitions with records whose end `ends` does not reach; `limited` batches need not."""
    return [
        partition
        for partition, end in facts.filled().items()
        if partition not in ends or (ends[partition] < end and not limited)
    ]


class SightCheck:
    """Judges the first batches of one query by what the brokers had before it."""

    def __init__(self, facts: TopicFacts, *, limited: bool) -> None:
        self._facts = facts
        self._limited = limited
        self._missing: list[int] = []
        self._batches = 0
        self.is_sure = not facts.filled()

    def look(self, ends: Mapping[int, int]) -> None:
        """Take one batch's end offsets; raises BlindError once patience is over."""
        if self.is_sure:
            return
        self._batches += 1
        self._missing = unseen(self._facts, ends, limited=self._limited)
        self.is_sure = not self._missing
        if self._batches >= PATIENCE:
            self.require()

    def require(self) -> None:
        """Raise BlindError unless the batches so far delivered what there was."""
        if self.is_sure or not self._batches:
            return
        some = ", ".join(str(partition) for partition in self._missing[:SHOWN])
        raise BlindError(
            f"The monitor would be blind: the brokers have records in {len(self._missing)} partition(s) of "
            f"{self._facts.name} ({some}, …) that Spark's Kafka source does not deliver.",
            "Leave spark.sql.streaming.kafka.useDeprecatedOffsetFetching at true (the default here), check "
            "that the platform's Kafka connector honours it, and that Read on the topic is allowed. "
            "`rebalance-monitor doctor` tells them apart.",
        )


def has_read(ends: Mapping[int, int], history: Mapping[int, int]) -> bool:
    """Whether a source that has read up to `ends` has read all of `history` (both: partition -> offset)."""
    return all(ends.get(partition, -1) >= end for partition, end in history.items())
