"""Topics that members subscribe to and no member owns: whether they exist, and what arrives there.

No record says whether a subscribed topic exists, so the coordinator only lists those without an owner. Here
the ends of such a topic are asked for as the ends of consumed topics are (asking creates no topic). A topic
that the brokers describe is missing from the assignment if the current generation began after they first
described it, or once every client must have heard of it: clients refresh their metadata every five minutes by
default (`metadata.max.age.ms`). The finding is critical once records arrive that no member reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.finding import MAX_TOPICS
from rebalance_monitor.coordinator.findings.incidents import Incident
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag.incidents import lag_finding, lag_resolved
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.settings import DetectionSettings

    Summaries = Mapping[str, Mapping[str, Any]]

METADATA_MS = 300_000
SETTLED_MS = 10_000
"""A cooperative rebalance hands over in a second generation, which follows the first at once."""

_NAMED = 5


class Described(msgspec.Struct, array_like=True):
    """A topic as the brokers describe it: since which sample (ms), its records then, and what it has now."""

    since: int
    first: int
    last: int
    partitions: int


class Opened(Incident, array_like=True):
    """An open incident, its topics, and whether records were seen to arrive there."""

    topics: tuple[str, ...]
    arriving: bool


class _Memory(msgspec.Struct):
    topics: dict[str, Described] = {}
    open: dict[str, Opened] = {}


class Unowned:
    """Opens and resolves; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: dict[str, Any] | None = None
    ) -> None:
        self._settings, self._cluster = settings, cluster
        self._memory = msgspec.convert(state or {}, _Memory)

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
        self._describe(sample, wanted(summaries))
        found: list[Finding] = []
        for group in [name for name in self._memory.open if not unowned_of(summaries.get(name, {}))]:
            is_stable = summaries.get(group, {}).get("state") == Status.STABLE
            found += self.end(group, sample.at, "completed" if is_stable else "withdrawn")
        for group, summary in summaries.items():
            topics = unowned_of(summary)
            if topics and group not in busy:
                found += self._judge(group, summary, topics, sample.at)
        return found

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
        known = self._memory.topics
        for topic in known.keys() - topics | (known.keys() & sample.gone):
            del known[topic]
        for topic in topics & sample.latest.keys():
            ends = sample.latest[topic]
            if not ends or min(ends) < 0:
                continue
            records, before = sum(ends), known.get(topic)
            # Fewer records than before: the topic was made anew.
            if before is None or records < before.last:
                before = known[topic] = Described(sample.asked_at, records, records, len(ends))
            before.last, before.partitions = records, len(ends)

    def _judge(
        self, group: str, summary: Mapping[str, Any], topics: Collection[str], at: int
    ) -> list[Finding]:
        missing = tuple(topic for topic in topics if self._is_missing(topic, summary["at"], at))
        known = self._memory.open.get(group)
        if not missing:
            return self.end(group, at, "withdrawn") if known is not None else []
        described = [self._memory.topics[topic] for topic in missing]
        arrived = sum(one.last - one.first for one in described)
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
            partitions_affected=sum(one.partitions for one in described),
            details={
                "unowned_topics": ", ".join(missing[:_NAMED]),
                "unowned": sum(one.partitions for one in described),
                "arrived": arrived,
            },
        )
        self._memory.open[group] = Opened(found.incident or "", since, missing, arriving=arrived > 0)
        return [found]

    def _is_missing(self, topic: str, assigned_at: int, at: int) -> bool:
        known = self._memory.topics.get(topic)
        if known is None or at < assigned_at + SETTLED_MS:
            return False
        return assigned_at > known.since or at >= max(known.since, assigned_at) + METADATA_MS


def wanted(summaries: Summaries) -> frozenset[str]:
    """Return the topics without an owner of all groups: whose ends are asked for."""
    return frozenset(topic for summary in summaries.values() for topic in unowned_of(summary))


def unowned_of(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the topics that members of a settled group subscribe to and none owns."""
    return tuple(summary.get("unowned_topics", ())) if summary.get("state") == Status.STABLE else ()
