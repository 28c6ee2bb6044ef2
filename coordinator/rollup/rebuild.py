"""Open incidents when state is built anew: each one goes on as it was, or is resolved with a reason.

State that is built anew from the compacted topic holds no incident that records or the clock opened, so it
would never resolve them. They are kept here, on the driver, until history has been read.

- An incident that the new state finds again goes on under its published id.
- An incident that the new state cannot show yet gets as much time as that takes: a storm its quiet time, a
  silent member the silence that it was published for.
- The summary of a group shows whether it is empty.
- Any other incident is resolved as `expired`: it is not known how, or whether, it ended.

Groups that are no longer in the topic are published as `group_removed`. All this works on published findings,
whose members may be hashed or hidden. Incidents of the probe are not affected: the live part remembers them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, make
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.rollup.rebuild_incidents import SETTLED_MS, Held, subject_of
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings

_UNSEEN = "the state was built anew from the topic; not seen since"
_REFILLED = "the state was built anew from the topic; the group has members"
_GONE = "the state was built anew from the topic, which has no record of the group any more"
_OF_EMPTY = (Kind.GROUP_EMPTY, Kind.OFFSETS_EXPIRING)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a batch read. `again`: findings published before the rebuild. `groups`: name -> summary.

    catching_up: whether some shard reads history, None where the batch read nothing. `now` in ms.
    """

    again: Iterable[Finding] = ()
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    removed: Iterable[str] = ()
    catching_up: bool | None = None
    now: int = -1


@dataclass(slots=True)
class Outcome:
    """What is published instead of a batch's findings, what else resolves, and which groups are removed."""

    findings: list[Finding]
    ended: list[Finding] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


