"""The guard: the source must deliver what the brokers have, from the topic that the state is of.

Spark's Kafka source gives nothing of an internal topic, and no error, unless
`spark.sql.streaming.kafka.useDeprecatedOffsetFetching` is true; a platform's own connector may not honour it.
A monitor that sees nothing and says nothing is worse than none, so the job compares the offsets that the
first batches read up to with those the brokers had before, goes on comparing while it runs, and stops.
Offsets, not rows: compaction and transactions leave offsets without a record.

The same checks of the topic notice what no batch shows: records removed before they were read, a topic that
was truncated below what was read (an unclean leader election), even if it has grown since (leader_epochs.py),
a recreated topic, a replaced cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.errors import OTHER_BROKERS, OTHERWISE, REBUILD
from rebalance_monitor.checkpoints.state.manifest import ManifestError
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.coordinator.findings.wording import counted, ranges

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rebalance_monitor.engine.topic.facts import Look, TopicFacts

SHOWN = 5
# The first batch after a crash is the one that was under way then: it reads up to where the topic ended then.
PATIENCE = 2


class CutError(ManifestError):
    """The topic lost what was `read` of some partitions (partition -> next offset)."""

    def __init__(self, sentence: str, read: Mapping[int, int]) -> None:
        super().__init__(sentence)
        self.read = dict(read)


class BlindError(DependencyError):
    """The source delivers nothing, or not everything, of what the brokers have."""


def unreached_partitions(facts: TopicFacts, ends: Mapping[int, int], *, limited: bool) -> list[int]:
    """Return the partitions with records whose end `ends` does not reach; `limited` batches need not."""
    return [
        partition
        for partition, end in facts.filled().items()
        if partition not in ends or (ends[partition] < end and not limited)
    ]


def require_same(before: TopicFacts, now: TopicFacts) -> None:
    """Raise ManifestError where `now` is another cluster or a recreated topic: no state fits it."""
    moved = "The brokers now belong to another cluster"
    recreated = f"{now.name} was recreated while the monitor ran"
    for what, old, new, then in (
        (moved, before.cluster_id, now.cluster_id, f"{OTHER_BROKERS} {OTHERWISE}"),
        (recreated, before.id, now.id, REBUILD),
    ):
        if old and new and old != new:
            raise ManifestError(f"{what} (id {old}, now {new}). {then}")


def require_uncut(read: Mapping[int, int], facts: TopicFacts) -> None:
    """Raise CutError where partitions lost what was `read` (partition -> next offset).

    They end below it, or a new leader has written other records there.
    """
    short = {p: (end, facts.ends[p]) for p, end in read.items() if facts.ends.get(p, end) < end}
    replaced = {p: (kept.read, kept.end) for p, kept in facts.kept.items() if kept.is_cut}
    cut = [f"{p} (read up to {end}, kept to {left})" for p, (end, left) in sorted((replaced | short).items())]
    if cut:
        sentence = (
            f"{facts.name} lost records at the end of {counted(len(cut), 'partition')}: "
            f"{', '.join(cut[:SHOWN])}. A "
            f"leader without them was elected, or the topic was restored. {REBUILD}"
        )
        raise CutError(sentence, {p: end for p, (end, _) in (replaced | short).items()})


def removed_unread(read: Mapping[int, int], begins: Mapping[int, int]) -> dict[int, int]:
    """Return partition -> offsets that were removed (below `begins`) before they were `read`."""
    return {p: begin - read[p] for p, begin in begins.items() if p in read and begin > read[p]}


class SightCheck:
    """Judges one query: its first batches by what the brokers had before, each check by the one before."""

    def __init__(self, facts: TopicFacts, *, limited: bool) -> None:
        self._facts = facts
        self._limited = limited
        self._missing: list[int] = []
        self._batches = 0
        self._read: Mapping[int, int] = {}
        self._last: Look | None = None
        self.is_sure = not facts.filled()

    def check_ends(self, ends: Mapping[int, int]) -> None:
        """Take one batch's end offsets; raises BlindError once patience is over, ManifestError for a cut."""
        # The source goes back with the topic, and reads on from there.
        require_uncut(self._read, replace(self._facts, ends=dict(ends), kept={}))
        self._read = dict(ends)
        if self.is_sure:
            return
        self._batches += 1
        self._missing = unreached_partitions(self._facts, ends, limited=self._limited)
        self.is_sure = not self._missing
        if self._batches >= PATIENCE:
            self.require()

    def compare(self, look: Look) -> None:
        """Check the topic once; raises ManifestError, or BlindError for what the check before had."""
        require_same(self._facts, look.facts)
        require_uncut(look.before.ends, look.facts)
        last = self._last
        if last is not None and look.before.batches - last.after.batches < PATIENCE:
            # A batch may last longer than the interval of checks: the older check waits for it.
            return
        self._last = look
        if last is None:
            return
        self._missing = unreached_partitions(last.facts, look.after.ends, limited=self._limited)
        self.is_sure = not self._missing
        if self._missing:
            raise self._blind()

    def require(self) -> None:
        """Raise BlindError unless the batches so far delivered what there was."""
        if self._batches and not self.is_sure:
            raise self._blind()

    def _blind(self) -> BlindError:
        some = ", ".join(str(partition) for partition in self._missing[:SHOWN])
        return BlindError(
            f"The monitor would be blind: the brokers have records in "
            f"{counted(len(self._missing), 'partition')} of "
            f"{self._facts.name} ({some}, …) that Spark's Kafka source does not deliver.",
            "Leave spark.sql.streaming.kafka.useDeprecatedOffsetFetching at true (the default here), check "
            "that the platform's Kafka connector honours it (`source.reader: python` does without that "
            "connector), and that Read on the topic is allowed. "
            "`rebalance-monitor doctor` tells them apart.",
        )


def unled_sentence(topic: str, unled: Collection[int]) -> str:
    """Say which partitions are not read, "" where each has a leader."""
    if not unled:
        return ""
    return (
        f"no broker leads {counted(len(unled), 'partition')} of {topic} ({ranges(sorted(unled))}): their "
        "groups have no coordinator, and are not watched until they have one"
    )


def has_read(ends: Mapping[int, int], history: Mapping[int, int]) -> bool:
    """Whether a source that has read up to `ends` has read all of `history` (both: partition -> offset)."""
    return all(ends.get(partition, -1) >= end for partition, end in history.items())


def lost_sentence(lost: Mapping[int, int]) -> str:
    """Say what `removed_unread` found."""
    some = ", ".join(str(partition) for partition in sorted(lost)[:SHOWN])
    return (
        f"up to {counted(sum(lost.values()), 'record')} of {counted(len(lost), 'partition')} ({some}) "
        f"were removed before they "
        "were read: groups in them may be wrong until they write again. --rebuild-state starts afresh"
    )
