"""Findings to alerts: the documented mapping (docs/alerts.md), pure.

- A phased kind fires from its opening finding until its resolved one. Where that is louder than what was
  open because a join phase lasted to its deadline, it fires for `hold_ms` more.
- A kind without phases fires for `hold_ms` after its newest finding: five session timeouts of one group in
  a minute are one alert. A finding of many groups has phases, and fires for at least as long as theirs.
- A finding that was rebuilt from history never opens an alert; it may resolve an open one.
- A suspected finding below `min_confidence` opens nothing.
- Below `minimum_severity` an alert is `quiet`: never notified, and kept only if it explains others.
- A rolling restart lowers the alerts that it explains to info, earlier and later ones.
- A finding that continues the incident of another kind continues its alert: one trouble is one alert.
- When a storm ends, the single findings that it suppressed end too. A removed group has no open alerts.
- A completed generation ends `group_empty`, because rebuilt state does not know the incident. The offsets of
  a topic that the group no longer subscribes to expire all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.incidents.alert import NEVER, Alert, fingerprint
from rebalance_monitor.alerts.incidents.suppression import EXPLAINED, SINGLES
from rebalance_monitor.alerts.routing.labels import labels_of
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity, louder
from rebalance_monitor.coordinator.lag.judging.continuing import CONTINUING, STANDING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.alerts.incidents.alert import Alerts
    from rebalance_monitor.coordinator.findings.finding import Details, Finding

RANK = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}
RESTART_SLACK_MS = 60_000
"""How long before the first replacement of a rolling restart a member's loss may still belong to it."""

OPENING = STANDING | {Kind.MEMBER_SILENT}
"""Kinds whose incidents others may continue."""

_OF_EMPTY = (Kind.GROUP_EMPTY, Kind.OFFSETS_EXPIRING)
_EXPLAINING = frozenset({Kind.ROLLING_RESTART, Kind.STORM})


@dataclass(frozen=True, slots=True)
class Policy:
    """What of the findings becomes an alert; durations in ms, `teams` maps group patterns to teams."""

    hold_ms: int = 300_000
    min_confidence: float = 0.6
    minimum_severity: Severity = Severity.WARNING
    teams: Mapping[str, str] = field(default_factory=dict)

    def is_quiet(self, severity: Severity) -> bool:
        """Whether alerts of this severity send no notification."""
        return RANK[severity] < RANK[self.minimum_severity]


def taken(alerts: Alerts, finding: Finding, policy: Policy) -> list[Alert]:
    """Return the alerts that are new or changed after this finding; `alerts` by fingerprint, as before."""
    changed = [] if finding.history else _around(alerts, finding, policy)
    changed += [] if finding.history else _refilled(alerts, finding)
    finding = _explained(alerts, finding)
    first = _first(alerts, finding)
    if first is not None:
        then = _continued(first, finding, policy)
        return changed if then is first else [*changed, then]
    before = alerts.get(fingerprint(finding))
    after = apply(before, finding, policy)
    return changed if after is None or after is before else [*changed, after]


def _first(alerts: Alerts, finding: Finding) -> Alert | None:
    """Return the open alert of another kind whose incident this finding continues, if there is one."""
    if finding.incident is None or finding.history or finding.kind not in OPENING | CONTINUING:
        return None
    found = alerts.of_group(finding, OPENING)
    return next(
        (
            alert
            for alert in found
            if alert.finding.incident == finding.incident
            and alert.fingerprint != fingerprint(finding)
            and not alert.resolved(began(finding))
            and not alert.quiet
        ),
        None,
    )


def _continued(first: Alert, finding: Finding, policy: Policy) -> Alert:
    """Return the alert of an incident that another kind of finding continues: one alert, by its first name.

    It gets what was found since, and is as loud as the louder of both.
    """
    if finding.phase == "resolved":
        return _ended(first, finding, policy) or first
    if not _is_sure_enough(finding, policy):
        return first
    severity = louder(first.finding.severity, finding.severity)
    return replace(
        first,
        labels={**first.labels, "severity": severity.value},
        finding=replace(finding, severity=severity),
    )


def apply(alert: Alert | None, finding: Finding, policy: Policy) -> Alert | None:
    """Return the alert after this finding, None if there is none; `alert`: the alert before it."""
    if finding.phase == "resolved":
        return _ended(alert, finding, policy)
    if not _is_sure_enough(finding, policy):
        return alert
    at = began(finding)
    fires = alert is not None and alert.ends_at > at
    return Alert(
        fingerprint(finding),
        labels_of(finding, policy.teams),
        alert.starts_at if alert is not None and fires else at,
        NEVER if finding.phase is not None else _open_from(finding) + policy.hold_ms,
        finding,
        quiet=policy.is_quiet(finding.severity),
    )


