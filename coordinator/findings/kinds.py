"""The words that describe findings: kinds, scopes, severities. `kind_table.py` specifies each kind."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """What a finding is about."""

    GROUP = "group"
    SHARD = "shard"
    CLUSTER = "cluster"
    MONITOR = "monitor"


class Severity(StrEnum):
    """How loud a finding is, before configuration overrides it."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


_LOUDNESS = tuple(Severity)


def louder(one: Severity, other: Severity) -> Severity:
    """Return the louder of two."""
    return max(one, other, key=_LOUDNESS.index)


class DrivenBy(StrEnum):
    """What decides a finding: `record` ones are equal under any batching, replay and restart."""

    RECORD = "record"
    CLOCK = "clock"
    PROBE = "probe"


class Kind(StrEnum):
    """Every kind of finding."""

    REBALANCE = "rebalance"
    REBALANCE_COST = "rebalance_cost"
    REBALANCE_FAILED = "rebalance_failed"
    REBALANCE_IN_PROGRESS = "rebalance_in_progress"
    REBALANCE_STUCK = "rebalance_stuck"
    SESSION_TIMEOUT = "session_timeout"
    POLL_INTERVAL_EXCEEDED = "poll_interval_exceeded"
    MEMBER_SILENT = "member_silent"
    STORM = "storm"
    ROLLING_RESTART = "rolling_restart"
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    GROUP_MIGRATED = "group_migrated"
    GROUP_REMOVED = "group_removed"
    COORDINATOR_MOVED = "coordinator_moved"
    BROKER_AWAY = "broker_away"
    GROUP_EMPTY = "group_empty"
    OFFSETS_EXPIRING = "offsets_expiring"
    SLOW_SYNC = "slow_sync"
    ASSIGNMENT_SKEWED = "assignment_skewed"
    PARTITIONS_UNASSIGNED = "partitions_unassigned"
    GROUP_TOO_LARGE = "group_too_large"
    CONSUMPTION_STALLED = "consumption_stalled"
    CONSUMPTION_STOPPED = "consumption_stopped"
    FALLING_BEHIND = "falling_behind"
    OFFSETS_REWOUND = "offsets_rewound"
    RECORDS_LOST = "records_lost"
    RECORDS_EXPIRING = "records_expiring"
    UNREADABLE_RECORDS = "unreadable_records"
    MONITOR_DEGRADED = "monitor_degraded"
