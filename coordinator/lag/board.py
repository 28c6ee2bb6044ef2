"""The lag of all groups: positions as groups publish them, against the newest sample of their topics' ends.

Runs on the driver. Positions come whole, group by group; each sample of ends gives every group's lag anew and
moves the windows of its partitions (`windows.py`). What one sample says is handed on; only windows and the
recent ends are kept, both bounded per partition.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag import asking, committing
from rebalance_monitor.coordinator.lag.consumed import Consumed, take_runs
from rebalance_monitor.coordinator.lag.coordinators import Coordinators
from rebalance_monitor.coordinator.lag.ends import LATELY_MS
from rebalance_monitor.coordinator.lag.judging.cuts import Shortened
from rebalance_monitor.coordinator.lag.measuring import Block, Noticed, Windows, measure
from rebalance_monitor.coordinator.lag.packed import places
from rebalance_monitor.coordinator.lag.packed.ends_columns import EndsColumns, Numbering, numbering_of
from rebalance_monitor.coordinator.lag.packed.recent_ends import TopicEnds
from rebalance_monitor.coordinator.lag.packed.remembered import Remembered

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.state.positions import Positions

MAX_TOPIC = 249
"""Characters of a topic's name that Kafka allows."""

WANT_MS, WANT_ANEW_MS = 5_000, 60_000
MAX_LONE = 10_000
"""Groups without a record of their own that are known at most."""


