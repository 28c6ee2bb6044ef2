"""The finding about one departed member, published beside the `rebalance` or `group_empty` that it caused.

Records decide it in the operator (`report.py`) and probe samples once more on the driver
(`reattribution.py`): what it is and how much it says are the same for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.departure.verdicts import Measured
    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Details
    from rebalance_monitor.coordinator.settings import DetectionSettings

KIND_OF = {
    Cause.SESSION_TIMEOUT: Kind.SESSION_TIMEOUT,
    Cause.STATIC_MEMBER_EXPIRED: Kind.SESSION_TIMEOUT,
    Cause.POLL_INTERVAL_EXCEEDED: Kind.POLL_INTERVAL_EXCEEDED,
    Cause.JOIN_DEADLINE_MISSED: Kind.POLL_INTERVAL_EXCEEDED,
}
"""A member that lives and does not poll leaves by itself, or is removed at the join deadline: one fault."""

_CERTAIN = 0.97


def kind_by(causes: Sequence[CauseEntry], settings: DetectionSettings) -> tuple[Kind, float] | None:
    """Return the kind that the `causes` of one member, likeliest first, speak for, and how surely.

    Causes of one kind add up. None where that is less than the configured confidence.
    """
    kind = KIND_OF.get(causes[0].cause) if causes else None
    share = sum(one.confidence for one in causes if KIND_OF.get(one.cause) is kind)
    sure = min(round(share, 2), _CERTAIN)
    return None if kind is None or sure < settings.attribution_confidence else (kind, sure)


def severity_of(kind: Kind, seen: Measured) -> Severity | None:
    """Return its severity, None for the kind's own: the session that a planned stop leaves is no warning."""
    return Severity.INFO if kind is Kind.SESSION_TIMEOUT and not seen.goodbye else None


def details_of(seen: Measured, rebalance: str) -> Details:
    """Return what was measured, in ms, and the id of the finding beside which it stands."""
    return {
        "silence_ms": seen.silence,
        "session_timeout_ms": seen.session,
        "rebalance_timeout_ms": seen.rebalance,
        "cadence_ms": seen.cadence,
        "rebalance": rebalance,
    }
