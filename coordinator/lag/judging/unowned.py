"""Partitions that members subscribe to and no member owns: whole topics, and partitions that a topic gained.

No record says whether a subscribed topic exists, or how many partitions a topic has. Here the ends of topics
without an owner are asked for like those of consumed topics (asking creates none). The partitions that the
brokers describe are compared with those that are assigned. A whole topic is missing from the assignment if
the generation began after the brokers first described it. Else the group has as long as clients may take to
hear of it: they refresh their metadata every five minutes by default, sarama every ten
(`metadata.max.age.ms`, `Metadata.RefreshFrequency`); kafka-go never does unless `WatchPartitionChanges` is
set. The finding is critical once records arrive that no member reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.finding import MAX_TOPICS, Incident
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag.incidents import lag_finding, lag_resolved
from rebalance_monitor.coordinator.lag.owners import CUT, partitions
from rebalance_monitor.coordinator.state.membership import STREAMS_ASSIGNOR
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.settings import DetectionSettings

    Summaries = Mapping[str, Mapping[str, Any]]

METADATA_MS = 630_000
"""The longest default of clients, ten minutes, and half a minute for the rebalance that follows."""

SETTLED_MS = 10_000
"""A cooperative rebalance hands over in a second generation, which follows the first at once."""

_NAMED = 5
_UNSETTLED = frozenset({Status.PREPARING, Status.COMPLETING, Status.ASSIGNING, Status.RECONCILING})
"""The group has not got its next assignment: what it lacked it lacks still."""


class Described(msgspec.Struct, array_like=True):
    """A topic as the brokers describe it: since which sample (ms), and since which with so many partitions.

    `first` and `last`: the ends of its partitions at that first sample (0 of one that came later), and now.
    """

    since: int
    grown: int
    first: tuple[int, ...]
    last: tuple[int, ...]

    def arrived(self, partitions: Iterable[int]) -> int:
        """Return how many records came to these partitions since the first sample."""
        return sum(self.last[one] - self.first[one] for one in partitions if one < len(self.last))


class Opened(Incident, array_like=True):
    """An open incident, its topics, and whether records were seen to arrive there."""

    topics: tuple[str, ...]
    arriving: bool


class _Memory(msgspec.Struct):
    described: dict[str, Described] = {}
    open: dict[str, Opened] = {}


class Unowned:
    """Opens and resolves; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: dict[str, Any] | None = None
    ) -> None:
        self._settings, self._cluster = settings, cluster
        self._memory = msgspec.convert(state or {}, _Memory)
        self._lacking: dict[str, dict[str, Collection[int]]] = {}
        self._compared: dict[str, Mapping[str, Any]] = {}
        """The summary of each group that was compared with the partitions that topics have."""
        self._counts: dict[str, int] = {}
        self._wanted: dict[str, tuple[str, ...]] | None = None

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        found: dict[str, Any] = msgspec.to_builtins(self._memory)
        return found

    @property
    def opened(self) -> frozenset[str]:
        """Incidents that are open."""
        return frozenset(one.incident for one in self._memory.open.values())

    def on_sample(self, sample: EndsSample, summaries: Summaries, busy: Collection[str]) -> list[Finding]:
        """Judge every group at a sample; `busy`: groups that rebalance, of which nothing new is said."""
        lacking = self._lacking = self._compare(sample, summaries)
        named = {topic for known in self._memory.open.values() for topic in known.topics}
        self._describe(sample, named.union(*lacking.values()))
        found: list[Finding] = []
        for group in self._memory.open.keys() - lacking.keys():
            state = summaries.get(group, {}).get("state")
            if state not in _UNSETTLED:
                found += self.end(group, sample.at, "completed" if state == Status.STABLE else "withdrawn")
        for group, lacks in lacking.items():
            if group not in busy:
                found += self._judge(group, summaries[group], lacks, sample.at)
        return found

    def wanted(self, summaries: Summaries, fresh: Summaries, removed: Iterable[str] = ()) -> frozenset[str]:
        """Return the topics without an owner of all groups: whose ends are asked for.

        `fresh`: the summaries that are new since the last call; the first one reads all.
        """
        known = self._wanted
        if known is None:
            known, fresh = {}, summaries
            self._wanted = known
        for group in removed:
            known.pop(group, None)
        for group, summary in fresh.items():
            if topics := unowned_of(summary):
                known[group] = topics
            else:
                known.pop(group, None)
        return frozenset(topic for topics in known.values() for topic in topics)

    def _compare(self, sample: EndsSample, summaries: Summaries) -> dict[str, dict[str, Collection[int]]]:
        """Return group -> what it lacks, of the settled groups that lack anything.

        A group that lacked nothing lacks nothing still, unless its summary is another one, or a topic has got
        more partitions.
        """
        counts = {topic: len(ends) for topic, ends in sample.latest.items()}
        if counts != self._counts:
            self._counts, self._compared = counts, {}
        before, self._compared = self._compared, dict(summaries)
        return {
            group: lacks
            for group, summary in summaries.items()
            if (before.get(group) is not summary or group in self._lacking)
            and summary.get("state") == Status.STABLE
            and (lacks := self._lacks(summary, sample))
        }

    def _lacks(self, summary: Mapping[str, Any], sample: EndsSample) -> dict[str, Collection[int]]:
        """Return topic -> its partitions without an owner; of a topic that nobody owns none may be known."""
        found: dict[str, Collection[int]] = {
            topic: range(self._count(topic, sample)) for topic in unowned_of(summary)
        }
        for topic, owned in assigned(summary).items():
            count = self._count(topic, sample)
            if count > len(owned):
                found[topic] = [one for one in range(count) if one not in owned]
        return found

    def _count(self, topic: str, sample: EndsSample) -> int:
        """Return how many partitions a topic has: what was known, where a sample has no answer."""
        known = self._memory.described.get(topic)
        before = () if known is None or topic in sample.gone else known.last
        return len(sample.latest.get(topic, before))

    def end(self, group: str, at: int, resolution: str) -> list[Finding]:
        """Resolve what is open of a group at `at` (ms)."""
        known = self._memory.open.pop(group, None)
        if known is None:
            return []
        kind = Kind.PARTITIONS_UNASSIGNED
        return [
            lag_resolved(
                self._settings,
                self._cluster,
                kind,
                group,
                known,
                at,
                resolution,
                topics=known.topics[:MAX_TOPICS],
                topics_total=len(known.topics),
                details={},
            )
        ]

    def _describe(self, sample: EndsSample, topics: AbstractSet[str]) -> None:
        """Keep what the brokers say of these topics; a topic without an answer stays as it was."""
        known = self._memory.described
        for topic in known.keys() - topics | (known.keys() & sample.gone):
            del known[topic]
        for topic in topics & sample.latest.keys():
            ends = sample.latest[topic]
            if not ends or min(ends) < 0:
                continue
            before = known.get(topic)
            # Fewer records or partitions than before: the topic was made anew.
            if before is None or len(ends) < len(before.last) or sum(ends) < sum(before.last):
                before = known[topic] = Described(sample.asked_at, sample.asked_at, ends, ends)
            if len(ends) > len(before.last):
                before.grown = sample.asked_at
                before.first += (0,) * (len(ends) - len(before.last))
            before.last = ends

    def _judge(
        self, group: str, summary: Mapping[str, Any], lacks: Mapping[str, Collection[int]], at: int
    ) -> list[Finding]:
        unowned = unowned_of(summary)
        missing = tuple(
            topic for topic in lacks if self._is_missing(topic, summary["at"], at, whole=topic in unowned)
        )
        known = self._memory.open.get(group)
        if not missing:
            is_settled = at >= summary["at"] + SETTLED_MS
            return self.end(group, at, "withdrawn") if known is not None and is_settled else []
        arrived = sum(self._memory.described[topic].arrived(lacks[topic]) for topic in missing)
        count = sum(len(lacks[topic]) for topic in missing)
        if known is not None and (known.arriving or not arrived):
            return []
        since = at if known is None else known.opened_at
        found = lag_finding(
            self._settings,
            self._cluster,
            Kind.PARTITIONS_UNASSIGNED,
            group,
            f"unowned/{summary['generation']}/{summary['at']}/{','.join(missing)}",
            at,
            Severity.CRITICAL if arrived else None,
            phase="opened" if known is None else "updated",
            incident=None if known is None else known.incident,
            opened_at=since,
            members_total=summary["members"],
            generation=summary["generation"],
            group_type=summary["group_type"],
            protocol=summary["protocol"] or None,
            state=summary["state"],
            topics=missing[:MAX_TOPICS],
            topics_total=len(missing),
            partitions_affected=count,
            details={**_named(missing, unowned), "unowned": count, "arrived": arrived},
        )
        self._memory.open[group] = Opened(found.incident or "", since, missing, arriving=arrived > 0)
        return [found]

    def _is_missing(self, topic: str, assigned_at: int, at: int, *, whole: bool) -> bool:
        known = self._memory.described.get(topic)
        if known is None or at < assigned_at + SETTLED_MS:
            return False
        if not whole:
            # A leader may have assigned by the number of partitions that it knew.
            return at >= known.grown + METADATA_MS
        return assigned_at > known.since or at >= max(known.since, assigned_at) + METADATA_MS


