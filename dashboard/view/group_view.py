"""What the monitor knows of one group: its summary and its newest findings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding

_GENERATIONS = frozenset({Kind.REBALANCE, Kind.GROUP_EMPTY})


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group. summary: as coordinator/summary.py gives it, empty before the first one.

    recent: oldest first, at most `KEPT`. version: of the snapshot that changed it last.
    """

    KEPT: ClassVar[int] = 100

    name: str
    summary: Mapping[str, Any] = field(default_factory=dict)
    recent: tuple[Finding, ...] = ()
    version: int = 0

    def summarised(self, summary: Mapping[str, Any], version: int) -> GroupView:
        """Return this with a newer summary."""
        return GroupView(self.name, summary, self.recent, version)

    def with_finding(self, finding: Finding, version: int) -> GroupView:
        """Return this with one finding more; what the summary does not know yet is taken from it."""
        recent = (*self.recent[-self.KEPT + 1 :], finding)
        return GroupView(self.name, _patched(self.summary, finding), recent, version)

    def since(self, at: int) -> GroupView:
        """Return this with the findings after `at` (ms), and the newest one in any case."""
        if not self.recent or self.recent[0].at > at:
            return self
        kept = tuple(finding for finding in self.recent if finding.at > at)
        return replace(self, recent=kept or self.recent[-1:])


def _patched(summary: Mapping[str, Any], finding: Finding) -> Mapping[str, Any]:
    """Summaries come at most every few seconds: a finding about a generation comes at once."""
    if finding.kind not in _GENERATIONS or finding.at <= summary.get("at", -1):
        return summary
    said = {
        "group": finding.group,
        "group_type": finding.group_type,
        "state": finding.state,
        "generation": finding.generation,
        "leader": finding.leader,
        "protocol": finding.protocol,
        "protocol_type": finding.protocol_type,
        "members": finding.members_total,
    }
    known = {name: value for name, value in said.items() if value is not None}
    return {**summary, **known, **_still_there(summary, finding), "at": finding.at}


def _still_there(summary: Mapping[str, Any], finding: Finding) -> Mapping[str, Any]:
    """Return the listed members that the finding does not count as departed, at most as many as there are."""
    if "member_list" not in summary or finding.members_total is None:
        return {}
    gone = {member.member_id for member in finding.members if member.role == "left"}
    kept = [member for member in summary["member_list"] if member["member_id"] not in gone]
    return {"member_list": kept[: finding.members_total]}
