"""Why members went, told anew where looks of the probe have timed the barrier that dropped them.

Records say when a barrier closed, not when anybody was gone: those that stayed may have taken seconds to
rejoin, or minutes where they were busy. Looks say when the barrier began, and their lists when each of those
members went (`listed_members.py`). The operator knows no looks, so it sends along what it measured
(`MEASURED`), and the driver judges it again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.departure import beside
from rebalance_monitor.coordinator.departure.measured import MEASURED, Silence, from_text
from rebalance_monitor.coordinator.departure.sentences import maybe_removed, why_of
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import (
    CauseEntry,
    Finding,
    MemberEntry,
    finding_id,
    record_anchor,
)
from rebalance_monitor.coordinator.findings.kinds import KINDS, Kind
from rebalance_monitor.coordinator.findings.ranking import ranked
from rebalance_monitor.coordinator.findings.wording import who
from rebalance_monitor.coordinator.refine import departure_evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rebalance_monitor.coordinator.refine.listed_members import Listed
    from rebalance_monitor.coordinator.settings import DetectionSettings

    Went = Callable[[Finding, str], Listed | None]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A member that went, what was measured of it, and what looks make of that."""

    member: MemberEntry
    seen: Silence
    causes: tuple[CauseEntry, ...]


def timed(
    findings: Sequence[Finding],
    bounded: Callable[[Finding], Finding],
    went: Went,
    settings: DetectionSettings,
) -> list[Finding]:
    """Judge again what looks have timed; `bounded` puts their bounds on a rebalance.

    `went` gives when, by lists, the member of an id went from it. What stood beside a rebalance about a
    member that is judged otherwise is told otherwise, under its own id.
    """
    told: list[Finding] = []
    beside_them: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        if "rebalance" in finding.details:
            beside_them[_about(finding)].append(finding)
    again: set[tuple[str, str]] = set()
    for finding in findings:
        if _about(finding) in again:
            continue
        if finding.kind is not Kind.REBALANCE or MEASURED not in finding.details:
            told.append(finding)
            continue
        plain, seen = _taken_out(finding)
        judged = _judged(plain, bounded(plain), seen, went)
        again |= {(finding.id, one.member.member_id) for one in judged}
        told.append(_told_anew(plain, judged))
        for one in judged:
            stood = beside_them.get((finding.id, one.member.member_id), [])
            told += _beside(plain, stood, one, settings)
    return told


def _about(finding: Finding) -> tuple[str, str]:
    """Return beside which rebalance it stands, and about which member."""
    return str(finding.details.get("rebalance", "")), finding.members[0].member_id if finding.members else ""


def _taken_out(finding: Finding) -> tuple[Finding, list[Silence | None]]:
    details = dict(finding.details)
    seen = from_text(str(details.pop(MEASURED)))
    return replace(finding, details=details), seen


def _judged(plain: Finding, limited: Finding, seen: Sequence[Silence | None], went: Went) -> list[_Judged]:
    known = (plain.join_ms_min, plain.join_ms_max) == (limited.join_ms_min, limited.join_ms_max)
    gone = [member for member in plain.members if member.role == "left"]
    found = []
    for member, one in zip(gone, seen, strict=False):
        if one is None:
            continue
        listed = went(limited, member.member_id)
        if listed is not None:
            told = departure_evidence.by_lists(limited, one, listed)
        else:
            told = None if known else departure_evidence.by_start(limited, one, member.member_id)
        if told is not None:
            found.append(_Judged(member, one, _causes(member, one, *told)))
    return found


def _causes(
    gone: MemberEntry, seen: Silence, shares: Sequence[tuple[Cause, float]], looks: str
) -> tuple[CauseEntry, ...]:
    plain, named = replace(seen, busy=None), who(gone)
    return tuple(CauseEntry(cause, share, why_of(cause, plain) + looks, *named) for cause, share in shares)


def _told_anew(plain: Finding, judged: Sequence[_Judged]) -> Finding:
    if not judged:
        return plain
    anew = {one.member.member_id for one in judged}
    rest = [entry for entry in plain.causes if entry.member_id not in anew]
    causes = [entry for one in judged for entry in one.causes]
    left = [one for one in judged if one.causes[0].cause is Cause.MEMBER_LEFT]
    causes += [maybe_removed(one.member, one.seen) for one in left if one.seen.returned]
    # What is unknown of nobody in particular was so because of these.
    causes += [entry for entry in rest if entry.member_id or entry.cause is not Cause.UNKNOWN]
    return replace(plain, causes=ranked(causes))


def _beside(
    rebalance: Finding, told: Sequence[Finding], judged: _Judged, settings: DetectionSettings
) -> list[Finding]:
    """Give the finding about the member itself, where its cause is certain enough."""
    top, gone = judged.causes[0], judged.member
    kind = beside.kind_by(top, settings)
    if kind is None:
        return []
    group = rebalance.group or ""
    usual = beside.severity_of(kind, judged.seen) or KINDS[kind].severity
    anchor = record_anchor(rebalance.shard or 0, rebalance.offset or 0, rebalance.at)
    base = told[0] if told else _made(rebalance, gone, judged.seen)
    return [
        replace(
            base,
            id=finding_id(rebalance.cluster, kind, group, anchor, member=gone.member_id),
            kind=kind,
            confidence=top.confidence,
            severity=settings.severity_of(kind, group, usual),
            causes=judged.causes,
        )
    ]


def _made(rebalance: Finding, gone: MemberEntry, seen: Silence) -> Finding:
    """Give what stands beside a rebalance about a member that went; kind, id and causes are the caller's."""
    return replace(
        rebalance,
        evidence="suspected",
        previous_leader=None,
        started_at_min=None,
        started_at_max=None,
        join_ms_min=None,
        join_ms_max=None,
        sync_ms=None,
        stopped_ms_min=None,
        stopped_ms_max=None,
        members_affected=1,
        partitions_affected=gone.partitions,
        members=(gone,),
        details=beside.details_of(seen, rebalance.id),
    )