class Board:
    """The groups' positions and lag; not for several threads, but for `topics`.

    `measures`: whether samples of ends will come. Without them no caller needs single positions, which are
    the dearest part: when and how fast a group commits is all that is kept.
    """

    def __init__(self, *, measures: bool = True) -> None:
        self._measures = measures
        self.groups: dict[str, Consumed] = {}
        self._lone: set[str] = set()
        self.sample: EndsSample | None = None
        self.topics: frozenset[str] = frozenset()
        """Topics whose ends matter: replaced as a whole, so any thread may read it."""
        self.followed = 0
        """Partitions of all groups at the newest sample."""
        self.asks: tuple[str, ...] = ()
        """Groups whose committed offsets the brokers shall be asked for next; replaced as a whole, too."""
        self.coordinators = Coordinators()
        self.windows = Windows()
        self.noticed = Noticed()
        """At the newest sample."""
        self.shortened: list[Shortened] = []
        """Partitions whose end went back at the newest sample."""
        self.remembered = Remembered()
        self._numbering: Numbering | None = None
        self._blocks: list[Block] = []
        self._ends: dict[str, TopicEnds] = {}
        self._ids: dict[str, str] = {}
        self._unowned: frozenset[str] = frozenset()
        self._wanted_at, self._wanted_anew_at = -WANT_MS, -WANT_ANEW_MS
        self._arranged: list[Consumed] = []
        """Groups whose positions were taken as a whole since the topics were worked out."""

    def recall(self, text: str) -> None:
        """Take what an earlier process remembered of the logs, unless this one knows them. ValueError."""
        if self._measures and self.sample is None:
            self.remembered = Remembered(text)

    def remember(self) -> None:
        """Remember the newest sample, once its groups were judged."""
        if self.sample is not None:
            self.remembered.take(self.sample, self._ends, self._ids, self.groups)

    def publish_all(self, committed: Mapping[str, Positions], now: int, shards: Mapping[str, int]) -> None:
        """Take the positions of many groups, as `publish`: most have one run of all their partitions."""
        taken = []
        for group, held in committed.items():
            known = self.groups.get(group) if self._measures else None
            run = known.whole_run(held) if known is not None else None
            if known is None or run is None:
                self.publish(group, held, now, shards.get(group, -1))
            else:
                taken.append((group, held, (known, run)))
        is_taken = take_runs([one for _, _, one in taken])
        for group, held, (known, _) in taken:
            if is_taken:
                self._note(group, known, held, now, shards.get(group, -1))
            else:
                self.publish(group, held, now, shards.get(group, -1))

    def publish(self, group: str, held: Positions, now: int, shard: int = -1) -> None:
        """Take the positions of a group, as it published them at the clock `now` (ms); `shard`: its own.

        `held` is kept, and must not change.
        """
        known = self.groups.get(group)
        if not self._measures and (at := positions.committed_at(held)) is not None:
            consumed = self.groups[group] = known or Consumed()
            consumed.held, consumed.last_commit = held, at
            self._note(group, consumed, held, now, shard)
            return
        if self._measures and known is not None and known.repeat(held):
            self._note(group, known, held, now, shard)
            return
        # Kafka creates no topic with a longer name: the record of such a commit is forged.
        found = {
            topic: taken for topic, taken in positions.places_of(held).items() if len(topic) <= MAX_TOPIC
        }
        if not found:  # All its offsets have expired or were deleted.
            self.forget(group)
            return
        consumed = self.groups[group] = known or Consumed()
        consumed.take(held, places.pack(found), measures=self._measures)
        if self._measures:
            self._arranged.append(consumed)
        if self._measures and known is None:
            self.remembered.recall(group, consumed)
        self._note(group, consumed, held, now, shard)

    def _note(self, group: str, consumed: Consumed, held: Positions, now: int, shard: int) -> None:
        """Take what a group published at the clock `now` (ms) beside its positions."""
        if held.lone:
            self._lone.add(group)
        elif consumed.lone:
            self._lone.discard(group)
        consumed.lone, consumed.marked, consumed.published = held.lone, held.marked, now
        consumed.shard = shard
        self.coordinators.on_commit(shard, consumed.last_commit)
        committing.count(consumed.counts, now, held.commits)

    def forget(self, group: str) -> None:
        """Forget a group that is gone."""
        self.groups.pop(group, None)
        self._lone.discard(group)

    def trim(self) -> list[str]:
        """Forget the groups that only commit and did so longest ago, where there are too many; return them.

        Any number of names may come and go, and nothing says that one is not used any more.
        """
        most = len(self._lone) - MAX_LONE
        if most <= 0:
            return []
        # In the order in which they became known, as equally old ones go.
        lone = (name for name in self.groups if name in self._lone)
        gone = nsmallest(most + MAX_LONE // 10, lone, key=lambda name: self.groups[name].last_commit)
        for name in gone:
            self.forget(name)
        return gone

    def want(self, now: int) -> None:
        """Work out which topics to ask for at `now` (ms), now and then.

        Every position is read once in `WANT_ANEW_MS`; until then a group brings topics with new partitions.
        """
        if not self._measures or self._wanted_at <= now < self._wanted_at + WANT_MS:
            return
        is_whole = not self._wanted_anew_at <= now < self._wanted_anew_at + WANT_ANEW_MS
        self._wanted_anew_at = now if is_whole else self._wanted_anew_at
        since, groups = now - LATELY_MS, self.groups.values() if is_whole else self._arranged
        found = frozenset(
            topic
            for consumed in groups
            for topic, newest in consumed.written.newest_by_topic().items()
            if newest > since
        )
        self.topics = found.union(self._unowned if is_whole else self.topics)
        self._wanted_at, self._arranged = now, []

    def include(self, unowned: frozenset[str]) -> None:
        """Ask for the ends of topics that no member owns, too."""
        if unowned != self._unowned:
            self._unowned = unowned
            self.topics |= unowned

    def cut_off(self) -> set[str]:
        """Return the groups whose coordinator did not answer at some time since the last call."""
        shards = self.coordinators.take_away()
        return {name for name, one in self.groups.items() if one.shard in shards} if shards else set()

    def take(self, sample: EndsSample, busy: Collection[str]) -> None:
        """Take a sample of ends; `busy`: groups that rebalance, whose windows begin anew."""
        before = self.sample
        if before is None:
            self.remembered.began = sample.asked_at
        self.sample = sample
        self._learn(sample)
        asking.take(self.groups, sample)
        self._numbering = numbering_of(sample, self._numbering)
        ends = EndsColumns(sample, self._numbering, self._ends)
        self.noticed, self._blocks = measure(self.groups, sample, ends, busy, self.windows, self._blocks)
        self.followed = self.noticed.followed
        since = sample.asked_at - before.asked_at if before is not None else 0
        self.asks = asking.choose(self.groups, sample.at, since)

    def arrived(self, topic: str, partition: int, begin: int, end: int) -> int:
        """Return how many records came to a partition from `begin` to `end` (ms), interpolated.

        At least: what came before the first sample of an end is not counted.
        """
        known = self._ends.get(topic)
        return (
            max(0, known.end_at(partition, end) - known.end_at(partition, begin)) if known is not None else 0
        )

    def next_at(self, topic: str, partition: int, offset: int, since: int) -> int | None:
        """Return when (ms) a record came to a position committed at `since`, as `TopicEnds.next_at`."""
        known = self._ends.get(topic)
        return None if known is None else known.next_at(partition, offset, since)

    def apart(self, topic: str, partition: int, begin: int, end: int) -> int:
        """Return how far apart (ms) records came to a partition, as `TopicEnds.apart`."""
        known = self._ends.get(topic)
        return 0 if known is None else known.apart(partition, begin, end)

    def quiet_at(self, group: str) -> int | None:
        """Return when (ms) nothing waited for a group, if that is so at the newest sample."""
        known = self.groups.get(group)
        lag = known.lag if known is not None else None
        return lag.as_of if lag is not None and lag.records == 0 and not lag.unknown else None

    def _learn(self, sample: EndsSample) -> None:
        self.shortened = []
        for topic, ends in sample.latest.items():
            topic_id = sample.ids.get(topic, "")
            if topic not in self._ends and (log := self.remembered.log(topic)) is not None:
                self._ids[topic], self._ends[topic] = log.topic_id, TopicEnds()
                self._ends[topic].add(log.at, log.ends)
            if topic_id != self._ids.get(topic, topic_id):
                self._ends.pop(topic, None)
            self._ids[topic] = topic_id
            back = self._ends.setdefault(topic, TopicEnds()).add(sample.asked_at, ends)
            self.shortened += [Shortened(topic, *one) for one in back]
        for topic in self._ends.keys() - sample.latest.keys() - self.topics:
            del self._ends[topic]
            self._ids.pop(topic, None)
