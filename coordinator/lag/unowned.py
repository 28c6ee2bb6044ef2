"""Partitions that members subscribe to and no member owns: whole topics, and partitions that a topic gained.

No record says whether a subscribed topic exists, or how many partitions a topic has. Here the ends of topics
without an owner are asked for like those of consumed topics (asking creates none). The partitions that the
brokers describe are compared with those that are assigned. A whole topic is missing from the assignment if
the generation began after the brokers first described it. Else the group has as long as clients may take to
hear of it: they refresh their metadata every five minutes by default, sarama every ten
(`metadata.max.age.ms`, `Metadata.RefreshFrequency`); kafka-go never does unless it is told to watch. The
finding is critical once records arrive that nobody will read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.finding import MAX_TOPICS
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag.judging import lag_finding
from rebalance_monitor.coordinator.lag.owners import CUT, partitions
from rebalance_monitor.coordinator.state.membership import STREAMS_ASSIGNOR
from rebalance_monitor.coordinator.state.state_machine import Status
from rebalance_monitor.decoders.layouts.twins import replace

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
_Version = tuple[int | None, int]


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


class Opened(msgspec.Struct, array_like=True):
    """An open incident: its id, since when (ms), the topics, and whether records were seen to arrive."""

    incident: str
    opened_at: int
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
        self._assigned: dict[str, tuple[_Version, dict[str, set[int]]]] = {}

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
        lacking = {
            group: lacks
            for group, summary in summaries.items()
            if summary.get("state") == Status.STABLE and (lacks := self._lacks(group, summary, sample))
        }
        self._describe(sample, {topic for lacks in lacking.values() for topic in lacks})
        for group in self._assigned.keys() - summaries.keys():
            del self._assigned[group]
        found: list[Finding] = []
        for group in self._memory.open.keys() - lacking.keys():
            is_stable = summaries.get(group, {}).get("state") == Status.STABLE
            found += self.end(group, sample.at, "completed" if is_stable else "withdrawn")
        for group, lacks in lacking.items():
            if group not in busy:
                found += self._judge(group, summaries[group], lacks, sample.at)
        return found

    def _lacks(
        self, group: str, summary: Mapping[str, Any], sample: EndsSample
    ) -> dict[str, Collection[int]]:
        """Return topic -> its partitions without an owner; of a topic that nobody owns none may be known."""
        found: dict[str, Collection[int]] = {
            topic: range(self._count(topic, sample)) for topic in unowned_of(summary)
        }
        version = summary["generation"], summary["at"]
        known = self._assigned.get(group)
        if known is None or known[0] != version:
            known = self._assigned[group] = version, assigned(summary)
        for topic, owned in known[1].items():
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
        fields = {"opened_at": known.opened_at, "resolution": resolution, "details": {}}
        return [self._finding(group, known, at, "resolved", f"{known.incident}/resolved", None, fields)]

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
            return self.end(group, at, "withdrawn") if known is not None else []
        arrived = sum(self._memory.described[topic].arrived(lacks[topic]) for topic in missing)
        partitions = sum(len(lacks[topic]) for topic in missing)
        if known is not None and (known.arriving or not arrived):
            return []
        anchor = f"unowned/{summary['generation']}/{summary['at']}/{','.join(missing)}"
        phase = "updated" if known is not None else "opened"
        if known is None:
            known = self._memory.open[group] = Opened("", at, missing, arriving=False)
        known.arriving, known.topics = arrived > 0, missing
        fields = {
            "opened_at": known.opened_at,
            "members_total": summary["members"],
            "generation": summary["generation"],
            "group_type": summary["group_type"],
            "protocol": summary["protocol"] or None,
            "state": summary["state"],
            "partitions_affected": partitions,
            "details": {**_named(missing, unowned), "unowned": partitions, "arrived": arrived},
        }
        severity = Severity.CRITICAL if arrived else None
        return [self._finding(group, known, at, phase, anchor, severity, fields)]

    def _is_missing(self, topic: str, assigned_at: int, at: int, *, whole: bool) -> bool:
        known = self._memory.described.get(topic)
        if known is None or at < assigned_at + SETTLED_MS:
            return False
        if not whole:
            # A leader may have assigned by the number of partitions that it knew.
            return at >= known.grown + METADATA_MS
        return assigned_at > known.since or at >= max(known.since, assigned_at) + METADATA_MS

    def _finding(
        self,
        group: str,
        known: Opened,
        at: int,
        phase: str,
        anchor: str,
        severity: Severity | None,
        fields: dict[str, Any],
    ) -> Finding:
        found = lag_finding(
            self._settings,
            self._cluster,
            Kind.PARTITIONS_UNASSIGNED,
            group,
            anchor,
            at,
            severity,
            phase=phase,
            incident=known.incident or None,
            topics=known.topics[:MAX_TOPICS],
            topics_total=len(known.topics),
            **fields,
        )
        if known.incident:
            return found
        known.incident = found.id
        return replace(found, incident=found.id)


def wanted(summaries: Summaries) -> frozenset[str]:
    """Return the topics without an owner of all groups: whose ends are asked for."""
    return frozenset(topic for summary in summaries.values() for topic in unowned_of(summary))


def unowned_of(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the topics that members of a settled group subscribe to and none owns."""
    return tuple(summary.get("unowned_topics", ())) if summary.get("state") == Status.STABLE else ()


def assigned(summary: Mapping[str, Any]) -> dict[str, set[int]]:
    """Return topic -> partitions that its members own; nothing where the summary does not list all of them.

    Nor of groups in which not every partition needs an owner: of Kafka Streams, Connect and share groups.
    """
    members = summary.get("member_list", ())
    found: dict[str, set[int]] = {}
    if not _is_plain(summary) or len(members) < summary["members"]:
        return found
    for member in members:
        given = member["assigned"]
        if len(given) >= MAX_TOPICS or any(CUT in ranges for ranges in given.values()):
            return {}
        for topic, ranges in given.items():
            found.setdefault(topic, set()).update(partitions(ranges))
    return found


def _is_plain(summary: Mapping[str, Any]) -> bool:
    if summary["group_type"] == "classic":
        return str(summary["protocol_type"]) == "consumer" and str(summary["protocol"]) != STREAMS_ASSIGNOR
    return bool(summary["group_type"] == "consumer")


def _named(missing: Collection[str], unowned: Collection[str]) -> Details:
    parts = {
        "unowned_topics": [topic for topic in missing if topic in unowned],
        "grown_topics": [topic for topic in missing if topic not in unowned],
    }
    return {name: ", ".join(topics[:_NAMED]) for name, topics in parts.items() if topics}
