"""Alerts: incidents as routing sees them, with Alertmanager's life of firing until it ends.

Pure. An alert is identified by cluster, group (or scope and shard) and name, so the same trouble of the same
group is one alert, whatever is learned about it while it lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.alerts.labels import Labels
    from rebalance_monitor.coordinator.findings import Finding

NEVER = 2**63 - 1
"""`ends_at` of an alert that nothing has ended yet."""

_DISTINGUISHING = ("reason", "cause", "sink")


@dataclass(frozen=True, slots=True)
class Alert:
    """One incident. `starts_at`, `ends_at` in ms since epoch; `finding` is the newest one of the incident.

    A `quiet` one is too light to be told; it may explain others.
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


def fingerprint(finding: Finding) -> str:
    """Return the identity of the alert that this finding belongs to: 16 hex digits."""
    parts = [finding.cluster, finding.kind.value, finding.group or finding.scope.value]
    if finding.group is None:
        parts.append(str(finding.shard))
        parts += [str(finding.details.get(name, "")) for name in _DISTINGUISHING]
    return sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
