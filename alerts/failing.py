"""A way out that fails, as a finding about the monitor itself, one incident for each way. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.rollup import degraded

if TYPE_CHECKING:
    from rebalance_monitor.alerts.pacing import Pace
    from rebalance_monitor.coordinator.findings import Finding


def sink_failing(cluster: str, name: str, pace: Pace, now: int, phase: str) -> Finding:
    """Return the finding that this way out fails, or does no more; the incident began at `pace.alarmed`."""
    often = f"has failed {pace.failures} times in a row" if pace.failures else "hangs"
    lasting = "has failed for good" if pace.permanent else often
    why = f"the receiver {name} {lasting}: {pace.why}" if phase == "opened" else ""
    return degraded(
        cluster,
        Cause.SINK_FAILING,
        why,
        opened_at=pace.alarmed,
        at=now,
        phase=phase,
        details={"sink": name},
    )
