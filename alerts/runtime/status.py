"""What the dispatcher is about, as plain data for metrics, page and terminal view. No secret is in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.dispatch.retry import Pace

if TYPE_CHECKING:
    from rebalance_monitor.alerts.dispatch.dispatch import Dispatch


@dataclass(frozen=True, slots=True)
class WayStatus:
    """One integration. `sent`, `failed` count since the first start; `failing_since` in ms, -1 if it works.

    `pending`: groups of alerts with a due notification. `why`: the last failure, while it lasts. `is_alert`:
    an alert about it was raised.
    """

    name: str
    kind: str
    sent: int
    failed: int
    pending: int
    failing_since: int
    permanent: bool
    why: str
    is_alert: bool


@dataclass(frozen=True, slots=True)
class Status:
    """One snapshot. `firing`: severity -> open alerts that can notify. `refused`: alerts beyond the bound."""

    at: int
    ways: tuple[WayStatus, ...]
    firing: dict[str, int]
    refused: int

    def failing(self) -> str:
        """Say in one sentence which ways out are alerts of their own by now; "" where none is."""
        said = [f"{way.name} ({way.why})" for way in self.ways if way.is_alert]
        return f"receivers of alerts that fail: {', '.join(said)}" if said else ""


def status_of(dispatch: Dispatch, now: int) -> Status:
    """Return the status at `now` (ms)."""
    engine, paces = dispatch.memory.engine, dispatch.memory.paces
    pending = Counter(name for name, _ in engine.pending)
    firing = Counter(
        alert.finding.severity.value
        for alert in engine.alerts.values()
        if not alert.quiet and not alert.resolved(now)
    )
    ways = []
    for way in dispatch.plan.ways.values():
        pace = paces.get(way.name, Pace())
        ways.append(
            WayStatus(
                name=way.name,
                kind=way.kind,
                sent=pace.sent,
                failed=pace.failed,
                pending=pending[way.name],
                failing_since=pace.failing_since,
                permanent=pace.permanent,
                why=pace.why,
                is_alert=pace.alarmed >= 0,
            )
        )
    return Status(now, tuple(ways), dict(firing), engine.refused)
