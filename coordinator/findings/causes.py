"""Causes a finding may name: one table, from which the documentation is generated.

Causes are always given as a set with confidences (see docs/detection.md); `unknown` is a legal cause and the
only right one where the topic holds no evidence.
"""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Why a group rebalanced, emptied or vanished; the last ones say why the monitor itself is degraded."""

    FIRST_START = "first_start"
    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_TIMEOUT = "session_timeout"
    POLL_INTERVAL_EXCEEDED = "poll_interval_exceeded"
    JOIN_DEADLINE_MISSED = "join_deadline_missed"
    SYNC_DEADLINE_MISSED = "sync_deadline_missed"
    MEMBER_NOT_REJOINED = "member_not_rejoined"
    MEMBER_RESTARTED = "member_restarted"
    MEMBER_BLOCKED = "member_blocked"
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    STATIC_MEMBER_EXPIRED = "static_member_expired"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_CHANGED = "partitions_changed"
    TOPIC_DELETED = "topic_deleted"
    PROTOCOL_CHANGED = "protocol_changed"
    LEADER_REJOINED = "leader_rejoined"
    COOPERATIVE_FOLLOW_UP = "cooperative_follow_up"
    STREAMS_PROBING = "streams_probing"
    CONNECT_RECONFIGURED = "connect_reconfigured"
    CONNECT_DELAYED = "connect_delayed"
    CONNECT_CONFIGS_DIFFER = "connect_configs_differ"
    COORDINATOR_MOVED = "coordinator_moved"
    BROKER_AWAY = "broker_away"
    GROUP_MIGRATED = "group_migrated"
    MEMBER_REMOVED_BY_ADMIN = "member_removed_by_admin"
    GROUP_DELETED_BY_ADMIN = "group_deleted_by_admin"
    GROUP_EXPIRED = "group_expired"
    GROUP_OVER_CAPACITY = "group_over_capacity"
    ASSIGNMENT_NOT_STORED = "assignment_not_stored"
    OFFSETS_RESET = "offsets_reset"
    GROUP_ID_SHARED = "group_id_shared"
    TRANSACTION_OPEN = "transaction_open"
    UNKNOWN = "unknown"
    BLIND = "blind"
    BEHIND = "behind"
    DATA_LOST = "data_lost"
    NOT_JUDGED = "not_judged"
    PROBE_PARTIAL = "probe_partial"
    ENDS_PARTIAL = "ends_partial"
    SINK_FAILING = "sink_failing"
    STATE_REBUILT = "state_rebuilt"
    CLOCK_SKEW = "clock_skew"
    CONTRACT_BROKEN = "contract_broken"


LOSSES = (
    Cause.MEMBER_LEFT,
    Cause.MEMBER_REMOVED_BY_ADMIN,
    Cause.SESSION_TIMEOUT,
    Cause.POLL_INTERVAL_EXCEEDED,
    Cause.STATIC_MEMBER_EXPIRED,
    Cause.JOIN_DEADLINE_MISSED,
    Cause.SYNC_DEADLINE_MISSED,
)
"""How a member can be lost, in the order of the confusion matrix."""

OF_MONITOR = frozenset(
    {
        Cause.BLIND,
        Cause.BEHIND,
        Cause.DATA_LOST,
        Cause.NOT_JUDGED,
        Cause.PROBE_PARTIAL,
        Cause.ENDS_PARTIAL,
        Cause.SINK_FAILING,
        Cause.STATE_REBUILT,
        Cause.CLOCK_SKEW,
        Cause.CONTRACT_BROKEN,
    }
)
"""Causes of `monitor_degraded`: what is wrong with the monitor itself."""

CAUSE_WHAT: dict[Cause, str] = {
    Cause.FIRST_START: "the group's first generation, or the first after it was empty",
    Cause.MEMBER_JOINED: "a member joined that was not in the generation before",
    Cause.MEMBER_LEFT: "a member left cleanly: its last commit came just before the join phase",
    Cause.SESSION_TIMEOUT: "a member was silent for its session timeout: crash, kill, partition, long pause",
    Cause.POLL_INTERVAL_EXCEEDED: "a member was silent for max.poll.interval: the app stopped polling",
    Cause.JOIN_DEADLINE_MISSED: "a member did not rejoin before the rebalance timeout and was dropped",
    Cause.SYNC_DEADLINE_MISSED: "a member joined but did not sync within the rebalance timeout",
    Cause.MEMBER_NOT_REJOINED: "the join phase waits for a member",
    Cause.MEMBER_RESTARTED: "a restarted process took an expired member's place",
    Cause.MEMBER_BLOCKED: "an expired member is back: its process was blocked",
    Cause.STATIC_MEMBER_REPLACED: "a static member came back with a new member id under its instance id",
    Cause.STATIC_MEMBER_EXPIRED: "a static member stayed away for its session timeout",
    Cause.SUBSCRIPTION_CHANGED: "a kept member subscribes to other topics than before",
    Cause.PARTITIONS_CHANGED: "a subscribed topic has another number of partitions than before",
    Cause.TOPIC_DELETED: "a subscribed topic lost all its partitions",
    Cause.PROTOCOL_CHANGED: "the selected assignor changed",
    Cause.LEADER_REJOINED: "same members, topics and partitions: a member asked for a rebalance",
    Cause.COOPERATIVE_FOLLOW_UP: "second phase of a cooperative rebalance: revoked partitions are handed on",
    Cause.STREAMS_PROBING: "Kafka Streams' own scheduled probing or follow-up rebalance",
    Cause.CONNECT_RECONFIGURED: "Connect's config offset moved: a connector or its tasks were reconfigured",
    Cause.CONNECT_DELAYED: "Connect waits its scheduled delay after losing a worker, or ends that wait",
    Cause.CONNECT_CONFIGS_DIFFER: "a worker reads another config topic",
    Cause.COORDINATOR_MOVED: "the group's coordinator moved to another broker or was reloaded",
    Cause.BROKER_AWAY: "its broker did not respond, so sessions expired",
    Cause.GROUP_MIGRATED: "the group moved between the classic and the consumer protocol",
    Cause.MEMBER_REMOVED_BY_ADMIN: "an administrator removed the member",
    Cause.GROUP_DELETED_BY_ADMIN: "the group was deleted before its offsets could expire",
    Cause.GROUP_EXPIRED: "the empty group's offsets expired",
    Cause.GROUP_OVER_CAPACITY: "the group has more members than group.max.size",
    Cause.ASSIGNMENT_NOT_STORED: "the coordinator could not store an assignment",
    Cause.OFFSETS_RESET: "offsets of its topics were committed while the group had no members: a reset tool",
    Cause.GROUP_ID_SHARED: "two applications share the group id: no common topic, or foreign commits",
    Cause.TRANSACTION_OPEN: "a transaction on the topic is open: committed records end before it",
    Cause.UNKNOWN: "the topic holds no evidence for any cause",
    Cause.BLIND: "the broker has records that the monitor does not receive",
    Cause.BEHIND: "the monitor reads slower than the topic grows",
    Cause.DATA_LOST: "records were removed before the monitor read them",
    Cause.NOT_JUDGED: "records or deadlines could not be judged, or not be kept: an error of the monitor",
    Cause.PROBE_PARTIAL: "the probe does not see groups that the topic says are alive",
    Cause.ENDS_PARTIAL: "the brokers do not return the ends of consumed topics: lag is unknown there",
    Cause.SINK_FAILING: "notifications or tables cannot be written",
    Cause.STATE_REBUILT: "coordinator state was rebuilt from the compacted topic",
    Cause.CONTRACT_BROKEN: "an audit found rows that break the contracts on records or tables",
    Cause.CLOCK_SKEW: "a broker's clock differs from the monitor's by more than the grace",
}
"""What each cause means, in one line."""
