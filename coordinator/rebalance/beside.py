"""The finding about one departed member, published beside the `rebalance` or `group_empty` that it caused.

Records decide it in the operator (`report.py`) and probe samples once more on the driver
(`reattribution.py`): what it is and how much it says are the same for both.
"""

from __future__ import annotations

from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.massed import MANY

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


def kinds_by(
    each: Sequence[Sequence[CauseEntry]], departed: int, settings: DetectionSettings
) -> list[tuple[Kind, float] | None]:
    """Return the kind that the causes of each member, likeliest first, speak for, and how surely.

    Causes of one kind add up. None where that is less than the configured confidence. `departed`: how many
    members the record removed. One event removes many at once: where `MANY` departed, a kind that is sure
    enough of half of the members with the same likeliest cause is the kind of all of them.
    """
    kinds = [_kind_by(causes) for causes in each]
    likeliest = [causes[0].cause if causes else None for causes in each]
    sure = [kind is not None and kind[1] >= settings.attribution_confidence for kind in kinds]
    all_of, sure_of = Counter(likeliest), Counter(compress(likeliest, sure))
    shared = {cause for cause in sure_of if departed >= MANY and 2 * sure_of[cause] >= all_of[cause]}
    return [
        kind if enough or cause in shared else None
        for kind, enough, cause in zip(kinds, sure, likeliest, strict=True)
    ]


def _kind_by(causes: Sequence[CauseEntry]) -> tuple[Kind, float] | None:
    kind = KIND_OF.get(causes[0].cause) if causes else None
    if kind is None:
        return None
    share = sum(one.confidence for one in causes if KIND_OF.get(one.cause) is kind)
    return kind, min(round(share, 2), _CERTAIN)


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
