"""Severity is mechanism x impact: what happened to a group, and whether records wait for it. One table.

The impact is taken from the group's lag:

- `nothing`: no record waits;
- `usual`: no more wait than in the minutes before;
- `waiting`: more wait than before;
- `unknown`: no sample of its topics' ends says so. Then the severity that the kind has without lag stands.

`details.impact` of a finding says which it was, if it is known. A configured severity
(`severity_overrides`), or a group that must never be empty (`always_on`), has the last word. The members of
an empty group may all have left as they should: then the impact decides only from the time on that is unusual
for the group (`unusual_after_ms`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings

USUAL_SHARE = 1.5
"""More than this times the most that waited before is more than usual."""

JUST_MS = 15_000
"""Of what has only just begun the last sample speaks, if it is no older."""


class Impact(StrEnum):
    """What a group's lag says of what happened to it."""

    NOTHING = "nothing"
    USUAL = "usual"
    WAITING = "waiting"
    UNKNOWN = "unknown"


class Weight(NamedTuple):
    """A severity is at least, or at most, this; None where there is no such bound."""

    at_least: Severity | None = None
    at_most: Severity | None = None


_CAPPED, _FREE = Weight(at_most=Severity.WARNING), Weight()
WEIGHTS: dict[tuple[Kind, Impact], Weight] = {
    (Kind.STORM, Impact.NOTHING): _CAPPED,
    (Kind.STORM, Impact.USUAL): _CAPPED,
    (Kind.STORM, Impact.WAITING): Weight(at_least=Severity.CRITICAL),
    (Kind.REBALANCE_STUCK, Impact.NOTHING): _CAPPED,
    (Kind.REBALANCE_STUCK, Impact.USUAL): _CAPPED,
    (Kind.REBALANCE_STUCK, Impact.WAITING): Weight(at_least=Severity.CRITICAL),
    # Of a group whose members did not say goodbye, or that is empty for longer than is usual.
    (Kind.GROUP_EMPTY, Impact.WAITING): Weight(at_least=Severity.WARNING),
    # Where no partition of the group moves.
    (Kind.CONSUMPTION_STOPPED, Impact.WAITING): Weight(at_least=Severity.CRITICAL),
}
"""(kind, impact) -> bounds of the severity; what is not here does not depend on the impact."""

WEIGHED = frozenset(kind for kind, _ in WEIGHTS)
"""Kinds whose severity depends on the impact."""

_RANK = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}
_LEFT_BY_ITSELF = "leave"


def impact(totals: Sequence[tuple[int, int]], since: int, usual: int = -1) -> Impact:
    """Return the impact of what began at `since` (ms) on a group with these totals: (time, records).

    `usual`: the most that waited before, where that is known and the totals may no longer reach back so far.
    """
    after = [records for at, records in totals if at >= since]
    after = after or [records for at, records in totals[-1:] if at >= since - JUST_MS]
    before = [usual] if usual >= 0 else [records for at, records in totals if at < since]
    if not after:
        return Impact.UNKNOWN
    if not any(after):
        return Impact.NOTHING
    if not before:
        # How much is usual is not known.
        return Impact.UNKNOWN
    return Impact.WAITING if after[-1] > USUAL_SHARE * max(before) else Impact.USUAL


def weigh(finding: Finding, found: Impact, settings: DetectionSettings, at: int = -1) -> Severity:
    """Return the severity of a finding with this impact at `at` (ms), if that is later than the finding."""
    bounds = _FREE if _is_free(finding, max(at, finding.at)) else WEIGHTS.get((finding.kind, found), _FREE)
    given = finding.severity
    if bounds.at_least is not None:
        given = max(given, bounds.at_least, key=_RANK.__getitem__)
    if bounds.at_most is not None:
        given = min(given, bounds.at_most, key=_RANK.__getitem__)
    return settings.severity_of(finding.kind, finding.group or "", given)


def _is_free(finding: Finding, at: int) -> bool:
    """Whether its impact decides nothing: members that left as they should, or others that read on."""
    if finding.kind is Kind.GROUP_EMPTY:
        return _said_goodbye(finding) and not _is_unusual(finding, at)
    return finding.kind is Kind.CONSUMPTION_STOPPED and finding.details.get("moving") != 0


def _said_goodbye(finding: Finding) -> bool:
    """Whether the last member left by itself; one that did not poll in time leaves, too, and is at fault."""
    is_late = any(entry.cause is Cause.POLL_INTERVAL_EXCEEDED for entry in finding.causes[:1])
    return finding.details.get("ended_by") == _LEFT_BY_ITSELF and not is_late


def _is_unusual(finding: Finding, at: int) -> bool:
    """Whether the group is empty for longer than it ever is, as far as that is known."""
    limit = finding.details.get("unusual_after_ms")
    since = finding.at if finding.opened_at is None else finding.opened_at
    return isinstance(limit, int) and at - since > limit
