"""Labels: the small set of names by which routes, silences and inhibitions pick alerts.

Built from a finding alone. `alertname` is the finding's kind, as Alertmanager has it, and so is `kind`. A
label without a value is left out, and matches as the empty text, as in Alertmanager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.config.teams import team_of
from rebalance_monitor.coordinator.findings.finding import part_of
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding

Labels = dict[str, str]

KNOWN: dict[str, str] = {
    "alertname": "the finding's kind",
    "kind": "the same",
    "cluster": "the cluster's name",
    "group": "the consumer group; empty for what concerns no single group",
    "scope": "group, shard, cluster or monitor",
    "severity": "info, warning or critical",
    "cause": "the likeliest cause",
    "client_id": "client id of the member that the likeliest cause names",
    "member_id": "the member, where it is about one of several at a time (`member_silent`)",
    "topic": "the topic that it is about (`offsets_expiring`); else the group's, where it has exactly one",
    "group_type": "classic, consumer, share or streams",
    "team": "whose group it is, by `detection.groups`",
}
"""label -> meaning; a route that matches any other label is a mistake."""


def labels_of(finding: Finding, teams: Mapping[str, str]) -> Labels:
    """Return the labels of a finding; `teams` maps shell patterns over group names to a team, first wins."""
    likeliest = finding.causes[0] if finding.causes else None
    found = {
        "alertname": finding.kind.value,
        "kind": finding.kind.value,
        "cluster": finding.cluster,
        "group": finding.group or "",
        "scope": finding.scope.value,
        "severity": finding.severity.value,
        "cause": likeliest.cause.value if likeliest else "",
        "client_id": (likeliest.client_id or "") if likeliest else "",
        "member_id": part_of(finding) if finding.kind is Kind.MEMBER_SILENT else "",
        "topic": _topic(finding),
        "group_type": finding.group_type or "",
        "team": team_of(finding.group, teams),
    }
    return {label: value for label, value in found.items() if value}


def _topic(finding: Finding) -> str:
    if finding.kind is Kind.OFFSETS_EXPIRING:
        return part_of(finding)
    return finding.topics[0] if finding.topics_total == 1 and finding.topics else ""
