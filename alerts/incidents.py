"""Findings to alerts: the documented mapping, pure.

- A phased kind fires from its opening finding until its resolved one.
- A kind without phases fires for `hold_ms` after its newest finding: five session timeouts of one group in
  a minute are one alert.
- What was rebuilt from history never opens an alert; it may end one that is open.
- A suspected finding below `min_confidence` opens nothing.
- `SWALLOWED`: while a storm of a group fires, the single rebalances and members lost in it are not told;
  while a cluster-wide finding fires, alerts of single groups for the same cause are not; a rolling restart
  explains the members that left in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.alert import NEVER, Alert, fingerprint
from rebalance_monitor.alerts.labels import labels_of
from rebalance_monitor.alerts.matchers import parse
from rebalance_monitor.alerts.routes import InhibitRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings import Finding

_SINGLE = (
    'alertname=~"rebalance|rebalance_failed|rebalance_in_progress|session_timeout'
    '|poll_interval_exceeded|member_silent|static_member_replaced|group_empty|slow_sync"'
)
SWALLOWED: tuple[InhibitRule, ...] = (
    InhibitRule(parse('alertname="storm"'), parse(_SINGLE), ("cluster", "group")),
    InhibitRule(parse('scope="cluster", group=""'), parse('scope="group"'), ("cluster", "cause")),
    InhibitRule(
        parse('alertname="rolling_restart"'),
        parse('alertname=~"rebalance|session_timeout|member_silent"'),
        ("cluster", "group"),
    ),
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What of the findings becomes an alert; durations in ms, `teams` maps group patterns to teams."""

    hold_ms: int = 300_000
    min_confidence: float = 0.6
    teams: Mapping[str, str] = field(default_factory=dict)


def apply(alert: Alert | None, finding: Finding, policy: Policy) -> Alert | None:
    """Return the alert after this finding, None where there is none; `alert` is what it was before."""
    if finding.phase == "resolved":
        return _ended(alert, finding)
    if not _tells(finding, policy):
        return alert
    ends_at = NEVER if finding.phase is not None else finding.at + policy.hold_ms
    fires = alert is not None and alert.ends_at > finding.at
    return Alert(
        fingerprint(finding),
        labels_of(finding, policy.teams),
        alert.starts_at if alert is not None and fires else finding.at,
        ends_at,
        finding,
    )


def _tells(finding: Finding, policy: Policy) -> bool:
    if finding.history:
        return False
    return finding.evidence != "suspected" or finding.confidence >= policy.min_confidence


def _ended(alert: Alert | None, finding: Finding) -> Alert | None:
    """End the alert; its labels stay those it fired with, so that it ends where it was told."""
    if alert is None or alert.finding.incident != finding.incident:
        return alert
    return replace(alert, ends_at=min(alert.ends_at, finding.at), finding=finding)
