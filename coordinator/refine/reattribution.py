"""Departures judged again where probe samples have timed the join phase, or a member's removal.

Records show when a join phase ended, but neither when it began nor when a member was removed. Samples bound
its beginning, and their member lists bound the removal of each departed member (`listed_members.py`). The
operator has no samples, so it sends the evidence along (`MEASURED`). Here the bounds are added to the
evidence, and the same function judges again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed

from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence, decode
from rebalance_monitor.coordinator.departure.explain import explain
from rebalance_monitor.coordinator.departure.verdicts import (
    Measured,
    held_by,
    kinds_by,
    measured,
    numbers_of,
    severity_of,
    verdicts,
)
from rebalance_monitor.coordinator.findings import massed
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import (
    HELD_BY,
    MEASURED,
    CauseEntry,
    Finding,
    MemberEntry,
    finding_id,
    join_end,
    ranked,
    record_anchor,
)
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.rebalance import report
from rebalance_monitor.coordinator.rebalance.rebalance_causes import maybe_removed
from rebalance_monitor.coordinator.refine import waiting_records

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rebalance_monitor.coordinator.departure.alone import Explained
    from rebalance_monitor.coordinator.findings.finding import Details
    from rebalance_monitor.coordinator.refine.listed_members import Listed
    from rebalance_monitor.coordinator.settings import DetectionSettings

    Bounded = Callable[[Finding, int], Finding]
    Went = Callable[[Finding, str, int], Listed | None]
    More = Callable[[Finding, MemberEntry, Departed, int], Departed]
    """What else is known of a member that a rebalance removed at a time (ms), put into its evidence."""

    Judge = Callable[[Finding, Evidence], Explained]
    """Explains a rebalance by its evidence, to which all is added that is known."""

SAMPLED = "probe samples saw the join phase begin"
LISTED = "the broker no longer listed it"
"""What the sentence of a cause says that samples decided: by the phase's beginning, by lists of members."""

# How far the clocks of brokers and monitor may differ, and how long a sample takes, ms.
_SLACK_MS = 200
# The end of a member that the model does not judge: the pattern of its removal is its own evidence.
_NEVER = -1


@dataclass(frozen=True, slots=True)
class _Judged:
    """A departed member, its numbers, and its causes by records and samples."""

    member: MemberEntry
    one: Departed
    seen: Measured
    causes: tuple[CauseEntry, ...]


def by_evidence(_finding: Finding, evidence: Evidence) -> Explained:
    """Judge a rebalance as the operator does."""
    return explain(evidence)


def timed(
    findings: Sequence[Finding],
    bounded: Bounded,
    went: Went,
    settings: DetectionSettings,
    more: More | None = None,
    judge: Judge = by_evidence,
) -> list[Finding]:
    """Judge departures again that samples have timed; `bounded` puts their bounds on a rebalance.

    `went` returns when, by member lists, the member with an id was removed since a time (ms). If a member is
    judged otherwise, its finding beside the rebalance changes too, under its own id. If very many left, a
    rebalance lists only the first of them: a kind that samples leave to no listed member is published for no
    other member either.
    """
    out: list[Finding] = []
    beside_them: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        if "rebalance" in finding.details:
            beside_them[_about(finding)].append(finding)
    again: set[tuple[str, str]] = set()
    left: dict[str, set[Kind]] = {}
    for finding in findings:
        about = _about(finding)
        if about in again or (about[0] in left and finding.kind not in left[about[0]]):
            continue
        if MEASURED not in finding.details:
            out.append(finding)
            continue
        plain, judged = _reattribute(finding, bounded, went, more, judge)
        again |= {(finding.id, one.member.member_id) for one in judged}
        claims = []
        departed = int(plain.details.get("left", 0)) or plain.members_affected or len(judged)
        kinds = kinds_by([one.causes for one in judged], departed, settings)
        for one, claimed in zip(judged, kinds, strict=True):
            stood = beside_them.get((finding.id, one.member.member_id), [])
            claims += [] if claimed is None else [_beside(plain, stood, one, claimed, settings)]
        out += [_with_severity(_with_causes(plain, judged), judged, claims, settings), *claims]
        listed = sum(member.role == "left" for member in plain.members)
        if judged and int(plain.details.get("left", 0)) > listed:
            left[finding.id] = {one.kind for one in claims}
    return out


def _with_severity(
    finding: Finding, judged: Sequence[_Judged], claims: Sequence[Finding], settings: DetectionSettings
) -> Finding:
    """Return `group_empty` as loud as the faults that are left of the members which were judged again."""
    if finding.kind is not Kind.GROUP_EMPTY or len(judged) < (finding.members_affected or len(judged) or 1):
        return finding
    group = finding.group or ""
    usual = Severity.CRITICAL if settings.is_always_on(group) else KINDS[finding.kind].severity
    return replace(finding, severity=settings.severity_of(finding.kind, group, massed.loudest(claims, usual)))


def _about(finding: Finding) -> tuple[str, str]:
    """Return beside which rebalance it stands, and about which member."""
    return str(finding.details.get("rebalance", "")), finding.members[0].member_id if finding.members else ""


