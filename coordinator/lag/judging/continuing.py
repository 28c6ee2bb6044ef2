"""One incident for one trouble: partitions that stand still, and what the group's coordinator does about it.

A member that does nothing is seen twice: its partitions stand still while records wait, and it is silent or
is removed. Whichever is found first opens the incident, and the other continues it under the same id. It is
over when the partitions move on. What concerns other members is an incident of its own. A stuck rebalance, a
storm and an empty group are more than one member's trouble and always have their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.finding import Incident
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.lag.incidents import Open

STANDING = frozenset({Kind.CONSUMPTION_STALLED, Kind.CONSUMPTION_STOPPED})
CONTINUING = frozenset(
    {
        Kind.MEMBER_SILENT,
        Kind.POLL_INTERVAL_EXCEEDED,
        Kind.SESSION_TIMEOUT,
        Kind.REBALANCE,
        Kind.REBALANCE_FAILED,
    }
)
"""What continues an incident of `STANDING` about the same member."""

_KEPT = "kept"


Silences = dict[str, dict[str, Incident]]
"""group -> member id -> its open `member_silent`"""


def learn(silences: Silences, finding: Finding) -> None:
    """Follow which members are reported silent."""
    if finding.kind is not Kind.MEMBER_SILENT or not finding.members or finding.group is None:
        return
    of_group, member = silences.setdefault(finding.group, {}), finding.members[0].member_id
    if finding.phase == "resolved":
        of_group.pop(member, None)
    elif not finding.history and finding.incident:
        of_group[member] = Incident(finding.incident, finding.opened_at or finding.at)
    if not of_group:
        del silences[finding.group]


def silence_of(silences: Silences, group: str, members: Iterable[str]) -> Incident | None:
    """Return the oldest open silence of one of these members."""
    known = silences.get(group, {})
    found = [known[member] for member in members if member in known]
    return min(found, key=lambda one: one.opened_at, default=None)


def continued(finding: Finding, known: Mapping[str, Open]) -> Finding:
    """Return a finding under the open incident of its group that it continues; `known`: kind -> incident."""
    if finding.kind not in CONTINUING or finding.history:
        return finding
    concerned = _concerned(finding)
    for kind in sorted(STANDING, reverse=True):
        one = known.get(kind)
        if one is not None and not concerned.isdisjoint(one.members):
            phase = "updated" if finding.phase else finding.phase
            return replace(finding, incident=one.incident, opened_at=one.opened_at, phase=phase)
    return finding


def _concerned(finding: Finding) -> frozenset[str]:
    """Return the members that a finding is about: of a rebalance, the members that did not merely stay."""
    ids = frozenset(one.member_id for one in finding.members if one.role != _KEPT)
    named = frozenset(cause.member_id for cause in finding.causes if cause.member_id)
    if finding.kind in {Kind.REBALANCE, Kind.REBALANCE_FAILED}:
        return ids | named
    return ids | named | frozenset(one.member_id for one in finding.members)
