"""Everything about one group: members with what they own and when they run out of time, and its timeline."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.owners import partitions
from rebalance_monitor.dashboard.web.views.budget import within
from rebalance_monitor.dashboard.web.views.events import event_row, events_of
from rebalance_monitor.dashboard.web.views.incident_view import in_order, incident_row, newest
from rebalance_monitor.dashboard.web.views.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding, MemberEntry
    from rebalance_monitor.coordinator.lag.committing import Committing
    from rebalance_monitor.coordinator.lag.measured import GroupLag
    from rebalance_monitor.dashboard.web.views.board import Board, Entry
    from rebalance_monitor.dashboard.web.views.shapes import (
        Deadline,
        GroupDetail,
        IncidentRow,
        Member,
        Spread,
        TopicLagRow,
    )

FINDINGS = 100
PARTITIONS = 200


def group_detail(
    board: Board, entry: Entry, findings: Sequence[Finding], *, live: bool, as_of: int | None = None
) -> GroupDetail:
    """Return the page of one group; `findings` are its findings, oldest first."""
    summary = entry.facts.view.summary
    lag = board.known.lags.get(entry.name)
    committed = board.known.committing.get(entry.name)
    members = [_committing(member, committed) for member in members_of(summary, findings)]
    return {
        "version": board.known.version,
        "now": board.now,
        "live": live,
        "as_of": as_of,
        "row": board.row(entry),
        "protocol_type": summary.get("protocol_type") or "",
        "leader": summary.get("leader") or "",
        "topics": list(summary.get("topics") or _topics(findings)),
        "members": members,
        "spread": spread(members),
        "deadlines": deadlines(summary, members),
        "timeline": timeline(findings),
        "incidents": _incidents(board, entry.name),
        "findings": newest(findings, FINDINGS),
        "events": [event_row(event) for event in events_of(findings)][:FINDINGS],
        "lag_track": [list(one) for one in lag.totals] if lag else [],
        "lag_at": lag.at if lag else None,
        "lag": within(lag_rows(lag)) if lag else [],
        "lag_topics": len(lag.topics) if lag else 0,
    }


def lag_rows(lag: GroupLag) -> Iterator[TopicLagRow]:
    """Yield a group's lag by topic, the most first, with the partitions that have most."""
    topics = sorted(lag.topics.items(), key=lambda item: (-(item[1].records or 0), item[0]))
    for topic, topic_lag in topics:
        yield {
            "topic": topic,
            "lag": topic_lag.records,
            "age_ms": topic_lag.age_ms,
            "unknown": topic_lag.unknown,
            "partitions": len(topic_lag.partitions),
            "listed": [
                {
                    "partition": one.partition,
                    "committed_offset": one.offset,
                    "committed_at": one.committed_at,
                    "end": one.end,
                    "lag": one.records,
                    "lag_stable": one.stable_records,
                    "age_ms": one.age_ms,
                }
                for one in nsmallest(PARTITIONS, topic_lag.partitions, key=lambda one: -(one.records or 0))
            ],
        }


def _committing(member: Member, newest: Committing | None) -> Member:
    """Return a member with its newest commit: the summary has that of the group's last change."""
    if newest is None:
        return member
    find = newest.find()
    owned = [(topic, one) for topic, ranges in member["assigned"].items() for one in partitions(ranges)]
    times = [position.at for place in owned if (position := find(*place)) is not None]
    return {**member, "last_commit": _known(max([member["last_commit"] or -1, *times]))}


def members_of(summary: Mapping[str, Any], findings: Sequence[Finding]) -> list[Member]:
    """Return the members by the summary; without one, or where it is older, by the newest generation."""
    newest = next((f for f in reversed(findings) if f.kind in {Kind.REBALANCE, Kind.GROUP_EMPTY}), None)
    listed = summary.get("member_list")
    if newest is not None and newest.kind is Kind.GROUP_EMPTY and newest.phase == "opened":
        return []
    behind = newest is not None and newest.leader is not None and newest.leader != summary.get("leader")
    if listed is not None and not behind:
        return [_summarised(member, summary.get("leader") or "") for member in listed]
    entries = newest.members if newest is not None else ()
    leader = (newest.leader if newest is not None else "") or ""
    return [_named(entry, leader) for entry in entries if entry.role != "left"]


def spread(members: Sequence[Member]) -> Spread:
    """Return how partitions are spread over the members."""
    counts = [member["partitions"] for member in members]
    return {
        "most": max(counts, default=0),
        "least": min(counts, default=0),
        "idle": counts.count(0),
        "partitions": sum(counts),
    }


def deadlines(summary: Mapping[str, Any], members: Sequence[Member]) -> list[Deadline]:
    """Return the deadlines ahead that need no action to pass, the soonest first."""
    found: list[Deadline] = [
        {"what": "session", "at": member["deadline"], "who": member["client_id"] or member["member_id"]}
        for member in members
        if member["deadline"] is not None
    ]
    expiry = summary.get("offsets_expire_at", -1)
    if expiry >= 0:
        found.append({"what": "offsets", "at": expiry, "who": ""})
    return sorted(found, key=lambda deadline: deadline["at"])


def _summarised(member: Mapping[str, Any], leader: str) -> Member:
    return {
        "member_id": member["member_id"],
        "client_id": member["client_id"],
        "host": member["host"],
        "instance_id": member["instance_id"],
        "family": member["family"],
        "partitions": member["partitions"],
        "assigned": member.get("assigned", {}),
        "session_timeout_ms": _known(member["session_timeout_ms"]),
        "rebalance_timeout_ms": _known(member["rebalance_timeout_ms"]),
        "last_commit": _known(member["last_commit"]),
        "deadline": _known(member.get("deadline", -1)),
        "is_leader": member["member_id"] == leader,
        "is_silent": member.get("silent", False),
    }


def _named(entry: MemberEntry, leader: str) -> Member:
    return {
        "member_id": entry.member_id,
        "client_id": entry.client_id,
        "host": entry.host,
        "instance_id": entry.instance_id,
        "family": "",
        "partitions": entry.partitions,
        "assigned": {},
        "session_timeout_ms": entry.session_timeout_ms,
        "rebalance_timeout_ms": entry.rebalance_timeout_ms,
        "last_commit": entry.last_seen,
        "deadline": None,
        "is_leader": entry.member_id == leader,
        "is_silent": False,
    }


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def _topics(findings: Sequence[Finding]) -> tuple[str, ...]:
    return next((finding.topics for finding in reversed(findings) if finding.topics), ())


def _incidents(board: Board, group: str) -> list[IncidentRow]:
    return within(incident_row(one) for one in in_order(board.known) if one.group == group)
