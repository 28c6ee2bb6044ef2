"""Which departed members have a finding of their own, beside the rebalance that they caused.

The model gives each member its causes (`verdicts.py`). Here they become the kind of its finding, with a
confidence, a severity and details, or no finding. Records decide that in the operator, and the driver decides
it again by probe samples, with the same functions.
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
"""Cause -> kind. A live member that does not poll leaves, or is removed at the join deadline: one fault."""

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
    """Return the severity of a member's finding, None for the kind's own.

    A client that sends no LeaveGroup expires after a planned stop too, so its expiry is no warning.
    """
    return Severity.INFO if kind is Kind.SESSION_TIMEOUT and not seen.goodbye else None


def details_of(seen: Measured, rebalance: str) -> Details:
    """Return the measured numbers, ms; `rebalance`: id of the finding whose causes contain the member's."""
    return {
        "silence_ms": seen.silence,
        "session_timeout_ms": seen.session,
        "rebalance_timeout_ms": seen.rebalance,
        "cadence_ms": seen.cadence,
        "rebalance": rebalance,
    }
