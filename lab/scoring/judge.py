"""Was what a scenario did to its group detected? Judged by group, member, kind, phase and cause.

The demo judges so. Pure: findings and the times of the steps go in, verdicts come out. The accuracy suite
judges against the broker's log instead (`lab/scoring/score.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.lab.scenario.model import Expectation

# A finding's event time may lie a little before the step's wall time: clocks are read in this order.
EARLY_MS = 2_000
SETTLED_MS = 20_000


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was injected: the expectation it fulfils, its group, its wall time (ms)."""

    group: str
    about: str
    expectation: Expectation
    at: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """One injected fault with the finding that reported it, None if missed."""

    injected: Injected
    finding: Finding | None

    @property
    def delay_s(self) -> float | None:
        """Seconds from the injection until the finding was made."""
        return None if self.finding is None else (self.finding.detected_at - self.injected.at) / 1000


def judge(injected: Iterable[Injected], findings: Sequence[Finding]) -> list[Verdict]:
    """Give a verdict for every injected fault: the first finding that fits it."""
    return [Verdict(one, next((f for f in findings if fits(one, f)), None)) for one in injected]


def fits(injected: Injected, finding: Finding) -> bool:
    """Return whether this finding is about that fault."""
    wanted = injected.expectation
    return (
        finding.group == injected.group
        and finding.kind == wanted.kind
        and (not wanted.phase or finding.phase == wanted.phase)
        and (not wanted.cause or any(entry.cause == wanted.cause for entry in finding.causes))
        and finding.at >= injected.at - EARLY_MS
        and (not wanted.member or names(finding, f"{injected.group}-{wanted.member}"))
    )


def names(finding: Finding, client_id: str) -> bool:
    """Return whether the finding blames or describes the member with this client id as changed."""
    blamed = {entry.client_id for entry in finding.causes}
    changed = {member.client_id for member in finding.members if member.role != "kept"}
    return client_id in blamed | changed


def named(finding: Finding) -> set[str]:
    """Give every group that a finding names: its own, or the groups that it lists."""
    return {*finding.groups, *([finding.group] if finding.group is not None else ())}


def noises(silent: Iterable[str], started: int, findings: Sequence[Finding]) -> list[Finding]:
    """Give what was said of groups that should have been silent once settled (20 s after `started`, ms).

    What a rebalance cost is said after it, perhaps of one from before that: the rebalance itself counts.
    """
    groups = set(silent)
    accusing = (one for one in findings if one.kind is not Kind.REBALANCE_COST)
    return [one for one in accusing if groups & named(one) and one.at > started + SETTLED_MS]
