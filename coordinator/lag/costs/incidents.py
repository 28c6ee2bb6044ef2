"""What a rebalance cost: the records that waited for it, and the partitions that stood still.

A finding that stops consumption is given the group's records waiting at the last sample before it stopped,
and the most of any sample since. While its incident is open the samples go on: when no more wait than before,
it has caught up. That, and a severity that the lag raises (`impact.py`), are published as an update. A
group that is empty when its storm or its stuck rebalance ends still waits for what that stopped:
`group_empty` goes on with its cost and its severity. A finding without samples on both sides carries nothing:
not zero. A roll-up carries the sums of the groups that it lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.finding import Finding, finding_id, from_json, to_json
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity, louder
from rebalance_monitor.coordinator.lag.costs.impact import WEIGHED, Impact, impact, weigh
from rebalance_monitor.coordinator.lag.costs.rebalances import USUAL_MS, partition_seconds, stopped_ms
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.findings.finding import Details
    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.settings import DetectionSettings

    Totals = Sequence[tuple[int, int]]

COSTED = frozenset({Kind.REBALANCE, Kind.REBALANCE_STUCK, Kind.STORM, Kind.ROLLING_RESTART, Kind.GROUP_EMPTY})
_STOPPING = frozenset({Kind.REBALANCE_STUCK, Kind.STORM})
"""What may end with the group's last member."""

_STOPPED_S = "partition_seconds"
MOST_SHARED = 100
"""Roll-ups that are followed at most. The oldest is dropped: its end was never published."""


class Stopped(msgspec.Struct, array_like=True):
    """An open incident: its newest finding as JSON, when (ms) consumption stopped, and what waited.

    `before`: records at the last sample before that, `peak` the most since, -1 where unknown; `caught_up`:
    when (ms) no more waited than before. `updates`: so far. `seconds`: partition-seconds of its
    rebalances. `usual`: the most that waited before it.
    """

    finding: str
    since: int
    before: int = -1
    peak: int = -1
    caught_up: int = -1
    updates: int = 0
    seconds: float = 0.0
    usual: int = -1


class Shared(msgspec.Struct, array_like=True):
    """An open roll-up: its groups, and the sums of what waited for them; the numbers as of `Stopped`.

    `usual`: the most that waited in the minute before `since`.
    """

    groups: list[str]
    since: int
    before: int = -1
    usual: int = -1
    peak: int = -1
    caught_up: int = -1

    def on_total(self, at: int, records: int) -> None:
        """Take the sum of what waits at a sample."""
        if records > self.peak:
            self.peak, self.caught_up = records, -1
        elif self.caught_up < 0 and records <= self.usual < self.peak:
            self.caught_up = at

    def details(self) -> Details:
        """Return what a finding of it carries."""
        if self.before < 0 or self.peak < 0:
            return {}
        found: Details = {"waiting_at_stop": self.before, "waiting_peak": max(self.before, self.peak)}
        return found | ({"caught_up_at": self.caught_up} if self.caught_up >= 0 else {})