class Rebuilt:
    """Incidents held over a rebuild; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: Mapping[str, Any] | None = None
    ) -> None:
        memory = state or {}
        self._settings = settings
        self._cluster = cluster
        self._live_at: int = int(memory.get("live_at", -1))
        # Groups that the new state has not summarised yet.
        self._missing: set[str] = set(memory.get("missing", ()))
        self._held = msgspec.convert(memory.get("held", {}), dict[str, Held])
        # The new state's incident -> the published one, and when that opened.
        self._joined = msgspec.convert(memory.get("joined", {}), dict[str, tuple[str, int]])
        self._subjects = {held.subject: name for name, held in self._held.items()}

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger; empty where nothing is held."""
        if not (self._held or self._missing or self._joined):
            return {}
        return {
            "live_at": self._live_at,
            "missing": sorted(self._missing),
            "held": msgspec.to_builtins(self._held),
            "joined": msgspec.to_builtins(self._joined),
        }

    def begin(self, opened: Iterable[Finding], groups: Iterable[str] = (), shard: int | None = None) -> None:
        """Hold the incidents `opened`, by their newest findings: the state, or a shard's, begins anew.

        `groups`: all that were known, where the new state is built from the whole topic.
        """
        self._live_at = -1
        self._joined = self._joined if shard is not None else {}
        self._missing.update(groups)
        for finding in opened:
            lost = shard is None or finding.shard == shard
            if lost and finding.group and finding.incident and KINDS[finding.kind].phases:
                self._held[finding.incident] = Held.of(finding, self._settings)
                self._subjects[subject_of(finding)] = finding.incident

    def on_batch(self, findings: Iterable[Finding], reading: Reading) -> Outcome:
        """Return the findings to publish of a batch's `findings`, under the incidents that they belong to."""
        outcome = Outcome(list(findings))
        if not (self._held or self._missing or self._joined):
            return outcome
        for finding in reading.again:
            self._reread(finding)
        taken = [self._publish_rebuilt(finding, outcome, reading.now) for finding in outcome.findings]
        outcome.findings = [finding for finding in taken if finding is not None]
        self._learn(reading)
        if reading.catching_up is False and not 0 <= self._live_at <= reading.now:
            self._live_at = reading.now
        if self._live_at >= 0:
            self._remove(outcome, reading.now)
            self._settle(outcome, frozenset({*outcome.gone, *reading.removed}), reading.now)
        return outcome

    def _reread(self, finding: Finding) -> None:
        """Follow what history opens and resolves: what is open in the end the new state has found again."""
        if finding.phase == "resolved":
            incident = finding.incident or ""
            before, _ = self._joined.pop(incident, (incident, 0))
            if before in self._held:
                self._held[before].going_on = ""
        elif finding.phase is not None:
            self._join(finding)

    def _publish_rebuilt(self, finding: Finding, outcome: Outcome, now: int) -> Finding | None:
        """Return a finding as it is published, None where it was published before the rebuild."""
        if finding.kind is Kind.REBALANCE and not finding.history:
            self._refilled(finding.group or "", outcome, now)
        if finding.phase is None:
            return finding
        if finding.phase == "resolved":
            return self._resolved(finding)
        self._join(finding)
        if finding.id in self._held:
            return None
        before, opened_at = self._joined.get(finding.incident or "", (finding.incident, finding.opened_at))
        if before == finding.incident:
            return finding
        return replace(finding, incident=before, phase="updated", opened_at=opened_at)

    def _resolved(self, finding: Finding) -> Finding:
        incident = finding.incident or ""
        if incident in self._held:
            self._drop(incident)
        elif finding.history:
            # Of two storms in history the first is over: the one that was open may be the second.
            self._reread(finding)
        elif incident in self._joined:
            before, opened_at = self._joined.pop(incident)
            self._drop(before)
            return replace(finding, incident=before, opened_at=opened_at)
        return finding

    def _refilled(self, group: str, outcome: Outcome, now: int) -> None:
        """End that the group is empty, unless the new state knows it and ends it itself."""
        for kind in _OF_EMPTY:
            name = self._subjects.get((kind, group, ""))
            if name is not None and not self._held[name].going_on:
                self._end(name, _REFILLED, outcome, now)

    def _join(self, finding: Finding) -> None:
        """Let the incident of `finding` be the one that is held about the same, if there is one."""
        name = self._subjects.get(subject_of(finding))
        if name is None or self._held[name].going_on:
            return
        incident = finding.incident or ""
        self._held[name].going_on = incident
        if incident != name:
            self._joined[incident] = name, self._held[name].opened_at

    def _remove(self, outcome: Outcome, now: int) -> None:
        """Report the groups that are removed: history has no record of them."""
        if self._missing and now >= self._live_at + SETTLED_MS:
            outcome.gone = sorted(self._missing)
            outcome.ended += [self._removal(group, now) for group in outcome.gone]
            self._missing = set()

    def _learn(self, reading: Reading) -> None:
        self._missing.difference_update(reading.groups, reading.removed)
        for held in self._held.values():
            summary = reading.groups.get(held.subject[1])
            if summary is not None:
                held.empty = summary.get("state") == Status.EMPTY

    def _settle(self, outcome: Outcome, gone: frozenset[str], now: int) -> None:
        """Let go of what goes on; resolve what is over, or was not seen again in time."""
        for name, held in list(self._held.items()):
            kind, group, _ = held.subject
            if group in gone:
                self._end(name, _GONE, outcome, now)
            elif held.going_on:
                # A removal that waited for the next record when the state was lost ends nothing anew: its
                # findings are of a record that was read before.
                if now >= self._live_at + SETTLED_MS:
                    self._drop(name)
            elif kind == Kind.GROUP_EMPTY:
                if not held.empty:
                    self._end(name, _REFILLED, outcome, now)
            elif now >= self._live_at + held.patience:
                self._end(name, _UNSEEN, outcome, now)

    def _end(self, name: str, why: str, outcome: Outcome, now: int) -> None:
        held = self._drop(name)
        if held is None:
            return
        kind, group, _ = held.subject
        outcome.ended.append(
            make(
                Kind(kind),
                cluster=self._cluster,
                anchor=f"{name}/rebuilt",
                group=group,
                severity=held.severity,
                phase="resolved",
                incident=name,
                evidence="derived",
                group_type=held.group_type,
                shard=held.shard,
                at=now,
                causes=(CauseEntry(Cause.STATE_REBUILT, 1.0, why),),
                opened_at=held.opened_at,
                resolution="expired",
                details={},
            )
        )

    def _drop(self, name: str) -> Held | None:
        held = self._held.pop(name, None)
        if held is not None and self._subjects.get(held.subject) == name:
            del self._subjects[held.subject]
        return held

    def _removal(self, group: str, now: int) -> Finding:
        return make(
            Kind.GROUP_REMOVED,
            cluster=self._cluster,
            anchor=f"rebuilt/{self._live_at}",
            group=group,
            overrides=self._settings.severity_of,
            evidence="derived",
            at=now,
            causes=(CauseEntry(Cause.UNKNOWN, 1.0, _GONE),),
            details={},
        )
