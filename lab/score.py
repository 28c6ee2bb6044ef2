"""Detection against truth: what was found, missed, and claimed wrongly.

A finding makes claims: its kind, and each of its causes at or above the attribution confidence. What a claim
and a fact must share is in `matching.py`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.lab import silences
from rebalance_monitor.lab.matching import BY_MEMBER, LOSSES, Claim, Key, key_of, occasion, occasions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings import CauseEntry, Finding
    from rebalance_monitor.lab.foldstate import Fact
    from rebalance_monitor.lab.matching import Occasions

CONFIDENT = 0.6
# Kinds that the log decides; of these a claim without a fact is wrong.
JUDGED_KINDS = frozenset(
    {
        Kind.REBALANCE,
        Kind.REBALANCE_FAILED,
        Kind.SESSION_TIMEOUT,
        Kind.POLL_INTERVAL_EXCEEDED,
        Kind.STATIC_MEMBER_REPLACED,
        Kind.GROUP_EMPTY,
        Kind.STORM,
        Kind.GROUP_MIGRATED,
        Kind.GROUP_REMOVED,
    }
)
JUDGED_CAUSES = frozenset(
    {
        *LOSSES,
        Cause.FIRST_START,
        Cause.MEMBER_JOINED,
        Cause.SUBSCRIPTION_CHANGED,
        Cause.PARTITIONS_CHANGED,
        Cause.TOPIC_DELETED,
        Cause.PROTOCOL_CHANGED,
        Cause.LEADER_REJOINED,
        Cause.COOPERATIVE_FOLLOW_UP,
        Cause.STREAMS_PROBING,
        Cause.CONNECT_RECONFIGURED,
        Cause.CONNECT_DELAYED,
        Cause.COORDINATOR_MOVED,
        Cause.OFFSETS_RESET,
        Cause.GROUP_DELETED_BY_ADMIN,
        Cause.GROUP_EXPIRED,
        Cause.ASSIGNMENT_NOT_STORED,
    }
)
WITH_CAUSES = frozenset({Kind.REBALANCE, Kind.REBALANCE_FAILED, Kind.GROUP_EMPTY, Kind.GROUP_REMOVED})
# A member that such a cause names is only where it was seen.
OF_GROUPS = frozenset({Cause.FIRST_START, Cause.LEADER_REJOINED, Cause.COOPERATIVE_FOLLOW_UP})
MAX_EPOCHS = 100


@dataclass(frozen=True, slots=True)
class Tally:
    """One row of the table: facts, how many were detected, claims, how many were right; delays in s."""

    facts: int
    detected: int
    claims: int
    right: int
    delays: tuple[float, ...] = ()

    @property
    def missed(self) -> int:
        """Facts that nothing told of."""
        return self.facts - self.detected

    @property
    def wrong(self) -> int:
        """Claims without a fact."""
        return self.claims - self.right


def claims_of(findings: Iterable[Finding], shards: Mapping[int, Sequence[str]] | None = None) -> list[Claim]:
    """Give what the findings claim, confident or not, of what the log decides.

    `shards` gives the groups of each shard: a shard whose coordinator moved is a claim about each of them.
    """
    every = list(findings)
    found = [claim for finding in every if finding.group is not None for claim in _claims(finding)]
    # A finding without a shard sums up many.
    return found + [
        Claim(one.kind.value, group, -1, "", one.confidence, one.detected_at)
        for one in every
        if one.kind == Kind.COORDINATOR_MOVED
        for shard, groups in (shards or {}).items()
        if one.shard in {None, shard}
        for group in groups
    ]


def _claims(finding: Finding) -> list[Claim]:
    made = []
    if finding.kind in JUDGED_KINDS and finding.phase in {None, "opened"}:
        members = _subjects(finding) if finding.kind in BY_MEMBER else [""]
        made += [_claim(finding, finding.kind.value, member, finding.confidence) for member in members]
        # A convergence tells of every epoch since the one before.
        made += [replace(made[0], generation=epoch) for epoch in _earlier_epochs(finding)]
    if finding.kind in WITH_CAUSES and finding.phase in {None, "opened"}:
        made += [
            _claim(finding, f"cause:{cause.cause.value}", _member(cause), cause.confidence)
            for cause in finding.causes
            if cause.cause in JUDGED_CAUSES
        ]
    if finding.kind == Kind.MEMBER_SILENT and finding.phase == "opened":
        made += [
            _claim(finding, silences.LABEL, member.member_id, finding.confidence)
            for member in finding.members
        ]
    return made


def _earlier_epochs(finding: Finding) -> range:
    if finding.kind != Kind.REBALANCE or finding.group_type in {None, "classic"}:
        return range(0)
    last = finding.generation or 0
    first = (finding.previous_generation or 0) + 1
    return range(max(first, last - MAX_EPOCHS), last)


def _member(cause: CauseEntry) -> str:
    return "" if cause.cause in OF_GROUPS else cause.member_id or ""


def _subjects(finding: Finding) -> list[str]:
    if previous := finding.details.get("previous_member_id"):
        return [str(previous)]
    blamed = [cause.member_id for cause in finding.causes if cause.member_id]
    gone = [member.member_id for member in finding.members if member.role in {"left", "replaced"}]
    return list(dict.fromkeys(blamed or gone)) or [""]


def _claim(finding: Finding, label: str, member: str, confidence: float) -> Claim:
    generation = -1 if finding.generation is None else finding.generation
    if finding.group_type not in {None, "classic"} and label != Kind.REBALANCE:
        # A run of epochs ends where its convergence does; see lab/facts.py.
        generation = -1
    return Claim(label, finding.group or "", generation, member, confidence, finding.detected_at, finding.at)


def tally(
    facts: Sequence[Fact], claims: Sequence[Claim], families: Mapping[str, str]
) -> dict[tuple[str, str], Tally]:
    """Count per (label, client family); `families` maps groups to families, others are left out."""
    sure = _sure(claims)
    times = occasions(facts)
    told: dict[Key, Claim] = {}
    for claim in sure:
        told.setdefault(key_of(claim, times), claim)
    true = {key_of(fact, times) for fact in facts}
    rows: dict[tuple[str, str], list[tuple[str, bool, float | None]]] = defaultdict(list)
    for fact in facts:
        if fact.required and fact.group in families:
            rows[fact.label, families[fact.group]].append(_fact_row(fact, told.get(key_of(fact, times))))
    for claim in sure:
        if claim.group in families:
            rows[claim.label, families[claim.group]].append(("claim", key_of(claim, times) in true, None))
    return {key: _count(entries) for key, entries in sorted(rows.items())}


def unmatched(facts: Sequence[Fact], claims: Sequence[Claim]) -> tuple[list[Fact], list[Claim]]:
    """Give what nothing told of, and what was claimed without a fact; for those who tune the detection."""
    sure = _sure(claims)
    times = occasions(facts)
    told, true = {key_of(claim, times) for claim in sure}, {key_of(fact, times) for fact in facts}
    missed = [fact for fact in facts if fact.required and key_of(fact, times) not in told]
    return missed, [claim for claim in sure if key_of(claim, times) not in true]


def _sure(claims: Iterable[Claim]) -> list[Claim]:
    """Give the confident claims about facts; silences are judged by themselves."""
    return [one for one in claims if one.confidence >= CONFIDENT and one.label != silences.LABEL]


def _fact_row(fact: Fact, claim: Claim | None) -> tuple[str, bool, float | None]:
    if claim is None:
        return "fact", False, None
    return "fact", True, (claim.detected_at - fact.at) / 1000 if claim.detected_at > 0 else None


def _count(entries: Sequence[tuple[str, bool, float | None]]) -> Tally:
    facts = [entry for entry in entries if entry[0] == "fact"]
    claims = [entry for entry in entries if entry[0] == "claim"]
    return Tally(
        facts=len(facts),
        detected=sum(hit for _, hit, _ in facts),
        claims=len(claims),
        right=sum(hit for _, hit, _ in claims),
        delays=tuple(sorted(delay for _, _, delay in facts if delay is not None)),
    )


def together(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up."""
    every = list(tallies)
    return Tally(
        facts=sum(one.facts for one in every),
        detected=sum(one.detected for one in every),
        claims=sum(one.claims for one in every),
        right=sum(one.right for one in every),
        delays=tuple(sorted(delay for one in every for delay in one.delays)),
    )