def began(finding: Finding) -> int:
    """Return when it happened (ms), but never in the future: a record's own time may be forged."""
    return finding.at if finding.detected_at < 0 else min(finding.at, finding.detected_at)


def _open_from(finding: Finding) -> int:
    """Return the time (ms) from which an alert without an end is open; a late one starts at its own time."""
    known = finding.detected_at >= 0 and not finding.late
    return finding.detected_at if known else began(finding)


def _is_sure_enough(finding: Finding, policy: Policy) -> bool:
    if finding.history:
        return False
    if policy.is_quiet(finding.severity) and not (finding.kind in _EXPLAINING or finding.groups_total):
        return False
    return finding.evidence != "suspected" or finding.confidence >= policy.min_confidence


def _ended(alert: Alert | None, finding: Finding, policy: Policy) -> Alert | None:
    """Resolve the alert; it keeps the labels that it fired with, so that it ends where it was sent.

    What many groups suffer at once lasts for as long as these groups' own alerts, which it explains.
    """
    if alert is None or alert.finding.incident != finding.incident:
        return alert
    last = alert.finding
    summed = replace(
        finding,
        causes=finding.causes or last.causes,
        members=finding.members or last.members,
        details=_summed(last.details, finding.details),
    )
    if "removed" in finding.details and RANK[finding.severity] > RANK[last.severity]:
        return _worse_at_its_end(alert, summed, policy)
    ends_at = max(began(finding), _open_from(last) + policy.hold_ms if last.groups_total else 0)
    return replace(alert, ends_at=min(alert.ends_at, ends_at), finding=summed)


def _summed(before: Details, now: Details) -> Details:
    """Return the details of an incident that ended; whoever is named is no longer one of several."""
    found = {**before, **now}
    if "waits_for" in now:
        found.pop("waits_for_one_of", None)
    return found


def _worse_at_its_end(alert: Alert, finding: Finding, policy: Policy) -> Alert:
    """Return the alert of an incident of which only the end shows how bad it was: it fires once more."""
    ends_at = _open_from(finding) + policy.hold_ms
    labels = {**alert.labels, "severity": finding.severity.value}
    quiet = policy.is_quiet(finding.severity)
    return replace(alert, labels=labels, ends_at=ends_at, finding=finding, quiet=quiet)


def _around(alerts: Alerts, finding: Finding, policy: Policy) -> list[Alert]:
    """Return the other alerts of the group that this finding changes."""
    if finding.kind is Kind.ROLLING_RESTART:
        window = int(finding.details.get("window_ms", 0)) + RESTART_SLACK_MS
        lost = alerts.of_group(finding, EXPLAINED[Kind.ROLLING_RESTART])
        return [_lowered(alert, policy) for alert in lost if alert.starts_at >= began(finding) - window]
    if finding.kind is Kind.STORM and finding.phase == "resolved":
        ended = [alert for alert in alerts.of_group(finding, SINGLES) if alert.finding.phase is None]
    elif finding.kind is Kind.GROUP_REMOVED:
        ended = [alert for alert in alerts.of_group(finding, Kind) if alert.ends_at == NEVER]
    else:
        return []
    return [replace(alert, ends_at=min(alert.ends_at, began(finding))) for alert in ended]


def _refilled(alerts: Alerts, finding: Finding) -> list[Alert]:
    """Return the alerts of the whole group that a completed generation ends; alerts of a topic stay."""
    if finding.kind is not Kind.REBALANCE:
        return []
    ends_at = began(finding)
    found = alerts.of_group(finding, _OF_EMPTY, parts=False)
    return [replace(alert, ends_at=ends_at) for alert in found if alert.ends_at > ends_at >= alert.starts_at]


def _lowered(alert: Alert, policy: Policy) -> Alert:
    return replace(
        alert,
        labels={**alert.labels, "severity": Severity.INFO.value},
        finding=replace(alert.finding, severity=Severity.INFO),
        quiet=policy.is_quiet(Severity.INFO),
    )


def _explained(alerts: Alerts, finding: Finding) -> Finding:
    """Return the finding, lowered while its group goes through a rolling restart."""
    if finding.kind not in EXPLAINED[Kind.ROLLING_RESTART]:
        return finding
    restarts = alerts.of_group(finding, (Kind.ROLLING_RESTART,))
    if all(restart.resolved(began(finding)) for restart in restarts):
        return finding
    return replace(finding, severity=Severity.INFO)