def unowned_of(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the topics that members of a settled group subscribe to and none owns."""
    return tuple(summary.get("unowned_topics", ())) if summary.get("state") == Status.STABLE else ()


def assigned(summary: Mapping[str, Any]) -> dict[str, set[int]]:
    """Return topic -> partitions that its members own; nothing where the summary does not list all of them.

    Nor of groups in which not every partition needs an owner: of Kafka Streams, Connect and share groups.
    """
    members = summary.get("member_list", ())
    found: dict[str, set[int]] = {}
    if not _is_plain(summary) or len(members) < int(summary.get("members") or 0):
        return found
    for member in members:
        given = member.get("assigned", {})
        if len(given) >= MAX_TOPICS or any(CUT in ranges for ranges in given.values()):
            return {}
        for topic, ranges in given.items():
            found.setdefault(topic, set()).update(partitions(ranges))
    return found


def _is_plain(summary: Mapping[str, Any]) -> bool:
    if summary.get("group_type") == "classic":
        return summary.get("protocol_type") == "consumer" and summary.get("protocol") != STREAMS_ASSIGNOR
    return summary.get("group_type") == "consumer"


def _named(missing: Collection[str], unowned: Collection[str]) -> Details:
    parts = {
        "unowned_topics": [topic for topic in missing if topic in unowned],
        "grown_topics": [topic for topic in missing if topic not in unowned],
    }
    return {name: ", ".join(topics[:_NAMED]) for name, topics in parts.items() if topics}
