"""Findings that probe samples decide by themselves, from what is kept of a group (observed_group.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.deadlines import not_rejoined
from rebalance_monitor.coordinator.deadlines.not_rejoined import Awaited
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, make, probe_anchor
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.probe import group_summaries
from rebalance_monitor.coordinator.probe.answers import after
from rebalance_monitor.coordinator.probe.newcomers import worst

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from rebalance_monitor.coordinator.deadlines.not_rejoined import Commits, Listed
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.probe.observed_group import Watched
    from rebalance_monitor.coordinator.settings import DetectionSettings


@dataclass(frozen=True, slots=True)
class Probed:
    """Makes them; the incident of each is kept in the group's memory, which it changes."""

    settings: DetectionSettings
    cluster: str

    def progress(self, name: str, group: Watched, at: int, phase: str, state: str) -> Finding:
        """Report that samples show the group rebalancing, or no longer do."""
        found = self._find(Kind.REBALANCE_IN_PROGRESS, name, group, at, phase, group.open, state)
        group.open = found.incident or ""
        return replace(found, details={"sightings": group.count, "duration_ms": at - group.opened})

    def barrier(
        self,
        name: str,
        group: Watched,
        at: int,
        state: str,
        summary: Mapping[str, Any],
        listed: Collection[Listed] | None,
        commits: Callable[[], Mapping[str, Commits] | None],
    ) -> list[Finding]:
        """Report a stuck join phase, and update it once it is worse or an awaited member is known.

        `listed`: the members that the sample lists, None where it lists none. `commits` gives those of the
        group's members by positions, None where there are no positions.
        """
        settings, out = self.settings.for_group(name), []
        if group.stuck and group.since > group.stuck_since and not group.again:
            out.append(self.stuck(name, group, at, "resolved", state))
            group.stuck = ""
        lasts = at - group.since
        warns = group_summaries.limits_of(settings, summary).warns
        if lasts < warns or (not group.stuck and group_summaries.knows_awaited_members(summary, group, at)):
            return out
        if not group.stuck:
            group.awaited, group.loudness, group.removed = Awaited(), "", 0
        waits = group_summaries.waits(summary, group, at, listed, commits())
        pages = lasts >= group_summaries.limits_of(settings, summary, waits.members).pages
        loud = Severity.CRITICAL.value if pages else group.loudness or Severity.WARNING.value
        if not group.stuck:
            group.stuck_since, group.stuck_updates, phase = group.since, 0, "opened"
            group.threshold = warns
        elif waits.ids == group.awaited.ids and loud == group.loudness:
            return out
        else:
            group.stuck_updates, phase = group.stuck_updates + 1, "updated"
        group.awaited, group.loudness = waits, loud
        group.ends_at = group_summaries.deadline(summary, group)
        return [*out, self.stuck(name, group, at, phase, state)]

    def stuck(self, name: str, group: Watched, at: int, phase: str, state: str) -> Finding:
        """Report that a join phase is stuck, or over, and the members that it waits for."""
        found = self._find(Kind.REBALANCE_STUCK, name, group, at, phase, group.stuck, state)
        group.stuck = found.incident or ""
        duration = group.stuck_for(at)
        why = f"rebalancing for {seconds(duration)} without a completed generation"
        details: Details = {
            "sightings": group.count,
            "duration_ms": duration,
            "threshold_ms": group.threshold,
        }
        if phase != "resolved" and group.ends_at > at:
            details["ends_at"] = group.ends_at
            why += "; commits do not show which member has not rejoined; its coordinator removes it in "
            why += seconds(group.ends_at - at)
        if group.removed:
            details["removed"] = group.removed
        causes = (CauseEntry(Cause.UNKNOWN, 1.0, why),)
        usual = Severity(group.loudness) if group.loudness else KINDS[Kind.REBALANCE_STUCK].severity
        severity = self.settings.severity_of(Kind.REBALANCE_STUCK, name, usual)
        found = replace(found, details=details, causes=causes, opened_at=group.stuck_since, severity=severity)
        return not_rejoined.named(found, group.awaited, duration)

    def storm(self, name: str, group: Watched, at: int, phase: str) -> Finding:
        """Report that samples show the group rebalancing too often, and by which client, or no longer do."""
        found = self._find(Kind.STORM, name, group, at, phase, group.storm, "PreparingRebalance")
        group.storm = found.incident or ""
        window = self.settings.for_group(name).storm_sightings_window_ms
        if phase == "opened":
            group.storm_at, group.worst, group.updates = group.opened, "", 0
        details: Details = {
            "count": after(group.counted, at - window),
            "window_ms": window,
            "rule": "sightings",
            **self._worst(group, at - window),
        }
        group.worst, group.worst_at = str(details.get("worst_client", group.worst)), at
        return replace(found, details=details, opened_at=group.storm_at)

    def storming(
        self, name: str, group: Watched, at: int, samples: Callable[[], Sequence[int]], *, recorded: bool
    ) -> list[Finding]:
        """Open a storm by rule two: many samples in several separate runs, which no calm generation explains.

        `samples` returns those that its coordinator answered, if they matter; `recorded`: records report a
        storm. An open storm is updated, once a window at most, if another client is clearly behind it than
        the published one.
        """
        settings = self.settings.for_group(name)
        since = at - settings.storm_sightings_window_ms
        if not group.storm:
            may = not recorded and group.may_storm(at, settings)
            storms = may and group.storms(samples(), at, settings)
            return [self.storm(name, group, at, "opened")] if storms else []
        if group.worst_at > since:
            return []
        if self._worst(group, since).get("worst_client", group.worst) == group.worst:
            return []
        group.updates += 1
        return [self.storm(name, group, at, "updated")]

    def _worst(self, group: Watched, since: int) -> Details:
        return worst(group.newcomers, since, after(group.runs, since), group.worst)

    def give_up(self, groups: dict[str, Watched], at: int) -> list[Finding]:
        """Resolve all open incidents of these groups, and forget them: the probe no longer runs."""
        found = []
        for name, group in groups.items():
            if group.open:
                found.append(self.progress(name, group, at, "resolved", ""))
            if group.stuck:
                found.append(self.stuck(name, group, at, "resolved", ""))
            if group.storm:
                found.append(self.storm(name, group, at, "resolved"))
        groups.clear()
        return [replace(one, resolution="expired", state=None) for one in found]

    def _find(
        self, kind: Kind, name: str, group: Watched, at: int, phase: str, incident: str, state: str
    ) -> Finding:
        """Make one; `incident` is the open one, "" for a new one."""
        # A group may be stuck in one join phase after the other while samples show it rebalancing.
        since = group.stuck_since if kind is Kind.REBALANCE_STUCK else group.opened
        anchor = f"{probe_anchor(group.generation)}/{since}"
        resolved = phase == "resolved"
        return make(
            kind,
            cluster=self.cluster,
            anchor=anchor,
            group=name,
            overrides=self.settings.severity_of,
            phase=phase,
            sequence=_sequence(kind, group) if phase == "updated" else 0,
            incident=incident,
            evidence="read",
            group_type=group.group_type or None,
            protocol_type=group.protocol_type or None,
            state=state,
            generation=group.generation,
            at=at,
            opened_at=group.opened,
            resolution=("quiet" if kind is Kind.STORM else "completed") if resolved else None,
            details={},
        )


def _sequence(kind: Kind, group: Watched) -> int:
    return group.stuck_updates if kind is Kind.REBALANCE_STUCK else group.updates
