"""The finding: what the monitor says, with the same fields as JSON line, table row and alert input.

The field order is the contract of docs/findings.md. Pure data: no clock; ids never contain wall time, batch
numbers or confidences, so the same evidence gives the same id under any batching, replay and restart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

import msgspec

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.decoders.layouts.twins import quickly_made, replace

SCHEMA = 1
"""Version of the finding's fields."""

MAX_GROUPS = 50
MAX_TOPICS = 20
MAX_KEPT = 20
MAX_MOVED = 50
"""So many members that joined are listed, and as many that left and that were replaced."""
LATE_AFTER_MS = 60_000

MEASURED = "measured"
"""The detail of a rebalance that holds its evidence, for the driver alone: it holds no name."""

Details = dict[str, str | int | float]


@quickly_made
@dataclass(frozen=True, slots=True)
class CauseEntry:
    """One cause with its confidence in [0, 1] and the sentence with the numbers that led to it."""

    cause: Cause
    confidence: float
    why: str
    member_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    instance_id: str | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class MemberEntry:
    """One member as the deciding record (or the one before, for members that left) describes it.

    `role` is joined, left, kept or replaced. `partitions` counts assigned partitions. Times in ms.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    host_is_stale: bool
    role: str
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    last_seen: int | None = None
    silence_ms: int | None = None
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The broker that coordinates a group and the leader epoch of its partition."""

    broker: int
    leader_epoch: int


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. Times are ms since epoch; None where a field does not apply or is not known.

    `detected_at` is -1 until `stamp` sets the wall clock at the edge: the coordinator has none.
    """

    schema: int = SCHEMA
    id: str
    kind: Kind
    scope: Scope
    severity: Severity
    evidence: str
    confidence: float = 1.0
    history: bool = False
    late: bool = False
    cluster: str = ""
    group: str | None = None
    groups: tuple[str, ...] = ()
    groups_total: int = 0
    group_type: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    state: str | None = None
    shard: int | None = None
    offset: int | None = None
    generation: int | None = None
    previous_generation: int | None = None
    leader: str | None = None
    previous_leader: str | None = None
    coordinator: Coordinator | None = None
    topics: tuple[str, ...] = ()
    topics_total: int = 0
    at: int
    detected_at: int = -1
    started_at_min: int | None = None
    started_at_max: int | None = None
    join_ms_min: int | None = None
    join_ms_max: int | None = None
    sync_ms: int | None = None
    stopped_ms_min: int | None = None
    stopped_ms_max: int | None = None
    members_total: int | None = None
    members_affected: int | None = None
    partitions_affected: int | None = None
    causes: tuple[CauseEntry, ...] = ()
    members: tuple[MemberEntry, ...] = ()
    incident: str | None = None
    phase: str | None = None
    opened_at: int | None = None
    resolution: str | None = None
    details: Details


FIELDS: tuple[str, ...] = tuple(field.name for field in fields(Finding))
_LISTS = ("groups", "topics", "causes", "members")
_quoted = json.encoder.encode_basestring_ascii
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Finding).decode


def finding_id(
    cluster: str,
    kind: Kind,
    subject: str,
    anchor: str,
    *,
    member: str = "",
    phase: str = "",
    sequence: int = 0,
) -> str:
    """First 16 hex digits of a sha256 over what identifies a finding; `subject` is the group or scope."""
    # As `json.dumps` would write the list, at a third of its price.
    texts = ", ".join(map(_quoted, (cluster, kind.value, subject, member, anchor, phase)))
    return sha256(f"[{texts}, {sequence}]".encode()).hexdigest()[:16]


def record_anchor(shard: int, offset: int, record_ts: int) -> str:
    """Anchor of what a record decided; the time is in it because a recreated topic repeats offsets."""
    return f"record/{shard}/{offset}/{record_ts}"


def deadline_anchor(generation: int, member: str, deadline: int) -> str:
    """Anchor of what the clock decided."""
    return f"deadline/{generation}/{member}/{deadline}"


def probe_anchor(generation: int | None) -> str:
    """Anchor of what the probe decided: the generation at opening."""
    return f"probe/{generation}"


def join_end(finding: Finding) -> int:
    """Return when (ms) the join phase of a rebalance ended."""
    return finding.at - (finding.sync_ms or 0)


def part_of(finding: Finding) -> str:
    """Return which of its group's incidents of one kind this is: a member, a topic; "" for the only one."""
    if finding.kind is Kind.MEMBER_SILENT and finding.members:
        return finding.members[0].member_id
    return str(finding.details.get("topic", "")) if finding.kind is Kind.OFFSETS_EXPIRING else ""


def stamp(finding: Finding, detected_at: int, late_after_ms: int = LATE_AFTER_MS) -> Finding:
    """Copy of `finding` with the wall clock of its detection; `late` where that is long after the event."""
    late = not finding.history and detected_at - finding.at > late_after_ms
    return replace(finding, detected_at=detected_at, late=late)


def to_dict(finding: Finding) -> dict[str, Any]:
    """Plain dict with the finding's fields in their order; nested entries become dicts, tuples lists."""
    out: dict[str, Any] = msgspec.to_builtins(finding)
    for name in _LISTS:
        out[name] = list(out[name])
    return out


def to_json(finding: Finding) -> str:
    """One JSON line without a line break: `to_dict` as JSON, made from the fields themselves."""
    try:
        return _encode(finding).decode()
    except UnicodeEncodeError:
        # Half a surrogate pair, which no decoded record holds but text given by others may.
        return json.dumps(to_dict(finding), ensure_ascii=False, separators=(",", ":"))


def from_dict(data: dict[str, Any]) -> Finding:
    """Inverse of `to_dict`; raises TypeError, ValueError or KeyError on what is no finding of this schema."""
    values = dict(data)
    values["kind"] = Kind(values["kind"])
    values["scope"] = Scope(values["scope"])
    values["severity"] = Severity(values["severity"])
    values["groups"] = tuple(values["groups"])
    values["topics"] = tuple(values["topics"])
    values["causes"] = tuple(_cause(entry) for entry in values["causes"])
    values["members"] = tuple(MemberEntry(**entry) for entry in values["members"])
    moved = values["coordinator"]
    values["coordinator"] = None if moved is None else Coordinator(**moved)
    return Finding(**values)


def from_json(text: str) -> Finding:
    """Inverse of `to_json`; raises as `from_dict` does, ValueError too for what is no JSON."""
    try:
        return _decode(text)
    except ValueError:
        # No finding; or one with half a surrogate pair, or a number beyond 64 bits.
        return from_dict(json.loads(text))


def _cause(entry: dict[str, Any]) -> CauseEntry:
    return CauseEntry(**{**entry, "cause": Cause(entry["cause"])})
