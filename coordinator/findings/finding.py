"""The finding: its fields, how it is made, its id, and the incident that it belongs to.

A finding has the same fields as JSON line, table row and alert input; the field order is the contract of
docs/findings.md. Ids never contain wall time, batch numbers or confidences, so the same evidence gives the
same id under any batching, replay and restart.

One finding opens an incident, others update it, one resolves it. The incident has the id of the finding that
opens it, so every part that knows its evidence can name it. What resolves an incident is anchored to what
shows its end: a record, or the incident itself if only the clock or a probe sample shows it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.decoders.layouts.twins import quickly_made, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rebalance_monitor.coordinator.state.group_state import Member

    Overrides = Callable[[Kind, str, Severity], Severity]
    """Kind, group and severity -> the severity that is configured for them (`severity_of`)."""

SCHEMA = 1
"""Version of the finding's fields."""

MAX_GROUPS = 50
MAX_TOPICS = 20
MAX_KEPT = 20
MAX_MOVED = 50
"""So many members that joined are listed, and as many that left and that were replaced."""
LATE_AFTER_MS = 60_000

MAX_CAUSES = 20
MAJORITY = 0.5
CLAIMED = 0.8
"""Confidence from which on a cause is claimed. Whatever counts faults counts claimed causes only."""

OPENED, UPDATED, RESOLVED = "opened", "updated", "resolved"
"""Phases of an incident."""

MEASURED = "measured"
"""The detail of a rebalance that holds its evidence, for the driver alone: it holds no name."""

HELD_BY = "held_by"
"""The detail of a rebalance that names the member id that its join phase waited for."""

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

    @staticmethod
    def of(member: Member | MemberEntry, cause: Cause, confidence: float, why: str) -> CauseEntry:
        """Make the entry that names `member`."""
        names = member.member_id, member.client_id, member.host, member.instance_id
        return CauseEntry(cause, confidence, why, *names)


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


class Incident(msgspec.Struct, array_like=True):
    """What is kept of an open incident: its id, and since when (ms) it is open."""

    incident: str
    opened_at: int


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


def make(
    kind: Kind,
    *,
    cluster: str,
    anchor: str,
    group: str | None = None,
    scope: Scope | None = None,
    overrides: Overrides | None = None,
    severity: Severity | None = None,
    member: str = "",
    phase: str | None = None,
    sequence: int = 0,
    incident: str | None = None,
    **fields: Any,  # noqa: ANN401 - the remaining fields of Finding, checked by its constructor
) -> Finding:
    """Make a finding of a `group`, or of the `scope` (by default the kind's) where there is none.

    `anchor`: what decided it, a record, a deadline or a sample. `member` and `sequence` tell findings of one
    anchor apart. `overrides` may change the severity, by default that of the kind.
    `incident`: the open one; without it a finding with a phase belongs to the one that its anchor opens.
    """
    spec = KINDS[kind]
    scope = scope or spec.scope
    subject = scope.value if group is None else group
    loud = severity or spec.severity
    if phase is not None and not incident:
        incident = incident_id(cluster, kind, subject, anchor, member)
    return Finding(
        id=finding_id(cluster, kind, subject, anchor, member=member, phase=phase or "", sequence=sequence),
        kind=kind,
        scope=scope,
        severity=loud if overrides is None or group is None else overrides(kind, group, loud),
        cluster=cluster,
        group=group,
        incident=incident,
        phase=phase,
        **fields,
    )


def ranked(found: Iterable[CauseEntry]) -> tuple[CauseEntry, ...]:
    """Return the likeliest causes first, at most `MAX_CAUSES`.

    Where none reaches a majority, `unknown` gets the confidence that no cause has. Causes of one member
    exclude each other; causes of several members do not.
    """
    entries = sorted(found, key=lambda entry: -entry.confidence)[:MAX_CAUSES]
    best = entries[0].confidence if entries else 0.0
    if best < MAJORITY and all(entry.cause is not Cause.UNKNOWN for entry in entries):
        explained: dict[str | None, float] = {}
        for entry in entries:
            explained[entry.member_id] = explained.get(entry.member_id, 0.0) + entry.confidence
        rest = round(1 - max(explained.values(), default=0.0), 2)
        if rest > 0:
            entries.append(CauseEntry(Cause.UNKNOWN, rest, "the records do not point to a single cause"))
    return tuple(entries)


def incident_id(cluster: str, kind: Kind, subject: str, anchor: str, member: str = "") -> str:
    """Return the id of the incident that a finding with these values opens."""
    return finding_id(cluster, kind, subject, anchor, member=member, phase=OPENED)


def record_anchor(shard: int, offset: int, record_ts: int) -> str:
    """Anchor of what a record decided; the time is in it because a recreated topic repeats offsets."""
    return f"record/{shard}/{offset}/{record_ts}"


def deadline_anchor(generation: int, member: str, deadline: int) -> str:
    """Anchor of what the clock decided."""
    return f"deadline/{generation}/{member}/{deadline}"


def probe_anchor(generation: int | None) -> str:
    """Anchor of what the probe decided: the generation at opening."""
    return f"probe/{generation}"


def end_of(incident: str) -> str:
    """Anchor of a finding that resolves an incident of which no record shows the end."""
    return f"{incident}/{RESOLVED}"


def join_end(finding: Finding) -> int:
    """Return when (ms) the join phase of a rebalance ended."""
    return finding.at - (finding.sync_ms or 0)


def part_of(finding: Finding) -> str:
    """Return which of its group's incidents of one kind this is: a member, a topic; "" for the only one."""
    if finding.kind is Kind.MEMBER_SILENT and finding.members:
        return finding.members[0].member_id
    return str(finding.details.get("topic", "")) if finding.kind is Kind.OFFSETS_EXPIRING else ""


def stamp(
    finding: Finding, detected_at: int, late_after_ms: int = LATE_AFTER_MS, *, cluster: str = ""
) -> Finding:
    """Copy of `finding` with the wall clock of its detection; `late` where that is long after the event.

    `cluster`: its name in place of its id, "" for none.
    """
    late = not finding.history and detected_at - finding.at > late_after_ms
    return replace(finding, detected_at=detected_at, late=late, cluster=cluster or finding.cluster)


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