def _reattribute(
    finding: Finding, bounded: Bounded, went: Went, more: More | None, judge: Judge
) -> tuple[Finding, list[_Judged]]:
    """Return the finding without the evidence, and its members judged again where samples say anything."""
    details = dict(finding.details)
    evidence = decode(str(details.pop(MEASURED)).encode())
    plain = replace(finding, details=details)
    gone = [member for member in plain.members if member.role == "left"][: len(evidence.departed)]
    sampled, ends = evidence, [join_end(plain)] * len(gone)
    if evidence.apart:
        ends = [end - age if age >= 0 else _NEVER for end, age in zip(ends, evidence.apart, strict=False)]
    else:
        since = join_end(plain) - evidence.since
        limited = bounded(plain, since)
        sampled = _sampled(evidence, plain, limited, [went(limited, one.member_id, since) for one in gone])
    if more is not None:
        triples = zip(gone, sampled.departed, ends, strict=False)
        known = [more(plain, member, one, end) if end >= 0 else one for member, one, end in triples]
        departed = (*known, *sampled.departed[len(known) :])
        sampled = waiting_records.with_stalls(changed(sampled, departed=departed))
    if sampled == evidence:
        return plain, []
    explained = judge(finding, sampled)
    place = held_by(explained)
    timed = finding.kind is Kind.REBALANCE and place is not None and place < len(gone)
    held: Details = {HELD_BY: gone[place].member_id} if timed and place is not None else {}
    kept = {name: value for name, value in details.items() if name != HELD_BY}
    judged = [
        _Judged(
            member, one, measured(sampled, one), verdicts(member, one, ways, _describe_samples(sampled, one))
        )
        for member, one, ways, end in zip(gone, sampled.departed, explained.ways, ends, strict=False)
        if end >= 0
    ]
    return replace(plain, details=kept | held), judged


def _sampled(
    evidence: Evidence, plain: Finding, limited: Finding, listed: Sequence[Listed | None]
) -> Evidence:
    """Return the evidence with the bounds that samples put on the phase and on each removal."""
    least, most = limited.join_ms_min, limited.join_ms_max
    if (plain.join_ms_min, plain.join_ms_max) != (least, most) and least is not None and most is not None:
        evidence = changed(evidence, phase=(max(0, least - _SLACK_MS), most + _SLACK_MS))
    if not any(listed):
        return evidence
    ended = join_end(plain)
    departed = [
        one
        if seen is None
        else changed(one, removed=(max(0, ended - seen.most - _SLACK_MS), ended - seen.least + _SLACK_MS))
        for one, seen in zip(evidence.departed, [*listed, *[None] * len(evidence.departed)], strict=False)
    ]
    return changed(evidence, departed=tuple(departed))


def _describe_samples(evidence: Evidence, one: Departed) -> str:
    """Say what samples show: how long the member had been silent as the phase began, or when it departed."""
    begun = "its generation began" if one.rearms else "it acknowledged its epoch"
    since = "its last commit" if one.trace.last >= 0 else begun
    (least, most), text, work = one.removed, LISTED, waiting_records.describe(one, since)
    if one.woke >= 0:
        work += f"; its broker had not responded until {seconds(one.woke)} before"
    elif one.loaded >= 0:
        work += f"; the brokers were away, or its coordinator moved, {seconds(one.loaded)} before"
    if most < 0 and not evidence.apart:
        (least, most), text = evidence.phase, SAMPLED
        if least <= 0 and most >= one.last_active:
            # No sample between its last commit and the phase's end: the probe was away.
            return work
    if most < 0:
        return work
    late = max(0, one.last_active - most), max(0, one.last_active - least)
    return f"; {text} {seconds(late[0])} to {seconds(late[1])} after {since}{work}"


def _with_causes(plain: Finding, judged: Sequence[_Judged]) -> Finding:
    if not judged:
        return plain
    anew = {one.member.member_id for one in judged}
    rest = [entry for entry in plain.causes if entry.member_id not in anew]
    causes = [entry for one in judged for entry in one.causes]
    left = [one for one in judged if one.causes and one.causes[0].cause is Cause.MEMBER_LEFT]
    causes += [maybe_removed(one.member, one.seen.silence) for one in left if one.one.returned]
    # An `unknown` that names no member was the rest of these members' causes.
    causes += [entry for entry in rest if entry.member_id or entry.cause is not Cause.UNKNOWN]
    likeliest = ranked(causes)
    empty: Details = {"ended_by": report.ended_by(likeliest)} if plain.kind is Kind.GROUP_EMPTY else {}
    return replace(plain, causes=likeliest, details=plain.details | empty)


def _beside(
    rebalance: Finding,
    stood: Sequence[Finding],
    judged: _Judged,
    claimed: tuple[Kind, float],
    settings: DetectionSettings,
) -> Finding:
    """Give the finding about the member itself."""
    kind, sure = claimed
    gone, group = judged.member, rebalance.group or ""
    usual = severity_of(kind, judged.seen) or KINDS[kind].severity
    anchor = record_anchor(rebalance.shard or 0, rebalance.offset or 0, rebalance.at)
    base = stood[0] if stood else _made(rebalance, gone, judged.seen)
    return replace(
        base,
        id=stood[0].id
        if stood and stood[0].kind is kind
        else finding_id(rebalance.cluster, kind, group, anchor, member=gone.member_id),
        kind=kind,
        confidence=sure,
        severity=settings.severity_of(kind, group, usual),
        causes=judged.causes,
    )


def _made(rebalance: Finding, gone: MemberEntry, seen: Measured) -> Finding:
    """Give what stands beside a rebalance about one departed member; kind, id and causes are the caller's."""
    return replace(
        rebalance,
        evidence="suspected",
        previous_leader=None,
        incident=None,
        phase=None,
        opened_at=None,
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
        details=numbers_of(seen, rebalance.id),
    )
