"""Incidents of groups whose partitions stand still or fall behind.

One incident stands for all partitions of a group that one verdict is about; it names the worst. It is over
when the partition that it was opened for has moved on and no other is like it. Where a reader has read up to
a topic's last stable offset, the open transaction there is the cause, and no member is named. A group that
rebalances, or is empty, or of which no summary is known, is not judged: what it opened stays open. Ids are
made of the committed offset that stands still, so the same standstill has the same id however it was sampled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MAX_TOPICS, CauseEntry, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag import windows
from rebalance_monitor.coordinator.lag.costs.impact import WEIGHED, impact, weigh
from rebalance_monitor.coordinator.lag.ends import AGAIN_MS
from rebalance_monitor.coordinator.lag.incidents import Open, lag_finding, lag_resolved, place_of
from rebalance_monitor.coordinator.lag.judging.continuing import STANDING, Silences, silence_of
from rebalance_monitor.coordinator.lag.measured import Source
from rebalance_monitor.coordinator.lag.owners import Reader, readers_of, unlisted
from rebalance_monitor.coordinator.lag.windows import Verdict
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.measured import GroupLag, PartitionLag
    from rebalance_monitor.coordinator.lag.windows import Track
    from rebalance_monitor.coordinator.settings import DetectionSettings

KINDS_OF = {
    Verdict.STALLED: Kind.CONSUMPTION_STALLED,
    Verdict.STOPPED: Kind.CONSUMPTION_STOPPED,
    Verdict.BEHIND: Kind.FALLING_BEHIND,
}
MAX_MEMBERS = 20
ANSWERS = 3
"""A window holds at least so many answers, where the brokers are asked for the positions."""

UNPROVEN_MS = 600_000
"""The least window of a group that has committed nothing since it settled: how often it does is not known."""

_STANDS_STILL = frozenset({Verdict.STALLED, Verdict.STOPPED})
_HELD = CauseEntry(
    Cause.TRANSACTION_OPEN, 1.0, "the last stable offset of the topic stands where the group has read to"
)


class Hit(NamedTuple):
    """One partition that a verdict is about."""

    topic: str
    lag: PartitionLag
    track: Track
    reader: Reader


class Standstills:
    """Opens and resolves; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: dict[str, Any] | None = None
    ) -> None:
        self._settings, self._cluster = settings, cluster
        self._open = msgspec.convert(state or {}, dict[str, dict[str, Open]])
        self.silences: Silences = {}
        """Silent members of each group, whose incidents a standstill of theirs continues."""

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        found: dict[str, Any] = msgspec.to_builtins(self._open)
        return found

    @property
    def opened(self) -> frozenset[str]:
        """Incidents that are open."""
        return frozenset(one.incident for kinds in self._open.values() for one in kinds.values())

    def concerned(self) -> AbstractSet[str]:
        """Return the groups that have something open."""
        return self._open.keys()

    def open_of(self, group: str) -> Mapping[str, Open]:
        """Return the open incidents of a group by kind."""
        return self._open.get(group, {})

    def on_sample(self, group: str, consumed: Consumed, summary: Mapping[str, Any]) -> list[Finding]:
        """Judge a group at its newest lag; `summary`: its last one."""
        lag = consumed.lag
        if lag is None:
            return []
        hits = self._hits(group, consumed, lag, summary)
        found: list[Finding] = []
        for verdict, kind in KINDS_OF.items():
            known = self._open.get(group, {}).get(kind.value)
            if known is None and hits[verdict]:
                opened = self._opened(kind, group, hits[verdict], consumed, lag, summary)
                found.append(self._weighed(opened, consumed) if kind in WEIGHED else opened)
            elif known is not None and not hits[verdict] and _has_moved(known, consumed):
                found.append(self._resolved(kind, group, known, lag.at, "quiet"))
        return found

    def end(self, group: str, at: int, resolution: str) -> list[Finding]:
        """Resolve everything of a group at `at` (ms): it is gone, or has no members any more."""
        kinds = list(self._open.get(group, {}).items())
        return [self._resolved(Kind(kind), group, known, at, resolution) for kind, known in kinds]

    def _hits(
        self, group: str, consumed: Consumed, lag: GroupLag, summary: Mapping[str, Any]
    ) -> dict[Verdict, list[Hit]]:
        settings = self._settings.for_group(group)
        least, every = _window_of(lag, settings)
        settled = int(summary.get("at", -1))
        found: dict[Verdict, list[Hit]] = {verdict: [] for verdict in Verdict}
        readers: Mapping[tuple[str, int], Reader] | None = None
        for place, topic, partition in consumed.restless():
            one, track = lag.topics[topic].of(partition), consumed.track_at(place)
            readers = readers_of(summary, consumed.places) if readers is None else readers
            reader = readers.get((topic, partition)) or unlisted(summary, topic)
            if one is None or reader is None:
                # No member is assigned it, so none stands still.
                continue
            verdict = windows.judge(track, lag.at, reader.owner, least, settings.falling_behind_ms, every)
            if verdict in _STANDS_STILL and _is_early(track, consumed, settled, lag.at):
                continue
            if verdict is not Verdict.BEHIND or not one.waits_for_transaction:
                found[verdict].append(Hit(topic, one, track, reader))
        if self._settings.may_pause(group):
            found[Verdict.STALLED] = found[Verdict.STOPPED] = []
        return found

    def _opened(
        self,
        kind: Kind,
        group: str,
        hits: list[Hit],
        consumed: Consumed,
        lag: GroupLag,
        summary: Mapping[str, Any],
    ) -> Finding:
        settings = self._settings.for_group(group)
        hits = [hit for hit in hits if not hit.lag.waits_for_transaction] or hits
        worst = max(hits, key=lambda hit: (hit.lag.records or 0, hit.topic, -hit.lag.partition))
        track = worst.track
        anchor = f"lag/{worst.topic}/{worst.lag.partition}/{worst.lag.offset}/{worst.lag.committed_at}"
        since = track.rising if kind is Kind.FALLING_BEHIND else track.grown
        members = () if worst.lag.waits_for_transaction else tuple(_members(hits))
        names = tuple(member.member_id for member in members)
        silence = silence_of(self.silences, group, names) if kind in STANDING else None
        details: Details = {
            "topic": worst.topic,
            "partition": worst.lag.partition,
            "partitions": len(hits),
            "waiting": sum(hit.lag.records or 0 for hit in hits),
            "since": since,
            "committed_offset": worst.lag.offset,
            "window_ms": windows.window(track, worst.reader.owner, *_window_of(lag, settings)),
        }
        if kind is Kind.CONSUMPTION_STOPPED:
            details["moving"] = consumed.moving(since)
        ages = [hit.lag.age_ms for hit in hits if hit.lag.age_ms is not None]
        if ages:
            details["age_ms"] = max(ages)
        if kind is Kind.FALLING_BEHIND:
            details["risen"] = track.lag - track.low
        late = settings.falling_behind_warning_ms
        is_late = kind is Kind.FALLING_BEHIND and late is not None and max(ages, default=0) >= late
        topics = tuple(dict.fromkeys(hit.topic for hit in hits))
        opened_at = since if silence is None else silence.opened_at
        found = lag_finding(
            self._settings,
            self._cluster,
            kind,
            group,
            anchor,
            lag.at,
            Severity.WARNING if is_late else None,
            phase="opened" if silence is None else "updated",
            incident=None if silence is None else silence.incident,
            opened_at=opened_at,
            topics=topics[:MAX_TOPICS],
            topics_total=len(topics),
            causes=(_HELD,) if worst.lag.waits_for_transaction else (),
            members=members,
            members_total=summary.get("members"),
            partitions_affected=len(hits),
            details=details,
            **_place(summary),
        )
        self._open.setdefault(group, {})[kind.value] = Open(
            found.incident or "", opened_at, worst.topic, worst.lag.partition, worst.lag.offset, names
        )
        return found

    def _weighed(self, opened: Finding, consumed: Consumed) -> Finding:
        """Return a finding with the severity that its impact gives it."""
        since = int(opened.details["since"])
        # The window of a group that commits rarely is longer than its totals are remembered.
        is_known = any(at < since for at, _ in consumed.totals)
        is_at_rest = not is_known and opened.details.get("moving") == 0
        found = impact(consumed.totals, since, consumed.at_rest() if is_at_rest else -1)
        severity = weigh(opened, found, self._settings)
        return replace(opened, severity=severity, details={**opened.details, "impact": str(found)})

    def _resolved(self, kind: Kind, group: str, known: Open, at: int, resolution: str) -> Finding:
        kinds = self._open[group]
        del kinds[kind.value]
        if not kinds:
            del self._open[group]
        return lag_resolved(
            self._settings, self._cluster, kind, group, known, at, resolution, **place_of(known)
        )


