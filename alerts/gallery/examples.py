"""One example finding per kind, as a bad day gives them: for the gallery of messages and golden files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import (
    CauseEntry,
    Coordinator,
    Finding,
    MemberEntry,
    finding_id,
)
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity

AT = 1_795_218_556_552
OPENED = AT - 200_000
_GROUP = "orders-enricher"

LOST = MemberEntry(
    member_id="orders-enricher-7-8c1e",
    instance_id=None,
    client_id="orders-enricher-7",
    host="/10.1.2.37",
    host_is_stale=False,
    role="left",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    last_seen=AT - 46_200,
    silence_ms=46_200,
    partitions=4,
)
NEW = replace(LOST, member_id="orders-enricher-9-41d0", client_id="orders-enricher-9", host="/10.1.2.39",
              role="joined", last_seen=None, silence_ms=None)  # fmt: skip
_SLOW = replace(LOST, role="kept", silence_ms=None, partitions=1)
STATIC = replace(LOST, member_id="orders-2-77aa", instance_id="orders-2", role="replaced", host_is_stale=True)


def _cause(cause: Cause, confidence: float, why: str, member: MemberEntry | None = LOST) -> CauseEntry:
    if member is None:
        return CauseEntry(cause, confidence, why)
    named = (member.member_id, member.client_id, member.host, member.instance_id)
    return CauseEntry(cause, confidence, why, *named)


_LAG = {
    "topic": "orders",
    "partition": 3,
    "partitions": 1,
    "waiting": 84_120,
    "age_ms": 312_000,
    "since": AT - 300_000,
    "committed_offset": 640_000,
    "window_ms": 60_000,
}
_TIMEOUT = _cause(
    Cause.SESSION_TIMEOUT,
    0.93,
    "no commit for 46.2 s before the join phase ended; session timeout 45.0 s; commits every 5.0 s",
)
_POLL = _cause(
    Cause.POLL_INTERVAL_EXCEEDED,
    0.88,
    "silent 301.4 s; max.poll.interval 300.0 s; committed every 5.0 s until then",
)
_JOINED = _cause(Cause.MEMBER_JOINED, 0.97, "was not in the generation before", NEW)
_LOST_TIMES = {"silence_ms": 46_200, "session_timeout_ms": 45_000, "cadence_ms": 5_000}
_STORM = {
    "rule": "generations",
    "total": 14,
    "count": 14,
    "completed": 11,
    "failed": 3,
    "window_ms": 300_000,
    "threshold": 5,
    "worst_client": "orders-enricher-7",
    "worst_host": "/10.1.2.37",
    "worst_share": 0.79,
}

_MADE: dict[Kind, dict[str, Any]] = {
    Kind.REBALANCE: {
        "causes": (_JOINED, _TIMEOUT),
        "members": (NEW, LOST),
        "details": {"joined": 1, "left": 1, "replaced": 0, "family": "java"},
    },
    Kind.REBALANCE_FAILED: {
        "severity": Severity.WARNING,
        "causes": (
            _cause(Cause.SYNC_DEADLINE_MISSED, 0.71, "two generation numbers without a record", None),
        ),
        "details": {"failed": 2, "at_start": 0},
    },
    Kind.REBALANCE_IN_PROGRESS: {"details": {"sightings": 4, "duration_ms": 8_000}},
    Kind.REBALANCE_STUCK: {
        "causes": (
            _cause(
                Cause.MEMBER_NOT_REJOINED,
                0.86,
                "the join phase has waited for it for 122.0 s; its last commit was 130.4 s ago",
            ),
        ),
        "details": {
            "sightings": 61,
            "duration_ms": 122_000,
            "threshold_ms": 60_000,
            "waits_for": LOST.client_id,
            "ends_at": AT + 178_000,
        },
    },
    Kind.REBALANCE_COST: {
        "stopped_ms_max": 46_200,
        "partitions_affected": 96,
        "details": {
            "rebalance": "5f0c2ad1b7e84c19",
            "rebalances": 1,
            "arrived": 1_202_100,
            "waiting_at_stop": 1_900,
            "waiting_peak": 1_204_000,
            "caught_up_at": AT,
            "caught_up_ms": 200_000,
            "partition_seconds": 4435.2,
        },
    },
    Kind.SESSION_TIMEOUT: {
        "evidence": "suspected",
        "causes": (_TIMEOUT,),
        "members": (LOST,),
        "details": _LOST_TIMES,
    },
    Kind.POLL_INTERVAL_EXCEEDED: {
        "evidence": "suspected",
        "confidence": 0.88,
        "causes": (_POLL,),
        "members": (replace(LOST, silence_ms=301_400),),
        "details": {"silence_ms": 301_400, "rebalance_timeout_ms": 300_000, "cadence_ms": 5_000},
    },
    Kind.MEMBER_SILENT: {
        "evidence": "suspected",
        "confidence": 0.72,
        "causes": (_cause(Cause.SESSION_TIMEOUT, 0.72, "no commit for 46.5 s; it committed every 5.0 s"),),
        "details": {"deadline": "session", "silence_ms": 46_500, "session_timeout_ms": 45_000},
    },
    Kind.STORM: {"causes": (_TIMEOUT, _JOINED), "members": (LOST, NEW), "details": _STORM},
    Kind.ROLLING_RESTART: {"details": {"restarted": 6, "window_ms": 94_000}, "members_affected": 6},
    Kind.STATIC_MEMBER_REPLACED: {
        "members": (STATIC,),
        "details": {
            "instance_id": "orders-2",
            "previous_member_id": "orders-2-12fe",
            "times": 1,
            "window_ms": 900_000,
        },
        "stopped_ms_min": None,
        "stopped_ms_max": None,
    },
    Kind.GROUP_MIGRATED: {
        "group_type": "consumer",
        "causes": (_cause(Cause.GROUP_MIGRATED, 1.0, "its records changed from type 2 to type 3", None),),
        "details": {"from": "classic", "to": "consumer"},
    },
    Kind.GROUP_REMOVED: {
        "causes": (_cause(Cause.GROUP_EXPIRED, 0.9, "empty for 7 days, the retention of offsets", None),),
        "details": {"empty_ms": 604_800_000},
    },
    Kind.COORDINATOR_MOVED: {
        "coordinator": Coordinator(3, 42),
        "details": {"previous_broker": 1, "previous_epoch": 41, "moved": 12, "partitions": "0-10,17"},
    },
    Kind.BROKER_AWAY: {
        "groups": ("orders-enricher", "payments"),
        "groups_total": 2,
        "causes": (
            _cause(
                Cause.BROKER_AWAY,
                0.85,
                "broker 3 did not respond for 24.0 s; then members of 2 groups expired",
                None,
            ),
        ),
        "details": {"broker": 3, "silent_ms": 24_000, "not_back": 1, "missing": "payments"},
    },
    Kind.GROUP_EMPTY: {
        "severity": Severity.CRITICAL,
        "causes": (_TIMEOUT,),
        "members": (LOST,),
        "members_total": 0,
        "details": {"ended_by": "session", "unusual_after_ms": 900_000},
    },
    Kind.OFFSETS_EXPIRING: {
        "details": {"expires_at": AT + 82_800_000, "retention_ms": 604_800_000},
        "members_total": 0,
    },
    Kind.SLOW_SYNC: {
        "sync_ms": 31_200,
        "join_ms_min": 900,
        "join_ms_max": 3_100,
        "details": {"threshold_ms": 10_000},
    },
    Kind.ASSIGNMENT_SKEWED: {"details": {"most": 24, "least": 0, "idle": 3}, "members_affected": 3},
    Kind.PARTITIONS_UNASSIGNED: {
        "details": {
            "unread": 3,
            "twice": 0,
            "applications": 2,
            "unowned_topics": "payments",
            "grown_topics": "refunds",
            "arrived": 12_400,
        },
        "members_affected": 1,
    },
    Kind.GROUP_TOO_LARGE: {"details": {"bytes": 948_112, "limit": 1_048_588}},
    Kind.CONSUMPTION_STALLED: {
        "members": (_SLOW,),
        "details": _LAG,
        "partitions_affected": 1,
        "topics_total": 1,
    },
    Kind.CONSUMPTION_STOPPED: {
        "members": (_SLOW,),
        "details": _LAG,
        "partitions_affected": 1,
        "topics_total": 1,
    },
    Kind.FALLING_BEHIND: {"details": _LAG | {"risen": 61_200}, "partitions_affected": 1, "topics_total": 1},
    Kind.OFFSETS_REWOUND: {
        "details": {
            "topic": "orders",
            "partition": 3,
            "partitions": 12,
            "from_offset": 881_200,
            "to_offset": 640_000,
            "records": 2_894_400,
        },
        "partitions_affected": 12,
    },
    Kind.RECORDS_LOST: {
        "details": {
            "topic": "orders",
            "partition": 3,
            "partitions": 2,
            "records": 41_300,
            "committed_offset": 640_000,
            "earliest_offset": 671_000,
        },
        "partitions_affected": 2,
    },
    Kind.RECORDS_EXPIRING: {
        "details": {
            "topic": "orders",
            "partition": 3,
            "partitions": 2,
            "left_ms": 5_400_000,
            "committed_offset": 640_000,
            "earliest_offset": 631_000,
        },
        "partitions_affected": 2,
    },
    Kind.UNREADABLE_RECORDS: {
        "details": {"reason": "unknown_version", "count": 212, "window_ms": 60_000, "sample": "17/88213"}
    },
    Kind.MONITOR_DEGRADED: {
        "causes": (_cause(Cause.BEHIND, 1.0, "the newest record read is 94 s old and falling back", None),),
        "details": {"cause": "behind", "lag_ms": 94_000, "records": 1_204_331},
    },
}

_OF_A_REBALANCE = {
    Kind.REBALANCE,
    Kind.REBALANCE_FAILED,
    Kind.SESSION_TIMEOUT,
    Kind.POLL_INTERVAL_EXCEEDED,
    Kind.STORM,
    Kind.GROUP_EMPTY,
}

_PRICED = {
    Kind.REBALANCE,
    Kind.REBALANCE_STUCK,
    Kind.STORM,
    Kind.ROLLING_RESTART,
    Kind.GROUP_EMPTY,
    Kind.BROKER_AWAY,
}
_COST = {"waiting_at_stop": 1_900, "waiting_peak": 1_204_000, "caught_up_at": AT + 200_000}


def example(kind: Kind, phase: str | None = None) -> Finding:
    """Return the example of a kind; `phase` is opened (the default of a kind with phases) or resolved."""
    spec = KINDS[kind]
    phase = phase or ("opened" if spec.phases else None)
    made = Finding(
        id=finding_id("prod", kind, _GROUP, "example", phase=phase or ""),
        kind=kind,
        scope=spec.scope,
        severity=spec.severity,
        evidence="read" if spec.scope is not Scope.GROUP else "derived",
        confidence=1.0 if spec.scope is not Scope.GROUP else 0.93,
        cluster="prod",
        at=OPENED if phase == "opened" else AT,
        detected_at=AT + 900,
        phase=phase,
        opened_at=OPENED if spec.phases else None,
        resolution="completed" if phase == "resolved" else None,
        details={},
    )
    if spec.scope is Scope.GROUP:
        made = replace(made, group=_GROUP, generation=412, previous_generation=411, members_total=24)
    if kind in _OF_A_REBALANCE:
        made = replace(made, stopped_ms_min=46_200, stopped_ms_max=49_300)
        made = replace(made, members_affected=1, partitions_affected=4)
    made = replace(made, **_MADE[kind])
    if kind in _PRICED:
        made = replace(made, details={**made.details, **_COST})
    return replace(made, **_ENDED.get(kind, {})) if phase == "resolved" else made


def roll_up(phase: str = "opened") -> Finding:
    """Return the example of what concerns many groups at once."""
    names = tuple(f"team-{number:02d}" for number in range(50))
    why = "64 groups lost a member within 30 s, all on one host"
    return replace(
        example(Kind.SESSION_TIMEOUT),
        scope=Scope.CLUSTER,
        phase=phase,
        at=OPENED if phase == "opened" else AT,
        opened_at=OPENED,
        resolution="quiet" if phase == "resolved" else None,
        confidence=0.8,
        group=None,
        generation=None,
        previous_generation=None,
        members_total=None,
        members_affected=None,
        partitions_affected=None,
        stopped_ms_min=None,
        stopped_ms_max=None,
        groups=names,
        groups_total=64,
        causes=(CauseEntry(Cause.SESSION_TIMEOUT, 0.8, why, host="/10.1.2.37"),),
        members=(),
        details={**_COST},
    )


# What the finding that ends an incident says otherwise; the rest is what the alert keeps of the last one.
_ENDED: dict[Kind, dict[str, Any]] = {
    Kind.STORM: {"resolution": "quiet", "details": {**_STORM, "total": 37}},
    Kind.MEMBER_SILENT: {"resolution": "confirmed", "evidence": "read", "confidence": 1.0},
    Kind.OFFSETS_EXPIRING: {"resolution": "withdrawn"},
    Kind.GROUP_TOO_LARGE: {"resolution": "withdrawn"},
    **{
        kind: {"resolution": "quiet"}
        for kind in (
            Kind.CONSUMPTION_STALLED,
            Kind.CONSUMPTION_STOPPED,
            Kind.FALLING_BEHIND,
            Kind.RECORDS_EXPIRING,
            Kind.UNREADABLE_RECORDS,
            Kind.MONITOR_DEGRADED,
        )
    },
    Kind.REBALANCE_STUCK: {
        "causes": (
            _cause(
                Cause.MEMBER_NOT_REJOINED,
                0.95,
                "the join phase waited for it for 200.0 s; its last commit was 208.4 s ago",
            ),
        ),
        "details": {
            "sightings": 100,
            "duration_ms": AT - OPENED,
            "threshold_ms": 60_000,
            "waits_for": LOST.client_id,
            "removed": 1,
            **_COST,
        },
    },
    Kind.GROUP_EMPTY: {
        "severity": Severity.INFO,
        "members_total": 24,
        "details": {"ended_by": "session", "empty_ms": AT - OPENED},
    },
}