@dataclass(frozen=True, slots=True)
class Band:
    """Causes that named a member with a confidence of `low` to `low` + 0.1.

    How many `claims` there were, how many of them `true`, and the mean of what they `stated`.
    """

    low: float
    claims: int
    true: int
    stated: float


def calibration(facts: Sequence[Fact], claims: Sequence[Claim]) -> list[Band]:
    """Give the bands of confidence in which causes of members were claimed."""
    times = occasions(facts)
    true = {key_of(fact, times) for fact in facts}
    bands: dict[int, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.label.startswith("cause:") and claim.member:
            bands[min(9, int(claim.confidence * 10))].append(claim)
    return [_band(tenth, found, true, times) for tenth, found in sorted(bands.items())]


def _band(tenth: int, found: Sequence[Claim], true: set[Key], times: Occasions) -> Band:
    stated = sum(claim.confidence for claim in found) / len(found)
    return Band(tenth / 10, len(found), sum(key_of(claim, times) in true for claim in found), stated)


UNSURE, NOTHING = "unsure", "nothing"


def confusion(facts: Sequence[Fact], claims: Sequence[Claim]) -> dict[tuple[str, str], int]:
    """Count (true cause, claimed cause) over the members that were lost, each time that one was.

    The claim is the most confident one about that loss; below 0.6 it is `unsure`, without one `nothing`.
    """
    times = occasions(facts)
    lost = {f"cause:{cause.value}": cause.value for cause in LOSSES}
    best: dict[tuple[str, str, int], Claim] = {}
    for claim in claims:
        place = claim.group, claim.member, occasion(claim, times)
        if claim.label in lost and (place not in best or best[place].confidence < claim.confidence):
            best[place] = claim
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for fact in facts:
        if fact.label in lost and fact.required:
            place = fact.group, fact.member, occasion(fact, times)
            counts[lost[fact.label], _said(best.get(place), lost)] += 1
    return dict(counts)


def _said(claim: Claim | None, lost: Mapping[str, str]) -> str:
    if claim is None:
        return NOTHING
    return lost[claim.label] if claim.confidence >= CONFIDENT else UNSURE
