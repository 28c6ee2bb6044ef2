"""Why a member went, told anew where looks of the probe have timed the barrier that dropped it.

Records say when a barrier closed, not when its first member was gone: those that stayed may have taken
seconds to rejoin, and of a session and a poll interval that end within these seconds either may have begun
it. The operator knows no looks, so it sends along what it measured (`MEASURED`), and the driver judges it
again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator import beside
from rebalance_monitor.coordinator.attribution import attribute
from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import CauseEntry, Finding, finding_id, record_anchor
from rebalance_monitor.coordinator.kinds import KINDS, Kind
from rebalance_monitor.coordinator.measured import MEASURED, Silence, first_end, from_text
from rebalance_monitor.coordinator.ranking import ranked
from rebalance_monitor.coordinator.reasons import seconds, who, why_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rebalance_monitor.coordinator.findings import MemberEntry
    from rebalance_monitor.coordinator.settings import DetectionSettings

LOOKED = "looks of the probe saw the barrier begin"
"""What the sentence of a cause says that was judged again."""

_SLACK_MS = 200
"""How far the clocks of brokers and monitor may differ, and how long a look takes, ms."""


def timed(
    findings: Sequence[Finding], bounded: Callable[[Finding], Finding], settings: DetectionSettings
) -> list[Finding]:
    """Judge again what looks have timed; `bounded` puts their bounds on a rebalance.

    What stood beside a rebalance that is judged otherwise is told otherwise, under its own id.
    """
    told: list[Finding] = []
    again: dict[str, list[Finding]] = {}
    for finding in findings:
        rebalance = str(finding.details.get("rebalance", ""))
        if rebalance in again:
            continue
        if finding.kind is not Kind.REBALANCE or MEASURED not in finding.details:
            told.append(finding)
            continue
        plain, seen = _taken_out(finding)
        limited = bounded(plain)
        known = (plain.join_ms_min, plain.join_ms_max) == (limited.join_ms_min, limited.join_ms_max)
        causes = None if known else _causes(limited, seen)
        if causes is None:
            told.append(plain)
        else:
            stood = [one for one in findings if one.details.get("rebalance") == finding.id]
            again[finding.id] = _beside(plain, stood, seen, causes, settings)
            rest = [one for one in plain.causes if one.member_id != causes[0].member_id]
            others = [one for one in rest if one.cause is not Cause.UNKNOWN]
            told += [replace(plain, causes=ranked([*causes, *others])), *again[finding.id]]
    return told


def _taken_out(finding: Finding) -> tuple[Finding, Silence]:
    details = dict(finding.details)
    seen = from_text(str(details.pop(MEASURED)))
    return replace(finding, details=details), seen


def _causes(finding: Finding, seen: Silence) -> tuple[CauseEntry, ...] | None:
    """Judge with the silence that the member had when the barrier began; None where looks tell nothing.

    Where no limit had passed by then another member began the barrier, and it went inside.
    """
    least, most = finding.join_ms_min, finding.join_ms_max
    gone = next((member for member in finding.members if member.role == "left"), None)
    if least is None or most is None or gone is None or most - least > seen.session:
        return None
    start, end = seen.silence - most - _SLACK_MS, seen.silence - least + _SLACK_MS
    if end < first_end(seen):
        return None
    start = max(start, 0)
    then = replace(
        seen,
        silence=end,
        wait=end - start,
        elapsed=max(0, seen.elapsed - (seen.silence - end)),
        held=0,
        halted=0,
    )
    looked = f"; {LOOKED} {seconds(start)} to {seconds(end)} into its silence"
    found = tuple(
        CauseEntry(cause, share, why_of(cause, seen) + looked, *who(gone)) for cause, share in attribute(then)
    )
    return found if found and found[0].cause is not Cause.UNKNOWN else None


def _beside(
    rebalance: Finding,
    told: Sequence[Finding],
    seen: Silence,
    causes: tuple[CauseEntry, ...],
    settings: DetectionSettings,
) -> list[Finding]:
    """Give the finding about the member itself, where its cause is certain enough."""
    top = causes[0]
    kind = beside.kind_by(top, settings)
    if kind is None:
        return []
    group = rebalance.group or ""
    severity = settings.severity_of(kind, group, beside.severity_of(kind, seen) or KINDS[kind].severity)
    anchor = record_anchor(rebalance.shard or 0, rebalance.offset or 0, rebalance.at)
    gone = [member for member in rebalance.members if member.role == "left"]
    base = told[0] if told else _made(rebalance, gone[0], seen)
    made = finding_id(rebalance.cluster, kind, group, anchor, member=gone[0].member_id)
    return [
        replace(base, id=made, kind=kind, confidence=top.confidence, severity=severity, causes=causes),
        *told[1:],
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
