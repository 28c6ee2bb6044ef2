"""What each kind of finding is called in a message, and the one line that says what to do next.

One table; the runbook docs/runbooks.md has a section of the same name per kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_monitor.coordinator.findings.kinds import Kind


@dataclass(frozen=True, slots=True)
class Headline:
    """`opened` follows the group's name in a title, `resolved` does once it is over; `next_step` acts.

    `many`: instead of `opened`, where it is about several members: `{number}`, `{of}` of so many.
    """

    opened: str
    next_step: str
    resolved: str | None = None
    many: str | None = None


HEADLINES: dict[Kind, Headline] = {
    Kind.REBALANCE: Headline(
        "rebalanced",
        "Nothing, if it stays at one: look at the cause named here before scaling or restarting anything.",
    ),
    Kind.REBALANCE_FAILED: Headline(
        "had rebalances that never produced an assignment",
        "Look for members that die or hang between joining and syncing: start with the newest deployment.",
    ),
    Kind.REBALANCE_IN_PROGRESS: Headline(
        "is rebalancing",
        "Wait for it to complete; consumption of the group's eager members is stopped meanwhile.",
        "finished rebalancing",
    ),
    Kind.REBALANCE_STUCK: Headline(
        "is stuck in a rebalance",
        "Find the member that has not rejoined: it holds every other member up until its rebalance timeout.",
        "left its stuck rebalance",
    ),
    Kind.SESSION_TIMEOUT: Headline(
        "lost a member to its session timeout",
        "Check the member's host: killed, out of memory, a long pause, or cut off from the broker.",
        "lost no more members to session timeouts",
        "lost {number}{of} members to their session timeouts",
    ),
    Kind.POLL_INTERVAL_EXCEEDED: Headline(
        "lost a member that stopped polling",
        "Find what the member was processing; raise max.poll.interval.ms or lower max.poll.records.",
        "lost no more members that stopped polling",
        "lost {number}{of} members that stopped polling",
    ),
    Kind.MEMBER_SILENT: Headline(
        "has a member that went silent",
        "Check that the member's process is alive; the broker will expire it if it stays silent.",
        "silent member explained",
    ),
    Kind.STORM: Headline(
        "is in a rebalance storm",
        "Stop or fix the worst offender first: each of its returns stops consumption for all.",
        "rebalance storm is over",
    ),
    Kind.ROLLING_RESTART: Headline(
        "went through a rolling restart",
        "Nothing, where it was deployed: static membership (group.instance.id) would have saved these "
        "rebalances. Where members expired, see what took their hosts or memory.",
        "rolling restart is over",
    ),
    Kind.STATIC_MEMBER_REPLACED: Headline(
        "had a static member come back without a rebalance",
        "Nothing, if it was restarted: this is what static membership is for. Again and again: see that no "
        "other process has its group.instance.id, then why it crashes.",
    ),
    Kind.GROUP_MIGRATED: Headline(
        "moved to another group protocol",
        "Check that every client of the group speaks the new protocol.",
    ),
    Kind.GROUP_REMOVED: Headline(
        "was removed",
        "If nobody retired the group: who called DeleteGroups, or why did its offsets expire?",
    ),
    Kind.COORDINATOR_MOVED: Headline(
        "coordinator moved",
        "Check the broker that lost the partition; most clients carry on without a rebalance.",
        "coordinator stays where it is",
    ),
    Kind.BROKER_AWAY: Headline(
        "lost members while their broker did not answer",
        "Look at the broker, not at the members: paused, out of memory, a slow disk, a long collection.",
        "have recovered from their broker's absence",
    ),
    Kind.GROUP_EMPTY: Headline(
        "has no members left",
        "If it should be running: start its consumers; lag grows and offsets expire after their retention.",
        "has members again",
        "lost all of its {number} members",
    ),
    Kind.OFFSETS_EXPIRING: Headline(
        "will lose its offsets soon",
        "Let a consumer join, even briefly, or save the positions (kafka-consumer-groups --reset-offsets "
        "--to-current --dry-run --export); a topic no longer subscribed to: subscribe again, or let it go.",
        "offsets are safe again",
    ),
    Kind.SLOW_SYNC: Headline(
        "waited for its leader's assignment",
        "Look at the group's leader: a slow assignor, or slow metadata for many topics.",
    ),
    Kind.ASSIGNMENT_SKEWED: Headline(
        "spreads its partitions unevenly",
        "Compare assignors with `rebalance-monitor explain`; idle members only cost rebalances.",
        "spreads its partitions evenly again",
    ),
    Kind.PARTITIONS_UNASSIGNED: Headline(
        "has partitions that nobody reads, or that two members read",
        "Compare what members subscribe to with what they own; give each application a group id of its own.",
        "assigns all partitions to members that subscribe to them again",
    ),
    Kind.GROUP_TOO_LARGE: Headline(
        "nears the size that the broker can store",
        "Raise max.message.bytes of the offsets topic or split the group, before assignments fail.",
        "fits well again",
    ),
    Kind.CONSUMPTION_STALLED: Headline(
        "has a member that commits and does not get on",
        "Look at what the named member does with the record at its committed offset: one that always fails, "
        "a call that never returns, a partition that it has paused. More members do not help.",
        "gets on again",
    ),
    Kind.CONSUMPTION_STOPPED: Headline(
        "has a member that commits nothing while records wait",
        "See whether the named member's process lives and polls: its log, a thread dump. Its session may "
        "still be kept by a heartbeat thread of its own.",
        "consumes again",
    ),
    Kind.FALLING_BEHIND: Headline(
        "reads slower than its topics grow",
        "More members as far as partitions last, or less work per record; see whether one partition gets "
        "most.",
        "no longer falls behind",
    ),
    Kind.OFFSETS_REWOUND: Headline(
        "reads records again",
        "Nothing, where somebody reset or replays it. Else: who commits older offsets, or seeks?",
    ),
    Kind.RECORDS_LOST: Headline(
        "has lost records that it had not read",
        "They are gone from the topic. Raise its retention, see why the group was behind, and where else "
        "they can be had from.",
    ),
    Kind.RECORDS_EXPIRING: Headline(
        "will lose records that it has not read",
        "Raise the topic's retention now (kafka-configs --alter --add-config retention.ms=…), then let the "
        "group catch up.",
        "no longer loses records",
    ),
    Kind.UNREADABLE_RECORDS: Headline(
        "records that cannot be read",
        "Look into the quarantine table; a newer Kafka may write a form that this version does not know.",
        "records can be read again",
    ),
    Kind.MONITOR_DEGRADED: Headline(
        "the monitor itself is degraded",
        "Until this is resolved silence means nothing: see the cause named here and the job's log.",
        "the monitor works again",
    ),
}
"""kind -> headline; every kind has one."""
