"""What a rebalance cost: the records that waited for it, and the partitions that stood still.

A finding that stops consumption is given the group's records waiting at the last sample before it stopped,
and the most of any sample since. While its incident is open the samples go on: when no more wait than before,
it has caught up. That, and a severity that the lag raises (`impact.py`), are told as an update. A finding
without samples on both sides carries nothing: not zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.finding import Finding, finding_id, from_json, to_json
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity, louder
from rebalance_monitor.coordinator.lag.impact import WEIGHED, Impact, impact, weigh
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.findings.finding import Details
    from rebalance_monitor.coordinator.lag.board import Consumed
    from rebalance_monitor.coordinator.settings import DetectionSettings

    Totals = Sequence[tuple[int, int]]

COSTED = frozenset({Kind.REBALANCE, Kind.REBALANCE_STUCK, Kind.STORM, Kind.ROLLING_RESTART, Kind.GROUP_EMPTY})
_STOPPED_S = "partition_seconds"


class Stopped(msgspec.Struct, array_like=True):
    """An open incident: its newest finding as JSON, when (ms) consumption stopped, and what waited.

    `before`: records at the last sample before that, `peak` the most since, -1 where unknown; `caught_up`:
    when (ms) no more waited than before. `told`: updates so far. `seconds`: partition-seconds of its
    rebalances.
    """

    finding: str
    since: int
    before: int = -1
    peak: int = -1
    caught_up: int = -1
    told: int = 0
    seconds: float = 0.0


class Costs:
    """Prices findings; `state` is what `snapshot` returned, None for a new start."""

    def __init__(self, settings: DetectionSettings, state: dict[str, Any] | None = None) -> None:
        self._settings = settings
        self._open = msgspec.convert(state or {}, dict[str, dict[str, Stopped]])

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        found: dict[str, Any] = msgspec.to_builtins(self._open)
        return found

    def price(self, finding: Finding, consumed: Consumed | None) -> Finding:
        """Return a finding with what it cost so far, and the severity that this gives it."""
        group = finding.group
        if group is None or finding.kind not in COSTED or finding.history:
            return finding
        totals = consumed.totals if consumed is not None else ()
        since = _stopped_at(finding)
        seconds = _partition_seconds(finding, consumed)
        if finding.kind is Kind.REBALANCE:
            for one in self._open.get(group, {}).values():
                one.seconds += seconds
        known = self._of(finding)
        if known is None:
            known = Stopped("", since, *_waiting(totals, since))
        known.seconds = known.seconds or seconds
        found = impact(totals, known.since)
        severity = weigh(finding, found, self._settings)
        details: Details = {**finding.details, **_details(known)}
        if finding.kind in WEIGHED and found is not Impact.UNKNOWN:
            details["impact"] = str(found)
        priced = replace(finding, severity=severity, details=details)
        self._remember(priced, known)
        return priced

    def on_sample(self, group: str, consumed: Consumed) -> list[Finding]:
        """Let the open incidents of a group go on with its newest total."""
        if not consumed.totals:
            return []
        at, total = consumed.totals[-1]
        found = []
        for incident, known in self._open.get(group, {}).items():
            known.peak = max(known.peak, total)
            is_news = known.caught_up < 0 <= known.before < known.peak and total <= known.before
            if is_news:
                known.caught_up = at
            last = from_json(known.finding)
            weight = impact(consumed.totals, known.since)
            severity = louder(weigh(last, weight, self._settings), last.severity)
            if is_news or severity is not last.severity:
                found.append(self._update(group, incident, known, last, at, severity, weight))
        return found

    def forget(self, group: str) -> None:
        """Forget a group that is gone."""
        self._open.pop(group, None)

    def _update(
        self,
        group: str,
        incident: str,
        known: Stopped,
        last: Finding,
        at: int,
        severity: Severity,
        weight: Impact,
    ) -> Finding:
        known.told += 1
        is_weighed = last.kind in WEIGHED
        found = replace(
            last,
            id=finding_id(
                last.cluster, last.kind, group, f"{incident}/cost", phase="updated", sequence=known.told
            ),
            at=at,
            phase="updated",
            detected_at=-1,
            severity=severity,
            details={**last.details, **_details(known), **({"impact": str(weight)} if is_weighed else {})},
        )
        known.finding = to_json(found)
        return found

    def _of(self, finding: Finding) -> Stopped | None:
        return self._open.get(finding.group or "", {}).get(finding.incident or "")

    def _remember(self, finding: Finding, known: Stopped) -> None:
        group, incident = finding.group or "", finding.incident or ""
        if not finding.phase:
            return
        if finding.phase == "resolved":
            self._open.get(group, {}).pop(incident, None)
            if not self._open.get(group, True):
                del self._open[group]
            return
        known.finding = to_json(finding)
        self._open.setdefault(group, {})[incident] = known


def _stopped_at(finding: Finding) -> int:
    """Return when (ms) consumption stopped at the earliest, as far as the finding tells."""
    if finding.kind in {Kind.STORM, Kind.REBALANCE_STUCK} and finding.opened_at is not None:
        # A storm has begun with the first of the rebalances that made it one.
        return finding.opened_at - (
            int(finding.details.get("window_ms", 0)) if finding.kind is Kind.STORM else 0
        )
    if finding.started_at_min is not None:
        return finding.started_at_min
    return finding.at - (finding.stopped_ms_max or finding.stopped_ms_min or 0)


def _waiting(totals: Totals, since: int) -> tuple[int, int]:
    """Return the records that waited at the last sample before `since` (ms), and the most after it; or -1."""
    before = [records for at, records in totals if at <= since]
    after = [records for at, records in totals if at > since]
    return (before[-1] if before else -1), max(after, default=-1)


def _partition_seconds(finding: Finding, consumed: Consumed | None) -> float:
    stopped = finding.stopped_ms_max or finding.stopped_ms_min
    if finding.kind is not Kind.REBALANCE or consumed is None or not stopped:
        return 0.0
    return round((finding.partitions_affected or consumed.partitions) * stopped / 1000, 1)


def _details(known: Stopped) -> Details:
    found: Details = {}
    if known.before >= 0:
        found["waiting_at_stop"] = known.before
    if known.peak >= 0:
        found["waiting_peak"] = known.peak
    if known.caught_up >= 0:
        found["caught_up_at"] = known.caught_up
    if known.seconds:
        found[_STOPPED_S] = round(known.seconds, 1)
    return found
