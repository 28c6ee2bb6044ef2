"""Members that come, work and leave on a schedule: what a group's past suggests to declare.

An autoscaler or a cron job makes a group rebalance as often as a storm does. `expected_churn` in the group's
overrides says that this is meant. A pattern that was learned only suggests it: a crash loop at the longest
back-off keeps a schedule too, so one expiry, breach or failed generation is enough to suggest nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding

_LEAST = 5
"""So many visits at even intervals are a schedule, and not two deployments."""

_EVEN = 0.2
_GENERATIONS = frozenset({Kind.REBALANCE, Kind.GROUP_EMPTY, Kind.REBALANCE_FAILED})
_CHURN = frozenset({Cause.MEMBER_JOINED, Cause.MEMBER_LEFT, Cause.FIRST_START, Cause.COOPERATIVE_FOLLOW_UP})


def interval(findings: Iterable[Finding]) -> int | None:
    """Return the usual time (ms) between arrivals where members only join and leave, at even intervals."""
    generations = [one for one in findings if one.kind in _GENERATIONS and one.phase in {None, "opened"}]
    if any(one.kind is Kind.REBALANCE_FAILED for one in generations) or not all(map(_is_churn, generations)):
        return None
    goodbyes = sum(_has(one, Cause.MEMBER_LEFT) for one in generations)
    return _usual([one.at for one in generations if _came(one)]) if goodbyes >= _LEAST - 1 else None


def _is_churn(finding: Finding) -> bool:
    """Whether members are claimed to have joined, or to have left with a goodbye, and nothing else."""
    said = {cause.cause for cause in finding.causes if cause.confidence >= CLAIMED}
    return bool(said) and said <= _CHURN


def _has(finding: Finding, cause: Cause) -> bool:
    return any(one.cause is cause for one in finding.causes)


def _came(finding: Finding) -> bool:
    return _has(finding, Cause.MEMBER_JOINED) or _has(finding, Cause.FIRST_START)


def _usual(arrivals: Sequence[int]) -> int | None:
    """Return the median interval where all are near it."""
    gaps = sorted(after - before for before, after in pairwise(arrivals))
    if len(gaps) < _LEAST - 1:
        return None
    median = gaps[len(gaps) // 2]
    return median if all(abs(gap - median) <= _EVEN * median for gap in gaps) else None
