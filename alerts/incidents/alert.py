"""Alerts: incidents as routing sees them, with Alertmanager's life of firing until it ends.

Pure. An alert is identified by cluster, group (or scope and shard) and name. So the same trouble of the same
group is one alert for as long as it lasts. If a group may have several incidents of a kind at a time, the
member or the topic belongs to the identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.finding import part_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.kinds import Kind

NEVER = 2**63 - 1
"""`ends_at` of an alert that nothing has ended yet."""

_DISTINGUISHING = ("reason", "cause", "sink")


@dataclass(frozen=True, slots=True)
class Alert:
    """One incident. `starts_at`, `ends_at` in ms since epoch; `finding` is the newest one of the incident.

    A `quiet` alert is below the severity of notifications; it may explain others.
    """

    fingerprint: str
    labels: Labels
    starts_at: int
    ends_at: int
    finding: Finding
    quiet: bool = False

    def resolved(self, now: int) -> bool:
        """Whether it is over at `now`."""
        return self.ends_at <= now


class Alerts(dict[str, Alert]):
    """Alerts by fingerprint, indexed by group."""

    def __init__(self, alerts: Iterable[Alert] = ()) -> None:
        super().__init__()
        self._parts: dict[str, set[str]] = {}
        for alert in alerts:
            self[alert.fingerprint] = alert

    def __setitem__(self, name: str, alert: Alert) -> None:
        """Take an alert under its fingerprint."""
        super().__setitem__(name, alert)
        if part_of(alert.finding):
            self._parts.setdefault(_whole(alert.finding), set()).add(name)

    def __delitem__(self, name: str) -> None:
        """Forget an alert. Raises KeyError."""
        finding = self[name].finding
        super().__delitem__(name)
        if part_of(finding):
            self._parts[_whole(finding)].discard(name)
            if not self._parts[_whole(finding)]:
                del self._parts[_whole(finding)]

    def of_group(self, finding: Finding, kinds: Iterable[Kind], *, parts: bool = True) -> list[Alert]:
        """Return the alerts of these kinds that the finding's group has; without `parts`, of all of it."""
        if finding.group is None:
            return []
        names: list[str] = []
        for kind in sorted(kinds):
            whole = group_fingerprint(finding.cluster, kind, finding.group)
            names += [whole, *sorted(self._parts.get(whole, ()) if parts else ())]
        return [alert for alert in map(self.get, names) if alert is not None]


def fingerprint(finding: Finding) -> str:
    """Return the identity of the alert that this finding belongs to: 16 hex digits."""
    if finding.group is not None:
        return group_fingerprint(finding.cluster, finding.kind, finding.group, part_of(finding))
    parts = [finding.cluster, finding.kind.value, finding.scope.value, str(finding.shard)]
    return _digest([*parts, *(str(finding.details.get(name, "")) for name in _DISTINGUISHING)])


def group_fingerprint(cluster: str, kind: Kind, group: str, part: str = "") -> str:
    """Return the identity of a group's alert of this kind: the only one, or that of a `part` of it."""
    return _digest([cluster, kind.value, group, *([part] if part else ())])


def _whole(finding: Finding) -> str:
    return group_fingerprint(finding.cluster, finding.kind, finding.group or "")


def _digest(parts: Sequence[str]) -> str:
    return sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
