"""What advice is derived from, and what one piece of it says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import FAMILIES
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rebalance_monitor.coordinator.assignors.compare import Spread
    from rebalance_monitor.coordinator.commits.client_families import Family
    from rebalance_monitor.coordinator.explain.dossier import Gaps
    from rebalance_monitor.coordinator.findings.causes import Cause
    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice: what to do, the numbers that speak for it, and the client that they are of."""

    about: str
    advice: str
    reason: str
    client_id: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of the rules; `now` and `options` are the spread now and by assignor."""

    state: GroupState
    findings: tuple[Finding, ...]
    gaps: Gaps
    settings: DetectionSettings
    now: Spread | None = None
    options: Mapping[str, Spread] = field(default_factory=dict)
    assignors: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    subscriptions: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def members(self) -> list[Member]:
        """The group's members."""
        return self.state.members

    @property
    def families(self) -> list[Family]:
        """What is known of the clients of the members."""
        return [FAMILIES[member.family] for member in self.members]


def times(count: int) -> str:
    """Return how often, in words."""
    return "once" if count == 1 else f"{count} times"


def caused(facts: Facts, *causes: Cause) -> int:
    """Count departures with a confident claim of one of these causes; causes of one departure add up."""
    kinds = {Kind.REBALANCE, Kind.GROUP_EMPTY}
    shares: Counter[tuple[str, str | None]] = Counter()
    for finding in facts.findings:
        for cause in finding.causes if finding.kind in kinds else ():
            shares[finding.id, cause.member_id] += round(100 * cause.confidence) * (cause.cause in causes)
    return sum(share >= 100 * facts.settings.attribution_confidence for share in shares.values())


def named_by(facts: Facts, cause: Cause) -> list[CauseEntry]:
    """Return all entries of a cause, oldest first."""
    return [one for finding in facts.findings for one in finding.causes if one.cause is cause]
