"""Incidents of groups whose partitions stand still or fall behind.

One incident stands for all partitions of a group that one verdict is about; it names the worst. It is over
when the partition that it was opened for has moved on and no other is like it. Where a reader has read up to
a topic's last stable offset, the open transaction there is the cause, and no member is named. A group that
rebalances, or of which no summary is known, is not judged: what it opened stays open. So does what a group
has open when it loses its last member, until nothing waits any more: members that are gone read nothing. An
incident becomes louder as the last partition of the group stops; its severity never sinks. Ids are made of
the committed offset that stands still, so the same standstill has the same id however it was sampled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.kinds import Kind, Severity, louder
from rebalance_monitor.coordinator.lag import windows
from rebalance_monitor.coordinator.lag.costs.impact import WEIGHED, impact, weigh
from rebalance_monitor.coordinator.lag.incidents import Open, lag_finding, lag_resolved, place_of
from rebalance_monitor.coordinator.lag.judging.continuing import STANDING, Silences, silence_of
from rebalance_monitor.coordinator.lag.judging.described import Hit, described, stated, window_of
from rebalance_monitor.coordinator.lag.owners import Reader, readers_of, unlisted
from rebalance_monitor.coordinator.lag.windows import Verdict
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Mapping
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

UNPROVEN_MS = 600_000
"""The least window of a group that has committed nothing since it settled: how often it does is not known."""

_STANDS_STILL = frozenset({Verdict.STALLED, Verdict.STOPPED})


class Standing(Open, array_like=True):
    """An open incident, since when (ms) its partitions stand still, and how severe it is.

    `usual`: the most that waited for the group before, -1 where unknown. `emptied`: the group has lost its
    last member, and that was published.
    """

    since: int = -1
    usual: int = -1
    severity: Severity = Severity.WARNING
    emptied: bool = False


class Standstills:
    """Opens and resolves; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: dict[str, Any] | None = None
    ) -> None:
        self._settings, self._cluster = settings, cluster
        self._open = msgspec.convert(state or {}, dict[str, dict[str, Standing]])
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

    def open_of(self, group: str) -> Mapping[str, Standing]:
        """Return the open incidents of a group by kind."""
        return self._open.get(group, {})

    def on_sample(self, group: str, consumed: Consumed, summary: Mapping[str, Any]) -> list[Finding]:
        """Judge a group at its newest lag; `summary`: its last one."""
        lag = consumed.lag
        if lag is None:
            return []
        hits = self._hits(group, consumed, lag, summary)
        found: list[Finding] = []
        for one in self._open.get(group, {}).values():
            one.emptied = False
        for verdict, kind in KINDS_OF.items():
            known = self._open.get(group, {}).get(kind.value)
            if known is None and hits[verdict]:
                found.append(self._opened(kind, group, hits[verdict], consumed, lag, summary))
            elif known is not None and not hits[verdict] and _has_moved(known, consumed):
                found.append(self._resolved(kind, group, known, lag.at, "quiet"))
            elif known is not None and hits[verdict] and kind in WEIGHED:
                found += self._raised(kind, group, known, hits[verdict], consumed, lag, summary)
        return found

    def on_empty(self, group: str, consumed: Consumed, summary: Mapping[str, Any]) -> list[Finding]:
        """Let what a group has open go on while it has no members; `summary`: its last one."""
        found: list[Finding] = []
        lag = consumed.lag
        if lag is None:
            return found
        for name, known in list(self._open.get(group, {}).items()):
            track = consumed.track(known.topic, known.partition)
            if track is None or track.lag == 0:
                found.append(self._resolved(Kind(name), group, known, lag.at, "quiet"))
            elif not known.emptied:
                found.append(self._emptied(Kind(name), group, known, consumed, lag, summary))
        return found

    def end(self, group: str, at: int, resolution: str) -> list[Finding]:
        """Resolve everything of a group at `at` (ms): it is gone."""
        kinds = list(self._open.get(group, {}).items())
        return [self._resolved(Kind(kind), group, known, at, resolution) for kind, known in kinds]

    def _hits(
        self, group: str, consumed: Consumed, lag: GroupLag, summary: Mapping[str, Any]
    ) -> dict[Verdict, list[Hit]]:
        settings = self._settings.for_group(group)
        least, every = window_of(lag, settings)
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
            if verdict in _STANDS_STILL and _is_early(track, reader.owner, consumed, settled, lag.at):
                continue
            if verdict is Verdict.BEHIND and (
                one.waits_for_transaction or _keeps_up(one, windows.window(track, reader.owner, least, every))
            ):
                continue
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
        what = described(kind, hits, consumed, lag, summary, self._settings.for_group(group))
        worst, names = what.worst, what.members
        silence = silence_of(self.silences, group, names) if kind in STANDING else None
        opened_at = what.since if silence is None else silence.opened_at
        # The window of a group that commits rarely is longer than its totals are remembered.
        usual = max((records for at, records in consumed.totals if at < what.since), default=-1)
        if usual < 0 and what.details.get("moving") == 0:
            usual = consumed.at_rest()
        found = lag_finding(
            self._settings,
            self._cluster,
            kind,
            group,
            f"lag/{worst.topic}/{worst.lag.partition}/{worst.lag.offset}/{worst.lag.committed_at}",
            lag.at,
            what.severity,
            phase="opened" if silence is None else "updated",
            incident=None if silence is None else silence.incident,
            opened_at=opened_at,
            details=what.details,
            **what.fields,
        )
        if kind in WEIGHED:
            found = self._weighed(found, consumed, what.since, usual)
        self._open.setdefault(group, {})[kind.value] = Standing(
            found.incident or "",
            opened_at,
            worst.topic,
            worst.lag.partition,
            worst.lag.offset,
            names,
            since=what.since,
            usual=usual,
            severity=found.severity,
        )
        return found

    def _raised(
        self,
        kind: Kind,
        group: str,
        known: Standing,
        hits: list[Hit],
        consumed: Consumed,
        lag: GroupLag,
        summary: Mapping[str, Any],
    ) -> list[Finding]:
        """Return the update of an incident that is worse than it was: nothing of the group moves any more."""
        if known.severity is Severity.CRITICAL:
            return []
        what = described(kind, hits, consumed, lag, summary, self._settings.for_group(group))
        found = lag_finding(
            self._settings,
            self._cluster,
            kind,
            group,
            f"{known.incident}/raised",
            lag.at,
            phase="updated",
            incident=known.incident,
            opened_at=known.opened_at,
            details=what.details,
            **what.fields,
        )
        found = self._weighed(found, consumed, known.since, known.usual)
        if louder(found.severity, known.severity) is known.severity:
            return []
        known.severity = found.severity
        known.members = what.members
        return [found]

    def _weighed(self, finding: Finding, consumed: Consumed, since: int, usual: int) -> Finding:
        """Return a finding with the severity that its impact gives it, if it stands still since then (ms)."""
        found = impact(consumed.totals, since, usual)
        severity = weigh(finding, found, self._settings)
        return replace(finding, severity=severity, details={**finding.details, "impact": str(found)})

    def _emptied(
        self,
        kind: Kind,
        group: str,
        known: Standing,
        consumed: Consumed,
        lag: GroupLag,
        summary: Mapping[str, Any],
    ) -> Finding:
        """Return the update of an incident whose group has lost its last member."""
        known.emptied = True
        since = int(summary.get("at", lag.at))
        details: Details = {
            "topic": known.topic,
            "partition": known.partition,
            "committed_offset": known.offset,
            "partitions": consumed.partitions,
            "waiting": lag.records or 0,
            "since": known.since,
            "empty_at": since,
        }
        if lag.age_ms is not None:
            details["age_ms"] = lag.age_ms
        return lag_finding(
            self._settings,
            self._cluster,
            kind,
            group,
            f"{known.incident}/emptied/{since}",
            lag.at,
            known.severity,
            phase="updated",
            incident=known.incident,
            opened_at=known.opened_at,
            members_total=0,
            partitions_affected=consumed.partitions,
            topics=(known.topic,),
            topics_total=len(lag.topics),
            details=details,
            **stated(summary),
        )

    def _resolved(self, kind: Kind, group: str, known: Standing, at: int, resolution: str) -> Finding:
        kinds = self._open[group]
        del kinds[kind.value]
        if not kinds:
            del self._open[group]
        return lag_resolved(
            self._settings, self._cluster, kind, group, known, at, resolution, **place_of(known)
        )


def _keeps_up(one: PartitionLag, wide: int) -> bool:
    """Whether the oldest waiting record is younger than a window (ms): it is read in its usual time."""
    return one.age_ms is not None and one.age_ms < wide


def _is_early(track: Track, owner: windows.Owner, consumed: Consumed, settled: int, at: int) -> bool:
    """Whether the partition was not committed since the group settled (ms), and need not have been by `at`.

    Members commit as they join and leave, which shows nothing of how often they do in between. Nor does the
    only commit of a member: how long records had waited for it is chance.
    """
    once = owner.committed >= 0 > owner.cadence
    if track.committed > settled and not once:
        return False
    slowest = consumed.slowest(settled)
    return at - track.grown < (UNPROVEN_MS if slowest < 0 else windows.COMMITS * slowest)


def _has_moved(known: Standing, consumed: Consumed) -> bool:
    """Whether the partition that an incident was opened for has committed another offset, or is gone."""
    track = consumed.track(known.topic, known.partition)
    return track is None or track.offset != known.offset or track.lag == 0
