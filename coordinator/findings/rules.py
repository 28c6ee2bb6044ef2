"""Every rule of the detection in one table: what it says, on what evidence, and where it ends.

docs/detection.md is generated from it; a test holds that every kind of finding is in it.
"""

from __future__ import annotations

from typing import NamedTuple

from rebalance_monitor.coordinator.findings.kinds import Kind


class Rule(NamedTuple):
    """One rule: its kind, the evidence tier of its findings, what decides, and what it cannot know."""

    kind: Kind
    evidence: str
    decides: str
    limits: str


RULES: tuple[Rule, ...] = (
    Rule(
        Kind.REBALANCE,
        "read",
        "a record of a new generation; epoch-based: every member has acknowledged the newest target epoch",
        "its start is only bounded, unless the probe looked; several triggers in one barrier are one record",
    ),
    Rule(
        Kind.REBALANCE_FAILED,
        "derived",
        "a hole in the generation numbers between two live records, or before a new group's first one",
        "after a failover a number is used again: no hole is no proof; why it failed is not on the topic",
    ),
    Rule(
        Kind.REBALANCE_IN_PROGRESS,
        "read (probe), suspected (commits)",
        "the probe lists the group; without it, idle committers of an eager group stop together",
        "commits: not for cooperative groups, nor for a group alone in its shard; applications that all "
        "process a long batch at once look the same",
    ),
    Rule(
        Kind.REBALANCE_STUCK,
        "read (probe, epochs), suspected (commits)",
        "one unbroken barrier past `stuck_after_ms`; a join phase that ended and began again breaks it",
        "who has not rejoined is suspected by commits only: who fell silent before though it commits when "
        "idle, or commits on; epoch-based groups' records name them; by commits alone it is a warning",
    ),
    Rule(
        Kind.SESSION_TIMEOUT,
        "suspected",
        "the member's silence fits its session timeout better than anything else",
        "a crash, a kill, a partition and a long pause look the same; Kafka Streams' planned stop, too; and "
        "silence while another member held the barrier",
    ),
    Rule(
        Kind.POLL_INTERVAL_EXCEEDED,
        "suspected",
        "the member's silence fits max.poll.interval, and its client enforces it; or it returned from such "
        "a silence only to leave",
        "aiokafka commits while stalled: only by offsets that stood still while its siblings' moved, or, by "
        "hand, with a configured interval; where both timeouts are close, both get a share",
    ),
    Rule(
        Kind.MEMBER_SILENT,
        "suspected",
        "the clock passes a member's deadline while others of its group (of one alone, its shard) go on",
        "members seen to commit when idle; members with steady traffic on several partitions, less surely, "
        "while others go on with the same topics",
    ),
    Rule(
        Kind.STORM,
        "derived (records), read (probe)",
        "disruptive generations in a window; or looks that find it in barriers that no calm generation "
        "ended, in separate runs",
        "what counts is decided per generation, see below; the probe's rule needs a minute of looks",
    ),
    Rule(
        Kind.ROLLING_RESTART,
        "suspected",
        "every member was replaced once; its cause says whether they left or expired",
        "a deployment, an operator's restart by hand and members that crash in turn are the same, until the "
        "third time",
    ),
    Rule(
        Kind.STATIC_MEMBER_REPLACED,
        "read",
        "the same generation again, another member id under the same instance id; a warning from the third "
        "time within 15 minutes on",
        "client id and host in the record are the old process's, so a crash loop looks as two processes do "
        "that share one instance id",
    ),
    Rule(
        Kind.GROUP_MIGRATED,
        "read",
        "the tombstone and the other protocol's records are one write",
        "causes of the first convergence after it are those of the migration",
    ),
    Rule(
        Kind.GROUP_REMOVED,
        "read",
        "the group's tombstone",
        "deleted or expired is told by the retention, which may have been changed",
    ),
    Rule(
        Kind.COORDINATOR_MOVED,
        "read (probe), suspected (roll-up)",
        "leader or leader epoch of the shard's partition changed; or many groups rebalance unchanged at once",
        "an epoch may step without a move; records alone never show one",
    ),
    Rule(
        Kind.GROUP_EMPTY,
        "read",
        "a record without members",
        "`ended_by` is only as sure as the last member's cause",
    ),
    Rule(
        Kind.OFFSETS_EXPIRING,
        "derived",
        "empty since, plus the retention, less a day; of a topic that nobody subscribes to, and of a group "
        "that never had members, its last commit",
        "retention is read from the broker where that is allowed, else the configured one; topics of "
        "epoch-based groups are not followed",
    ),
    Rule(
        Kind.SLOW_SYNC,
        "read",
        "record time less the end of the join phase",
        "includes the leader's metadata refresh and the append",
    ),
    Rule(
        Kind.ASSIGNMENT_SKEWED,
        "derived",
        "one of Kafka's assignors, reimplemented, would spread the same partitions better",
        "silent while partitions are withheld, for unknown protocols, very large groups and KIP-848 groups "
        "whose members subscribe to different topics; racks of replicas are not on the topic",
    ),
    Rule(
        Kind.GROUP_TOO_LARGE,
        "read",
        "size of the record against max.message.bytes",
        "the batch around it is compressed as the topic says",
    ),
    Rule(
        Kind.CONSUMPTION_STALLED,
        "derived",
        "for ten of the partition's commit intervals (a minute at least) its owner commits, its offset "
        "stands still, and ever more records wait",
        "needs the ends of topics; a paused partition looks the same: declare it (`expected_pause`)",
    ),
    Rule(
        Kind.CONSUMPTION_STOPPED,
        "derived",
        "as `consumption_stalled`, where the owner commits nothing at all",
        "not told before a commit interval is known, nor within a rebalance; whether the process lives is "
        "not on the topic",
    ),
    Rule(
        Kind.FALLING_BEHIND,
        "derived",
        "the lag of a partition has not gone down in any sample of the window, and rises still",
        "a batch consumer that catches up once a day is behind until then",
    ),
    Rule(
        Kind.OFFSETS_REWOUND,
        "derived",
        "a group's positions are smaller than those it published before, and stay so until the next sample",
        "an aborted transaction's offsets look like positions that went back",
    ),
    Rule(
        Kind.RECORDS_LOST,
        "derived",
        "a partition's earliest offset is beyond a committed offset that it was seen not to be beyond before",
        "looked at once a minute; what was lost before the monitor began is not told",
    ),
    Rule(
        Kind.RECORDS_EXPIRING,
        "derived",
        "the earliest offset comes nearer to the committed one, is nearer than the end, and reaches it "
        "within 4 h at the rate of the last looks",
        "retention deletes whole segments, so the rate is a rough one",
    ),
    Rule(
        Kind.UNREADABLE_RECORDS,
        "read",
        "records the decoders refuse, by rate and reason",
        "one below the rate is only counted and kept in quarantine",
    ),
    Rule(
        Kind.MONITOR_DEGRADED,
        "read",
        "what the monitor knows of itself",
        "a monitor that is dead says nothing: watch its heartbeat from outside",
    ),
)
"""Every rule, in the order of the kinds."""
