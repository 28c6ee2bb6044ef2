"""Kinds of findings: ONE table with scope, default severity, what drives them and what their details hold.

Code, tests and docs/findings.md are driven from `KINDS`; a kind that is not in it cannot be emitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rebalance_monitor.coordinator.findings.kinds import DrivenBy, Kind, Scope, Severity


@dataclass(frozen=True, slots=True)
class KindSpec:
    """One row of the kinds table; `details` maps each key a finding of the kind may carry to its meaning."""

    severity: Severity
    driven_by: DrivenBy
    what: str
    details: dict[str, str]
    phases: bool
    scope: Scope = Scope.GROUP


_once, _phased = partial(KindSpec, phases=False), partial(KindSpec, phases=True)
_UNLISTED = {
    "unlisted": "members beyond the 50 listed",
    "unlisted_digest": "SHA-256 of their sorted ids, shortened",
}
_MEMBER_DETAILS = {
    "silence_ms": "from the member's last commit to the end of the join phase, ms",
    "session_timeout_ms": "the member's session timeout, ms",
    "rebalance_timeout_ms": "the member's rebalance timeout (max.poll.interval for most clients), ms",
    "cadence_ms": "the member's usual time between commits, ms",
    "rebalance": "id of the rebalance or group_empty finding whose causes contain this one",
    "members_before": "members before, where many were lost",
    **_UNLISTED,
}

_WAITED = {
    "waiting_at_stop": "records waiting before the stop",
    "waiting_peak": "most records waiting since",
    "caught_up_at": "when it had caught up, ms",
}
_IMPACT = {"impact": "what waits: nothing, usual, waiting, unknown"}
_COST = {
    **_WAITED,
    "partition_seconds": "the partitions' stop times, summed, s",
    **_IMPACT,
}
_LAG_DETAILS = {
    "topic": "topic of the worst partition",
    "partition": "its number",
    "partitions": "partitions like it",
    "waiting": "records waiting there",
    "age_ms": "age of the oldest of them, ms",
    "since": "since when more waits, ms",
    "committed_offset": "its committed offset",
    "window_ms": "the window, ms",
    "empty_at": "when the last member left, ms",
}
_WORST = ("worst_client", "worst_host", "worst_member", "worst_instance")
NAMES_IN_DETAILS = frozenset({*_WORST, "held_by", "instance_id", "previous_member_id"})
"""Keys of `details` whose values are names of clients, as `waits_for` is a list of them."""

KINDS: dict[Kind, KindSpec] = {
    Kind.REBALANCE: _once(
        Severity.INFO,
        DrivenBy.RECORD,
        "a generation, or a convergence of an epoch-based group, completed",
        {
            "joined": "members that were not in the generation before",
            "left": "members that are gone",
            "replaced": "members that came back under another member id",
            "family": "client family most members look like",
            "bumps": "epoch-based groups: epoch bumps in this convergence",
            "partial": "1 where the record's assignment could not be read in full",
            "disruptive": "1 where storms count it, a member's fault caused it, or others failed before it",
            "renewed": "1 where new members replaced all members, which had left cleanly",
            "held_by": "member id of the departed member that the join phase waited for",
        }
        | _UNLISTED
        | _COST,
    ),
    Kind.REBALANCE_COST: _once(
        Severity.INFO,
        DrivenBy.PROBE,
        "records waited for a rebalance; the group has caught up",
        {
            "rebalance": "id of the rebalance, of the first if others followed before the group caught up",
            "rebalances": "how many rebalances these are",
            "arrived": "records that came while all partitions stood still, by the ends at both moments",
            "caught_up_ms": "from the end of the last rebalance until it had caught up, ms",
            **_WAITED,
            "partition_seconds": "the partitions' stop times, summed, s",
        },
    ),
    Kind.REBALANCE_FAILED: _once(
        Severity.INFO,
        DrivenBy.RECORD,
        "generations that never produced an assignment; warning when repeated, info at a group's start",
        {
            "failed": "generation numbers that were used up without an assignment",
            "at_start": "1 where the gap is the normal one of members starting together",
        },
    ),
    Kind.REBALANCE_IN_PROGRESS: _phased(
        Severity.INFO,
        DrivenBy.PROBE,
        "the probe sees the group rebalancing; resolved with the measured duration",
        {
            "sightings": "probe samples in which it was rebalancing",
            "duration_ms": "first to last probe sample, ms",
        },
    ),
    Kind.REBALANCE_STUCK: _phased(
        Severity.CRITICAL,
        DrivenBy.PROBE,
        "one unbroken rebalance past the threshold",
        {
            "sightings": "probe samples in which it was rebalancing",
            "duration_ms": "first to last probe sample, ms",
            "threshold_ms": "duration from which a rebalance is stuck, ms",
            "waits_for": "client ids of members that have not rejoined, suspected",
            "waits_for_one_of": "as `waits_for`: one of them at least",
            "waits_for_confidence": "how sure that is",
            "ends_at": "when members that have not rejoined are removed",
            "removed": "members removed at the rebalance timeout",
        }
        | _COST,
    ),
    Kind.SESSION_TIMEOUT: _once(
        Severity.WARNING,
        DrivenBy.RECORD,
        "the coordinator expired a member; 20 and more at once are one finding",
        _MEMBER_DETAILS | _WAITED,
    ),
    Kind.POLL_INTERVAL_EXCEEDED: _once(
        Severity.WARNING,
        DrivenBy.RECORD,
        "a member stopped polling for max.poll.interval; 20 and more at once are one finding",
        _MEMBER_DETAILS | _WAITED,
    ),
    Kind.MEMBER_SILENT: _phased(
        Severity.INFO,
        DrivenBy.CLOCK,
        "a member that should have committed passed a deadline and the broker has not confirmed it yet",
        {
            "deadline": "session, poll (an update), or rebalance (of a member that must give up partitions)",
            "basis": "why its silence means something: idle (it commits when idle), traffic (its offsets and "
            "others' on its topics moved steadily, the others' still do), unrevoked (partitions to give up)",
            "assumed": "1 where the session timeout is assumed",
            "deadline_at": "when the deadline passed, ms since epoch",
            "silence_ms": "last commit to the deadline, ms",
            "session_timeout_ms": "the member's session timeout, ms",
            "rebalance_timeout_ms": "the member's rebalance timeout, ms",
        },
    ),
    Kind.STORM: _phased(
        Severity.CRITICAL,
        DrivenBy.RECORD,
        "too many rebalances, completed, failed or seen, in a sliding window",
        {
            "count": "completed plus failed generations in the window",
            "completed": "completed generations in the window",
            "failed": "failed generations in the window",
            "window_ms": "length of the window, ms",
            "threshold": "count from which a group storms",
            "worst_client": "client id in most of them, none below a tenth; `prefix*` where none has a third",
            "worst_host": "its host; none where it came from one after the other",
            "worst_member": "newest member id of that client",
            "worst_instance": "its instance id, if it is static",
            "worst_share": "its share of the generations in the window (or of the join phases), 0..1",
            "total": "generations since the storm opened",
            "rule": "generations or sightings",
        }
        | _COST,
    ),
    Kind.ROLLING_RESTART: _once(
        Severity.INFO,
        DrivenBy.RECORD,
        "every member left and returned about once",
        {
            "restarted": "members that were replaced",
            "window_ms": "first to last replacement, ms",
            "changed_ids": "instance ids that expired and did not come back: static membership has no effect",
        }
        | _COST,
    ),
    Kind.STATIC_MEMBER_REPLACED: _once(
        Severity.INFO,
        DrivenBy.RECORD,
        "a static member came back in the same generation: no rebalance; a warning if it repeats",
        {
            "instance_id": "the instance id",
            "previous_member_id": "its member id before",
            "times": "how often it came back in `window_ms`, at most 20; a warning from 3 on",
            "window_ms": "the time in which they are counted, ms",
        },
    ),
    Kind.GROUP_MIGRATED: _once(
        Severity.INFO,
        DrivenBy.RECORD,
        "the group moved between the classic and an epoch-based protocol: neither a deletion nor a rebalance",
        {"from": "group type before", "to": "group type now"},
    ),
    Kind.GROUP_REMOVED: _once(
        Severity.INFO,
        DrivenBy.RECORD,
        "the coordinator deleted the group",
        {"empty_ms": "how long it had been empty, ms"},
    ),
    Kind.COORDINATOR_MOVED: _once(
        Severity.INFO,
        DrivenBy.PROBE,
        "a partition of the offsets topic has a new leader or leader epoch",
        {
            "previous_broker": "leader before",
            "previous_epoch": "leader epoch before",
            "moved": "several partitions",
            "partitions": "`0-24,30`",
        }
        | _WAITED,
        scope=Scope.SHARD,
    ),
    Kind.BROKER_AWAY: _phased(
        Severity.WARNING,
        DrivenBy.PROBE,
        "a broker did not respond, then expired members of its groups at once",
        {
            "broker": "broker id",
            "silent_ms": "for how long, ms",
            "not_back": "groups that have not recovered",
            "missing": "one of them",
        }
        | _WAITED,
        scope=Scope.CLUSTER,
    ),
    Kind.GROUP_EMPTY: _phased(
        Severity.INFO,
        DrivenBy.RECORD,
        "the last member left; as severe as the cause, critical for always_on",
        {
            "ended_by": "leave, session or unknown",
            "empty_ms": "on resolving: how long it was empty, ms",
            "unusual_after_ms": "empty for longer is unusual for the group, ms",
        }
        | _UNLISTED
        | _COST,
    ),
    Kind.OFFSETS_EXPIRING: _phased(
        Severity.WARNING,
        DrivenBy.CLOCK,
        "the group is empty, or no longer subscribes to a topic, and those offsets expire within 24 h",
        {
            "expires_at": "when the offsets expire, ms since epoch",
            "retention_ms": "offsets.retention, ms",
            "topic": "which topic, where it is not the whole group",
        },
    ),
    Kind.SLOW_SYNC: _once(
        Severity.WARNING,
        DrivenBy.RECORD,
        "the leader or assignor held up the generation after all members had joined",
        {"threshold_ms": "sync time from which it is slow, ms"},
    ),
    Kind.ASSIGNMENT_SKEWED: _phased(
        Severity.WARNING,
        DrivenBy.RECORD,
        "partitions are spread worse than another assignor would, or members idle",
        {
            "most": "partitions of the busiest member",
            "least": "partitions of the idlest member",
            "idle": "members without partitions",
            "rule": "spread: an assignor would do better; idle: more members than partitions (information)",
            "best": "spread: the assignor that would spread best",
            "best_most": "partitions that its busiest member would have",
            "best_least": "partitions that its idlest member would have",
        },
    ),
    Kind.PARTITIONS_UNASSIGNED: _phased(
        Severity.WARNING,
        DrivenBy.RECORD,
        "partitions are assigned to members that do not subscribe to their topic, to two members or to none",
        {
            "unread": "partitions of members that do not subscribe to their topic: nobody reads them",
            "twice": "partitions that more than one member owns: read twice",
            "skipped": "partitions that nobody owns, between others of their topic that are owned",
            "applications": "sets of members without a common topic; from 2 on, several share the id",
            "unowned_topics": "subscribed topics that nobody owns; not checked without `unowned`",
            "grown_topics": "topics with new partitions that nobody owns",
            "unowned": "their partitions without an owner, confirmed by the brokers",
            "arrived": "records that arrived there since",
        },
    ),
    Kind.GROUP_TOO_LARGE: _phased(
        Severity.WARNING,
        DrivenBy.RECORD,
        "the group's record nears the offsets topic's max.message.bytes: then no assignment can be stored",
        {"bytes": "size of the record's value, bytes", "limit": "max.message.bytes, bytes"},
    ),
    Kind.CONSUMPTION_STALLED: _phased(
        Severity.WARNING,
        DrivenBy.PROBE,
        "a member commits, but offsets of its partitions do not move while ever more records wait",
        _LAG_DETAILS,
    ),
    Kind.CONSUMPTION_STOPPED: _phased(
        Severity.WARNING,
        DrivenBy.PROBE,
        "a member of a stable group commits nothing at all while ever more records wait for it",
        _LAG_DETAILS
        | _IMPACT
        | {"moving": "partitions of the group whose offsets moved since: with none it may be critical"},
    ),
    Kind.FALLING_BEHIND: _phased(
        Severity.INFO,
        DrivenBy.PROBE,
        "lag has not once gone down in the whole window, though offsets move",
        _LAG_DETAILS | {"risen": "by how many records the lag of the worst partition rose in the window"},
    ),
    Kind.OFFSETS_REWOUND: _once(
        Severity.INFO,
        DrivenBy.PROBE,
        "committed offsets went back: records are read again",
        {
            "topic": "topic of the partition that went back furthest",
            "partition": "that partition",
            "partitions": "how many partitions of the group went back",
            "from_offset": "committed offset before",
            "to_offset": "committed offset after",
            "records": "records of all these partitions that are read again",
        },
    ),
    Kind.RECORDS_LOST: _once(
        Severity.CRITICAL,
        DrivenBy.PROBE,
        "a topic was cut: records are gone that the group had not read",
        {
            "topic": "topic of the partition that lost most",
            "partition": "that partition",
            "partitions": "how many partitions of the group lost records",
            "records": "records lost in all of them",
            "committed_offset": "committed offset of that partition",
            "earliest_offset": "its earliest offset now",
            "cut_to": "its end after an unclean election",
        },
    ),
    Kind.RECORDS_EXPIRING: _phased(
        Severity.WARNING,
        DrivenBy.PROBE,
        "at the present rate the topic's retention will pass committed offsets within 4 h",
        {
            "topic": "topic of the partition that is next",
            "partition": "that partition",
            "partitions": "how many partitions of the group are near",
            "left_ms": "time until then at the rate of the last samples, ms",
            "committed_offset": "committed offset of that partition",
            "earliest_offset": "its earliest offset now",
        },
    ),
    Kind.UNREADABLE_RECORDS: _phased(
        Severity.WARNING,
        DrivenBy.RECORD,
        "records that could not be read, per reason, opened and resolved by rate",
        {
            "reason": "why they could not be read",
            "count": "unreadable records in the window",
            "window_ms": "length of the window, ms",
            "sample": "shard/offset of one of them",
        },
        scope=Scope.CLUSTER,
    ),
    Kind.MONITOR_DEGRADED: _phased(
        Severity.WARNING,
        DrivenBy.CLOCK,
        "the monitor itself cannot do its work; critical when blind",
        {
            "cause": "which degradation this is",
            "sink": "which receiver of alerts fails",
            "records": "records missed or lost; where it is behind: of a batch; in the end: of the largest",
            "lag_ms": "how far behind, ms; an update says that it has doubled, the end has the maximum",
            "seen": "groups the probe sees",
            "expected": "groups the topic says are alive",
            "missing": "one of the groups that the probe does not see",
        },
        scope=Scope.MONITOR,
    ),
}
"""kind -> specification; the order is the order of the documentation."""