def _window_of(lag: GroupLag, settings: DetectionSettings) -> tuple[int, int]:
    """Return the least window (ms), and how often (ms) positions come at least."""
    if lag.source is Source.TOPIC:
        return settings.lag_window_ms, windows.PUBLISHED_MS
    return max(settings.lag_window_ms, ANSWERS * AGAIN_MS), 2 * AGAIN_MS


def _is_early(track: Track, consumed: Consumed, settled: int, at: int) -> bool:
    """Whether the partition was not committed since the group settled (ms), and need not have been by `at`.

    Members commit as they join and leave, which shows nothing of how often they do in between.
    """
    if track.committed > settled:
        return False
    slowest = consumed.slowest(settled)
    return at - track.grown < (UNPROVEN_MS if slowest < 0 else windows.COMMITS * slowest)


def _has_moved(known: Open, consumed: Consumed) -> bool:
    """Whether the partition that an incident was opened for has committed another offset, or is gone."""
    track = consumed.track(known.topic, known.partition)
    return track is None or track.offset != known.offset or track.lag == 0


def _place(summary: Mapping[str, Any]) -> dict[str, Any]:
    names = ("group_type", "protocol_type", "protocol", "state", "generation", "leader")
    return {name: summary.get(name) or None for name in names}


def _members(hits: Iterable[Hit]) -> list[MemberEntry]:
    """Return the members behind the hits, each once."""
    seen = {hit.reader.member["member_id"]: hit.reader for hit in hits if hit.reader.member}
    return [
        MemberEntry(
            member_id=reader.member["member_id"],
            instance_id=reader.member["instance_id"],
            client_id=reader.member["client_id"],
            host=reader.member["host"],
            host_is_stale=False,
            role="kept",
            session_timeout_ms=reader.member["session_timeout_ms"],
            rebalance_timeout_ms=reader.member["rebalance_timeout_ms"],
            last_seen=reader.owner.committed if reader.owner.committed >= 0 else None,
            partitions=reader.member["partitions"],
        )
        for reader in list(seen.values())[:MAX_MEMBERS]
    ]