class RollUpCosts:
    """Prices findings about many groups; `state` is what `snapshot` returned, None for a new start."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self._open = msgspec.convert(state or {}, dict[str, Shared])

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        found: dict[str, Any] = msgspec.to_builtins(self._open)
        return found

    def price(self, finding: Finding, groups: Mapping[str, Consumed]) -> Finding:
        """Return a roll-up with the sums of its groups; any other finding as it is."""
        incident = finding.incident
        if finding.scope is not Scope.CLUSTER or not finding.groups or incident is None:
            return finding
        known = self._open.get(incident)
        if known is None or set(finding.groups) - set(known.groups):
            known = self._open[incident] = _shared(finding, groups)
            if len(self._open) > MOST_SHARED:
                del self._open[next(iter(self._open))]
        if finding.phase == "resolved":
            self._open.pop(incident, None)
        return replace(finding, details={**finding.details, **known.details()})

    def on_sample(self, at: int, groups: Mapping[str, Consumed]) -> None:
        """Let the open roll-ups go on with the sample of `at` (ms)."""
        for known in self._open.values():
            newest = [totals[-1] for totals in _totals(known.groups, groups)]
            if newest and all(when == at for when, _ in newest):
                known.on_total(at, sum(records for _, records in newest))


def _shared(finding: Finding, groups: Mapping[str, Consumed]) -> Shared:
    """Return what has waited for the groups of a roll-up since a minute before the first of them."""
    first = finding.at if finding.opened_at is None else finding.opened_at
    shared = Shared(list(finding.groups), first - USUAL_MS)
    sums = _sums(shared.groups, groups)
    before = [records for at, records in sums if shared.since - USUAL_MS <= at <= shared.since]
    if before:
        shared.before, shared.usual = before[-1], max(before)
    for at, records in sums:
        if at > shared.since:
            shared.on_total(at, records)
    return shared


def _totals(names: Iterable[str], groups: Mapping[str, Consumed]) -> list[Totals]:
    """Return the totals of the groups that have some."""
    return [consumed.totals for name in names if (consumed := groups.get(name)) and consumed.totals]


def _sums(names: Iterable[str], groups: Mapping[str, Consumed]) -> list[tuple[int, int]]:
    """Return the sums of the groups' totals by sample, of samples that have all groups with known lag."""
    known = _totals(names, groups)
    sums: dict[int, list[int]] = {}
    for totals in known:
        for at, records in totals:
            sums.setdefault(at, []).append(records)
    return [(at, sum(found)) for at, found in sorted(sums.items()) if len(found) == len(known)]


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
        is_stop = finding.kind is Kind.REBALANCE and consumed is not None
        seconds = partition_seconds(finding, consumed) if is_stop and consumed is not None else 0.0
        if is_stop:
            for one in self._open.get(group, {}).values():
                one.seconds += seconds
        known = self.open_of(finding)
        if known is None:
            known = _stopped(totals, since)
        known.seconds = known.seconds or seconds
        found = impact(totals, known.since, known.usual)
        severity = weigh(finding, found, self._settings)
        if finding.kind is Kind.GROUP_EMPTY and known.finding:
            severity = louder(severity, from_json(known.finding).severity)
        details: Details = {**finding.details, **_details(known)}
        if finding.kind in WEIGHED and found is not Impact.UNKNOWN:
            details["impact"] = str(found)
        priced = replace(finding, severity=severity, details=details)
        self._remember(priced, known)
        return priced

    def open_of(self, finding: Finding) -> Stopped | None:
        """Return what is known of the open incident that a finding belongs to."""
        return self._open.get(finding.group or "", {}).get(finding.incident or "")

    def inherited(self, group: str, ended: Stopped, consumed: Consumed) -> list[Finding]:
        """Let `group_empty` go on with the cost of what has ended while the group is empty.

        A page of a group whose records still wait must not end because its last member gave up.
        """
        last = from_json(ended.finding)
        weight = impact(consumed.totals, ended.since, ended.usual)
        if last.kind not in _STOPPING or weight is not Impact.WAITING:
            return []
        found: list[Finding] = []
        at = consumed.totals[-1][0]
        for incident, known in self._open.get(group, {}).items():
            empty = from_json(known.finding)
            severity = self._settings.severity_of(empty.kind, group, last.severity)
            if empty.kind is not Kind.GROUP_EMPTY or louder(severity, empty.severity) is empty.severity:
                continue
            known.since, known.before, known.usual = ended.since, ended.before, ended.usual
            known.peak = max(known.peak, ended.peak)
            found.append(self._update(group, incident, known, empty, at, severity, weight))
        return found

    def concerned(self) -> AbstractSet[str]:
        """Return the groups that have something open."""
        return self._open.keys()

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
            weight = impact(consumed.totals, known.since, known.usual)
            severity = louder(weigh(last, weight, self._settings, at), last.severity)
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
        known.updates += 1
        is_weighed = last.kind in WEIGHED
        found = replace(
            last,
            id=finding_id(
                last.cluster, last.kind, group, f"{incident}/cost", phase="updated", sequence=known.updates
            ),
            at=at,
            phase="updated",
            detected_at=-1,
            severity=severity,
            details={**last.details, **_details(known), **({"impact": str(weight)} if is_weighed else {})},
        )
        known.finding = to_json(found)
        return found

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
    """Return when (ms) consumption stopped at the earliest, by the fields of the finding."""
    if finding.kind in {Kind.STORM, Kind.REBALANCE_STUCK} and finding.opened_at is not None:
        # A storm has begun with the first of the rebalances that made it one.
        return finding.opened_at - (
            int(finding.details.get("window_ms", 0)) if finding.kind is Kind.STORM else 0
        )
    if finding.started_at_min is not None:
        return finding.started_at_min
    return finding.at - stopped_ms(finding)


def _stopped(totals: Totals, since: int) -> Stopped:
    """Return what is known of an incident that stopped consumption at `since` (ms)."""
    before = [records for at, records in totals if at <= since]
    after = [records for at, records in totals if at > since]
    return Stopped(
        "",
        since,
        before[-1] if before else -1,
        max(after, default=-1),
        usual=max((records for at, records in totals if at < since), default=-1),
    )


def _details(known: Stopped) -> Details:
    found: Details = {}
    if known.before >= 0:
        found["waiting_at_stop"] = known.before
    if known.peak >= 0:
        # A group that was catching up had most of it when it stopped.
        found["waiting_peak"] = max(known.before, known.peak)
    if known.caught_up >= 0:
        found["caught_up_at"] = known.caught_up
    if known.seconds:
        found[_STOPPED_S] = round(known.seconds, 1)
    return found
