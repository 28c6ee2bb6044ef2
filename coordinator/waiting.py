"""Who a join barrier waits for: members that, as far as their commits tell, have not rejoined.

Neither records nor the admin API say who has rejoined. An eager client commits when it rejoins and then no
more until the barrier falls; so a member that still commits has not rejoined, and one that fell silent long
before the others did is the one that they all wait for. Where all are alike nobody is named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings import MAX_KEPT, MemberEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rebalance_monitor.coordinator.findings import Details, Finding

_NAMED = 5

MARGIN_MS = 2_000
"""Commits this much (or twice the member's cadence) apart from the others' are told apart."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One member of the last generation: when it last committed (ms, -1 never), and how often (ms)."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    last_commit: int
    cadence: int

    @property
    def margin(self) -> int:
        """How far apart (ms) its commits must be from others' to tell anything."""
        return max(MARGIN_MS, 2 * self.cadence)


def missing(members: Iterable[Seen], since: int) -> list[Seen]:
    """Return those that have not rejoined a barrier seen since `since` (ms), oldest commit first."""
    known = sorted((m for m in members if m.last_commit >= 0), key=lambda m: (m.last_commit, m.member_id))
    if len(known) < 2:  # noqa: PLR2004 - one alone is like no other
        return []
    working = [member for member in known if member.last_commit > since + member.margin]
    rest = [member for member in known if member not in working]
    newest = max((member.last_commit for member in rest), default=-1)
    stalled = [member for member in rest if member.last_commit < newest - member.margin]
    return [*stalled, *working]


def from_summary(summary: Mapping[str, Any], listed: Collection[str] | None = None) -> list[Seen]:
    """Return the members of a group's summary; only those `listed`, where the brokers told who is left."""
    return [
        Seen(
            str(one["member_id"]),
            str(one["client_id"]),
            str(one["host"]),
            one["instance_id"],
            int(one["last_commit"]),
            int(one.get("cadence_ms", -1)),
        )
        for one in summary.get("member_list", ())
        if listed is None or one["member_id"] in listed
    ]


def named(finding: Finding, waits: list[Seen]) -> Finding:
    """Return the finding with the members that the barrier waits for."""
    if not waits:
        return finding
    names = ", ".join(dict.fromkeys(member.client_id for member in waits[:_NAMED]))
    members = tuple(
        MemberEntry(m.member_id, m.instance_id, m.client_id, m.host, False, "kept", last_seen=m.last_commit)  # noqa: FBT003 - the host is the member's own
        for m in waits[:MAX_KEPT]
    )
    details: Details = {**finding.details, "waits_for": names}
    return replace(finding, members=members, members_affected=len(waits), details=details)
