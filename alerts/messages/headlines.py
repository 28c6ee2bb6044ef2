"""What each kind of finding is called in a message, and the one line that says what to do next.

One table; the runbook docs/runbooks.md has a section of the same name per kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind


@dataclass(frozen=True, slots=True)
class Headline:
    """`opened` follows the group's name in a title, `resolved` once it is over; `next_step` is what to do.

    `many` replaces `opened` where several members are affected: `{number}` of them, `{of}` so many. `spread`
    replaces `next_step` where no member is behind a third of the rebalances, `shared` where many groups are
    hit at once.
    """

    opened: str
    next_step: str
    resolved: str
    many: str | None = None
    spread: str | None = None
    shared: str | None = None


HEADLINES: dict[Kind, Headline] = {
    Kind.REBALANCE: Headline(
        "rebalanced",
        "Nothing, if it stays at one. Check the named cause before you scale or restart anything.",
        "had no further rebalance",
    ),
    Kind.REBALANCE_COST: Headline(
        "has caught up after a rebalance",
        "Nothing by itself. If these costs add up, see which members leave and come back, and why.",
        "had no further rebalance that cost it anything",
    ),
    Kind.REBALANCE_FAILED: Headline(
        "failed to complete a rebalance",
        "Look for members that die or hang between joining and syncing. Start with the newest deployment.",
        "had no further failed rebalance",
    ),
    Kind.REBALANCE_IN_PROGRESS: Headline(
        "is rebalancing",
        "Wait for it to complete. Eager members consume nothing until then.",
        "finished rebalancing",
    ),
    Kind.REBALANCE_STUCK: Headline(
        "is stuck in a rebalance",
        "Find the member that has not rejoined. All others wait for it, at most for its rebalance timeout.",
        "is no longer stuck in a rebalance",
    ),
    Kind.SESSION_TIMEOUT: Headline(
        "lost a member to its session timeout",
        "Check the member's process and host: killed, out of memory, a long pause, no network to the broker.",
        "lost no further member to a session timeout",
        "lost {number}{of} members to session timeouts",
        shared="Check first what these members share: a host, the network, a broker, a deployment.",
    ),
    Kind.POLL_INTERVAL_EXCEEDED: Headline(
        "lost a member that stopped polling",
        "Find what the member was processing. Raise max.poll.interval.ms or lower max.poll.records.",
        "lost no further member that stopped polling",
        "lost {number}{of} members that stopped polling",
        shared="Find what these members all wait for: a database, a service, a topic that they write to.",
    ),
    Kind.MEMBER_SILENT: Headline(
        "has a silent member",
        "Check that the member's process is alive. If it stays silent, the broker removes it.",
        "has no silent member any more",
    ),
    Kind.STORM: Headline(
        "is in a rebalance storm",
        "Stop or fix the worst offender first. Each time it joins, all members stop.",
        "rebalance storm is over",
        spread="No single member causes it. Check what the members share: a deployment, a host, timeouts, an "
        "autoscaler.",
    ),
    Kind.ROLLING_RESTART: Headline(
        "went through a rolling restart",
        "Nothing, if it was a deployment; static membership (group.instance.id) avoids these rebalances. If "
        "members expired, check their hosts and memory.",
        "rolling restart is over",
    ),
    Kind.STATIC_MEMBER_REPLACED: Headline(
        "had a static member return without a rebalance",
        "Nothing, if the member was restarted. If it repeats, check that no other process uses the same "
        "group.instance.id, then why the member crashes.",
        "had no further return of a static member",
    ),
    Kind.GROUP_MIGRATED: Headline(
        "moved to another group protocol",
        "Check that every client of the group supports the new protocol.",
        "stays on its group protocol",
    ),
    Kind.GROUP_REMOVED: Headline(
        "was removed",
        "If nobody retired the group, find out who called DeleteGroups or why its offsets expired.",
        "is removed",
    ),
    Kind.COORDINATOR_MOVED: Headline(
        "coordinator moved",
        "Check the broker that lost the partition. Most clients continue without a rebalance.",
        "coordinator has not moved again",
    ),
    Kind.BROKER_AWAY: Headline(
        "lost members while their broker did not respond",
        "Check the broker, not the members: paused, out of memory, a slow disk, a long garbage collection.",
        "broker outage is over",
    ),
    Kind.GROUP_EMPTY: Headline(
        "has no members left",
        "If the group should run, start its consumers. Lag grows, and offsets expire after their retention.",
        "has members again",
        "lost all of its {number} members",
    ),
    Kind.OFFSETS_EXPIRING: Headline(
        "will lose its offsets soon",
        "Let a consumer join, even briefly, or save the offsets (kafka-consumer-groups --reset-offsets "
        "--to-current --dry-run --export). If a topic was unsubscribed by mistake, subscribe to it again.",
        "offsets no longer expire",
    ),
    Kind.SLOW_SYNC: Headline(
        "had a slow assignment: its leader took {sync}",
        "Check the group's leader: a slow assignor, or slow metadata for many topics.",
        "had no further slow assignment",
    ),
    Kind.ASSIGNMENT_SKEWED: Headline(
        "spreads its partitions unevenly",
        "Compare assignors with `rebalance-monitor explain`. Remove idle members: they only add rebalances.",
        "spreads its partitions evenly again",
    ),
    Kind.PARTITIONS_UNASSIGNED: Headline(
        "has partitions that no member reads, or that two members read",
        "Compare the members' subscriptions with their assignments. Give each application its own group id.",
        "assigns every partition to one subscribed member again",
    ),
    Kind.GROUP_TOO_LARGE: Headline(
        "is close to the largest group record that the broker can store",
        "Raise max.message.bytes of the offsets topic or split the group, before assignments fail.",
        "group record is small enough again",
    ),
    Kind.CONSUMPTION_STALLED: Headline(
        "has a member that commits the same offset while lag grows",
        "Check what the member does with the record at its committed offset: a record that always fails, a "
        "call that never returns, a paused partition. More members do not help.",
        "makes progress again",
    ),
    Kind.CONSUMPTION_STOPPED: Headline(
        "has a member that commits nothing while records wait",
        "Check that the member's process runs and polls: its log, a thread dump. A heartbeat thread can keep "
        "its session alive while it does not poll.",
        "consumes again",
    ),
    Kind.FALLING_BEHIND: Headline(
        "reads slower than its topics grow",
        "Add members, up to one per partition, or do less work per record. Check whether one partition gets "
        "most records.",
        "no longer falls behind",
    ),
    Kind.OFFSETS_REWOUND: Headline(
        "reads records again",
        "Nothing, if the offsets were reset on purpose. Otherwise find who commits older offsets.",
        "did not go back again",
    ),
    Kind.RECORDS_LOST: Headline(
        "has lost records that it had not read",
        "The topic no longer has these records. Raise its retention, find out why the group was behind, and "
        "replay the records from another source if there is one.",
        "lost no further records",
    ),
    Kind.RECORDS_EXPIRING: Headline(
        "will lose records that it has not read",
        "Raise the topic's retention now (kafka-configs --alter --add-config retention.ms=…), then let the "
        "group catch up.",
        "no longer loses records",
    ),
    Kind.UNREADABLE_RECORDS: Headline(
        "offsets topic has records that cannot be read",
        "Check the quarantine table. A newer Kafka may write a format that this version cannot read.",
        "offsets topic can be read again",
    ),
    Kind.MONITOR_DEGRADED: Headline(
        "monitor degraded",
        "Until this is resolved, missing alerts prove nothing. Check the named cause and the monitor's log.",
        "monitor works again",
    ),
}
"""kind -> headline; every kind has one."""

BY_CAUSE: dict[tuple[Kind, Cause], str] = {
    (Kind.POLL_INTERVAL_EXCEEDED, Cause.JOIN_DEADLINE_MISSED): (
        "Find why the member did not rejoin: a handler that does not end when the group rebalances, or a "
        "client that was replaced and never closed. Or raise its rebalance timeout."
    ),
    (Kind.REBALANCE_STUCK, Cause.MEMBER_NOT_REJOINED): (
        "See what the named member is working on. All others wait for it, at most for its rebalance timeout."
    ),
    (Kind.STORM, Cause.CONNECT_CONFIGS_DIFFER): (
        "Stop the named worker. Give its Connect cluster a group.id of its own, or the others' config topic."
    ),
    (Kind.STORM, Cause.LEADER_REJOINED): (
        "Find out why it rejoins: a handler that returns before its session ends, or a consumer that "
        "subscribes again."
    ),
}
"""kind and first cause -> what to do, where that differs from the kind's next step."""
