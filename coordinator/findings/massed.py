"""Many members in one finding: all departures of one cause in one rebalance, and bounded lists.

From `MANY` departures of one kind and cause beside one rebalance on, one finding stands for all of them. It
counts the members (`members_affected`), lists `LISTED` of them, and gives the number of the others with a
digest of their ids. A rebalance of so many members lists as many of each role. Causes that say the same of
many members become one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import sha256
from statistics import median_low
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import LOSSES, Cause
from rebalance_monitor.coordinator.findings.finding import (
    MAX_KEPT,
    MAX_MOVED,
    CauseEntry,
    Finding,
    finding_id,
)
from rebalance_monitor.coordinator.findings.kinds import Kind, louder
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Details, MemberEntry
    from rebalance_monitor.coordinator.findings.kinds import Severity

MANY, LISTED = 20, MAX_MOVED
BESIDE = frozenset({Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED})
"""Kinds that stand beside a rebalance, one finding a member."""

UNLISTED, DIGEST = "unlisted", "unlisted_digest"
ROLE_OF = {**dict.fromkeys(LOSSES, "left"), Cause.MEMBER_JOINED: "joined"}
"""Cause -> role of the members that it is about."""

_WENT = {"left": "are gone", "joined": "joined"}
_SAID = 5
"""A cause that so many of the entries share is not one member's: a finding keeps no more than 20 of them."""

_Key = tuple[str, Kind, Cause, str]


def massed(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, with one for all members that departed by the same cause where they are many."""
    beside: dict[_Key, list[Finding]] = defaultdict(list)
    for one in findings:
        if one.kind in BESIDE and one.causes:
            beside[_key(one)].append(one)
    events = {one.id: one for one in findings}
    whole = {key: _one_for(found, events) for key, found in beside.items() if len(found) >= MANY}
    result: list[Finding] = []
    for one in findings:
        key = _key(one) if one.kind in BESIDE and one.causes else None
        if key is None or key not in whole:
            result.append(bounded(one))
        elif one is beside[key][0]:
            result.append(bounded(whole[key]))
    return result


def bounded(finding: Finding) -> Finding:
    """Return the finding with at most `LISTED` members of each role, and many equal causes as one."""
    roles = Counter(member.role for member in finding.members)
    if max(roles.values(), default=0) < MANY:
        return finding
    causes = _together(finding.causes, _totals(finding, roles))
    listed = _listed(finding.members)
    if len(listed) == len(finding.members):
        return replace(finding, causes=causes)
    shown = set(map(id, listed))
    rest = [member.member_id for member in finding.members if id(member) not in shown]
    return replace(finding, causes=causes, members=listed, details={**finding.details, **digest(rest)})


def _totals(finding: Finding, roles: Mapping[str, int]) -> dict[str, int]:
    """Return how many members that left, and that joined, a finding is about: listed and not."""
    counted = {role: int(finding.details.get(role, 0)) for role in ROLE_OF.values()}
    if finding.kind is Kind.GROUP_EMPTY:
        counted["left"] = finding.members_affected or 0
    return {role: max(roles.get(role, 0), number) for role, number in counted.items()}


def before(event: Finding) -> int | None:
    """Return how many members the group had before a rebalance or before it became empty, None if unknown."""
    if event.kind is Kind.GROUP_EMPTY:
        return event.members_affected
    counts = [event.details.get(name) for name in ("joined", "left")]
    if event.members_total is None or None in counts:
        return None
    joined, left = (int(count or 0) for count in counts)
    return event.members_total - joined + left


def loudest(found: Iterable[Finding], at_least: Severity) -> Severity:
    """Return the severity of the loudest fault of a member among `found`, or `at_least`."""
    severity = at_least
    for one in found:
        severity = louder(severity, one.severity) if one.kind in BESIDE else severity
    return severity


def _key(finding: Finding) -> _Key:
    beside = str(finding.details.get("rebalance", ""))
    return finding.group or "", finding.kind, finding.causes[0].cause, beside


def _one_for(found: Sequence[Finding], events: Mapping[str, Finding]) -> Finding:
    """Return the finding that stands for all of `found`; `events`: what they may stand beside, by id."""
    first, beside = found[0], str(found[0].details.get("rebalance", ""))
    event = events.get(beside)
    members = tuple(member for one in found for member in one.members)
    total = None if event is None else before(event)
    silences = sorted(member.silence_ms for member in members if member.silence_ms is not None)
    cause, usual = first.causes[0].cause, median_low(one.confidence for one in found)
    why = _why(len(found), total, silences)
    if event is not None and event.kind is Kind.GROUP_EMPTY:
        why += "; the group is now empty"
    known: Details = {} if total is None else {"members_before": total}
    middle: Details = {"silence_ms": silences[len(silences) // 2]} if silences else {}
    return replace(
        first,
        id=finding_id(first.cluster, first.kind, first.group or "", f"members/{beside}/{cause.value}"),
        confidence=usual,
        severity=loudest(found, first.severity),
        members_affected=len(found),
        partitions_affected=sum(one.partitions_affected or 0 for one in found),
        causes=(CauseEntry(cause, usual, why),),
        members=members,
        details={**first.details, **middle, **known},
    )


def _why(number: int, total: int | None, silences: Sequence[int]) -> str:
    text = f"{number:,} members" if total is None else f"{number:,} of {total:,} members"
    if silences:
        text += f", without a commit for {seconds(silences[0])} to {seconds(silences[-1])}"
    return text


def _listed(members: Sequence[MemberEntry]) -> tuple[MemberEntry, ...]:
    """Return the members that a finding lists: the first ones of each role."""
    room = Counter({"kept": MAX_KEPT})
    kept = []
    for member in members:
        taken = room[member.role] if member.role == "kept" else LISTED + room[member.role]
        if taken > 0:
            room[member.role] -= 1
            kept.append(member)
    return tuple(kept)


def digest(members: Iterable[str]) -> Details:
    """Return what the details say of members that a finding is about and does not list."""
    names = sorted(members)
    return {
        UNLISTED: len(names),
        DIGEST: sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()[:16],
    }


def _together(causes: Sequence[CauseEntry], roles: Mapping[str, int]) -> tuple[CauseEntry, ...]:
    """Return the causes, with one entry where the same is claimed of many members."""
    times = Counter(entry.cause for entry in causes if entry.member_id)
    many = {
        cause
        for cause, said in times.items()
        if said >= _SAID and roles.get(ROLE_OF.get(cause, ""), 0) >= MANY
    }
    merged: dict[Cause, CauseEntry] = {}
    kept = []
    for entry in causes:
        if entry.cause not in many or not entry.member_id:
            kept.append(entry)
        elif entry.cause not in merged:
            number, role = roles[ROLE_OF[entry.cause]], ROLE_OF[entry.cause]
            why = f"{number:,} members {_WENT[role]}; for example {entry.client_id}: {entry.why}"
            merged[entry.cause] = CauseEntry(entry.cause, entry.confidence, why)
            kept.append(merged[entry.cause])
    return tuple(kept)
