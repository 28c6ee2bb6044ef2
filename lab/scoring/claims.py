"""What findings claim, of what the log decides: their kinds, and their causes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings import massed
from rebalance_monitor.coordinator.findings.causes import LOSSES, Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.scoring import silences
from rebalance_monitor.lab.scoring.matching import BY_MEMBER, UNLISTED, Claim

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding

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
        Cause.GROUP_ID_SHARED,
        Cause.GROUP_DELETED_BY_ADMIN,
        Cause.GROUP_EXPIRED,
        Cause.ASSIGNMENT_NOT_STORED,
    }
)
WITH_CAUSES = frozenset({Kind.REBALANCE, Kind.REBALANCE_FAILED, Kind.GROUP_EMPTY, Kind.GROUP_REMOVED})
# A member that such a cause names is only where it was seen.
OF_GROUPS = frozenset({Cause.FIRST_START, Cause.LEADER_REJOINED, Cause.COOPERATIVE_FOLLOW_UP})
MAX_EPOCHS = 100


def claims_of(findings: Iterable[Finding], shards: Mapping[int, Sequence[str]] | None = None) -> list[Claim]:
    """Give what the findings claim, confident or not, of what the log decides.

    `shards` gives the groups of each shard: a shard whose coordinator moved is a claim about each of them.
    """
    every = list(findings)
    found = [claim for finding in every if finding.group is not None for claim in _claims(finding)]
    return found + [
        Claim(one.kind.value, group, -1, "", one.confidence, one.detected_at)
        for one in every
        if one.kind == Kind.COORDINATOR_MOVED
        for shard, groups in (shards or {}).items()
        if is_about_shard(one, shard)
        for group in groups
    ]


def is_about_shard(finding: Finding, shard: int) -> bool:
    """Whether a finding is about this partition of the offsets topic; one that names none is about all."""
    if (named := str(finding.details.get("partitions", ""))) and finding.kind is Kind.COORDINATOR_MOVED:
        bounds = (part.partition("-") for part in named.split(","))
        return any(int(low) <= shard <= int(high or low) for low, _, high in bounds)
    return finding.shard in {None, shard}


def _claims(finding: Finding) -> list[Claim]:
    made = []
    if finding.kind in JUDGED_KINDS and finding.phase in {None, "opened"}:
        members = _subjects(finding) if finding.kind in BY_MEMBER else [""]
        members += [UNLISTED] * int(finding.details.get(massed.UNLISTED, 0)) * (finding.kind in BY_MEMBER)
        made += [_claim(finding, finding.kind.value, member, finding.confidence) for member in members]
        # A convergence covers every epoch since the one before.
        made += [replace(made[0], generation=epoch) for epoch in _earlier_epochs(finding)]
        made = [replace(one, count=_failed(finding)) for one in made]
    if finding.kind in WITH_CAUSES and finding.phase in {None, "opened"}:
        made += [
            _claim(finding, f"cause:{cause.cause.value}", member, cause.confidence)
            for cause in finding.causes
            if cause.cause in JUDGED_CAUSES
            for member in _members(cause, finding)
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


def _failed(finding: Finding) -> int:
    """Give how many generations it says that failed; 1 of whatever says nothing of that."""
    return int(finding.details.get("failed", 1)) if finding.kind == Kind.REBALANCE_FAILED else 1


def _members(cause: CauseEntry, finding: Finding) -> list[str]:
    """Give the members that a cause is about: none, one, or all of a role that no cause names."""
    role = massed.ROLE_OF.get(cause.cause)
    if cause.member_id or role is None or int(finding.details.get(role, 0)) < massed.MANY:
        return ["" if cause.cause in OF_GROUPS else cause.member_id or ""]
    named = {entry.member_id for entry in finding.causes}
    listed = [member.member_id for member in finding.members if member.role == role]
    rest = int(finding.details[role]) - len(listed)
    return [member for member in listed if member not in named] + [UNLISTED] * rest


def _subjects(finding: Finding) -> list[str]:
    if previous := finding.details.get("previous_member_id"):
        return [str(previous)]
    blamed = [cause.member_id for cause in finding.causes if cause.member_id]
    gone = [member.member_id for member in finding.members if member.role in {"left", "replaced"}]
    return list(dict.fromkeys(blamed or gone)) or [""]


def _claim(finding: Finding, label: str, member: str, confidence: float) -> Claim:
    generation = -1 if finding.generation is None else finding.generation
    if finding.group_type not in {None, "classic"} and label != Kind.REBALANCE:
        # A run of epochs ends where its convergence does; see lab/truth/facts.py.
        generation = -1
    return Claim(label, finding.group or "", generation, member, confidence, finding.detected_at, finding.at)
