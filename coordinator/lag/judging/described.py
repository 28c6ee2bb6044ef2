"""What a finding says of partitions that stand still or fall behind: the worst, how many, whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import MAX_TOPICS, CauseEntry, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag import windows
from rebalance_monitor.coordinator.lag.ends import AGAIN_MS
from rebalance_monitor.coordinator.lag.measured import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.coordinator.findings.finding import Details
    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.measured import GroupLag, PartitionLag
    from rebalance_monitor.coordinator.lag.owners import Reader
    from rebalance_monitor.coordinator.lag.windows import Track
    from rebalance_monitor.coordinator.settings import DetectionSettings

MAX_MEMBERS = 20
ANSWERS = 3
"""A window holds at least so many answers, where the brokers are asked for the positions."""

_HELD = CauseEntry(
    Cause.TRANSACTION_OPEN, 1.0, "the last stable offset of the topic stands where the group has read to"
)


class Hit(NamedTuple):
    """One partition that a verdict is about."""

    topic: str
    lag: PartitionLag
    track: Track
    reader: Reader


class Described(NamedTuple):
    """What a finding says: the worst partition, since when (ms), severity if not the kind's, the rest."""

    worst: Hit
    since: int
    severity: Severity | None
    details: Details
    fields: dict[str, Any]

    @property
    def members(self) -> tuple[str, ...]:
        """Return the ids of the members that it names."""
        return tuple(member.member_id for member in self.fields["members"])


def described(
    kind: Kind,
    hits: list[Hit],
    consumed: Consumed,
    lag: GroupLag,
    summary: Mapping[str, Any],
    settings: DetectionSettings,
) -> Described:
    """Return what a finding says of the partitions of a verdict; `settings`: those of the group."""
    hits = [hit for hit in hits if not hit.lag.waits_for_transaction] or hits
    worst = max(hits, key=lambda hit: (hit.lag.records or 0, hit.topic, -hit.lag.partition))
    track = worst.track
    since = track.rising if kind is Kind.FALLING_BEHIND else track.grown
    details: Details = {
        "topic": worst.topic,
        "partition": worst.lag.partition,
        "partitions": len(hits),
        "waiting": sum(hit.lag.records or 0 for hit in hits),
        "since": since,
        "committed_offset": worst.lag.offset,
        "window_ms": windows.window(track, worst.reader.owner, *window_of(lag, settings)),
    }
    if kind is Kind.CONSUMPTION_STOPPED:
        # Members stop one after the other: what the last of them did before it stopped is over.
        details["moving"] = consumed.moving(max(hit.track.grown for hit in hits))
    ages = [hit.lag.age_ms for hit in hits if hit.lag.age_ms is not None]
    if ages:
        details["age_ms"] = max(ages)
    if kind is Kind.FALLING_BEHIND:
        details["risen"] = track.lag - track.low
    late = settings.falling_behind_warning_ms
    is_late = kind is Kind.FALLING_BEHIND and late is not None and max(ages, default=0) >= late
    topics = tuple(dict.fromkeys(hit.topic for hit in hits))
    is_held = worst.lag.waits_for_transaction
    fields: dict[str, Any] = {
        "topics": topics[:MAX_TOPICS],
        "topics_total": len(topics),
        "causes": (_HELD,) if is_held else (),
        "members": () if is_held else tuple(_members(hits)),
        "members_total": summary.get("members"),
        "partitions_affected": len(hits),
        **stated(summary),
    }
    return Described(worst, since, Severity.WARNING if is_late else None, details, fields)


def stated(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a finding says of the group itself."""
    names = ("group_type", "protocol_type", "protocol", "state", "generation", "leader")
    return {name: summary.get(name) or None for name in names}


def window_of(lag: GroupLag, settings: DetectionSettings) -> tuple[int, int]:
    """Return the least window (ms), and how often (ms) positions come at least."""
    if lag.source is Source.TOPIC:
        return settings.lag_window_ms, windows.PUBLISHED_MS
    return max(settings.lag_window_ms, ANSWERS * AGAIN_MS), 2 * AGAIN_MS


def _members(hits: Iterable[Hit]) -> list[MemberEntry]:
    """Return the members behind the hits, each once."""
    seen = {hit.reader.member["member_id"]: hit.reader for hit in hits if hit.reader.member}
    return [
        MemberEntry(
            member_id=reader.member["member_id"],
            instance_id=reader.member["instance_id"],
            client_id=reader.member["client_id"],
            host=reader.member["host"],
            host_is_stale=False,
            role="kept",
            session_timeout_ms=reader.member["session_timeout_ms"],
            rebalance_timeout_ms=reader.member["rebalance_timeout_ms"],
            last_seen=reader.owner.committed if reader.owner.committed >= 0 else None,
            partitions=reader.member["partitions"],
        )
        for reader in list(seen.values())[:MAX_MEMBERS]
    ]
