"""The group summary: what the dashboard and the terminal show of a group between findings."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.commits import topic_names
from rebalance_monitor.coordinator.commits.trace import commits_when_idle
from rebalance_monitor.coordinator.deadlines.member_deadlines import AWAY, under_traffic
from rebalance_monitor.coordinator.deadlines.not_rejoined import usual
from rebalance_monitor.coordinator.findings.finding import MAX_TOPICS
from rebalance_monitor.coordinator.findings.names import short
from rebalance_monitor.coordinator.storms.storm import is_open

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

MAX_RANGES = 50
_TELLING = 10
_REMEMBERED, _FEW = 4_096, 64


def summarise(group: str, state: GroupState, limit: int, deadlines: Mapping[str, int]) -> dict[str, Any]:
    """JSON-able dict; times in ms since epoch, at most `limit` members.

    `deadlines` (member id -> ms): deadlines that count down; a silent member's has passed. `as_of`: the clock
    at which the summary holds.
    """
    # Records of epoch-based groups hold topic ids: show the names that commits have resolved.
    named = zip(topic_names.named(state), state.topics, strict=True)
    topics = [short(name or topic) for name, topic in named]
    # A finding about the assignment names them already.
    unowned = state.checks.unowned if state.members and not state.checks.unassigned else ()
    return {
        "group": short(group),
        "as_of": state.last_summary,
        "group_type": state.group_type,
        "state": state.status,
        "generation": state.generation if state.generation >= 0 else None,
        "leader": short(state.leader),
        "protocol": short(state.protocol),
        "protocol_type": short(state.protocol_type),
        "at": state.ts,
        "topics": list(map(short, (state.subscriptions.names or state.topics)[:MAX_TOPICS])),
        "members": len(state.members),
        "away": sum(member.epoch == AWAY for member in state.members),
        "member_list": [
            _member(state, member, topics, deadlines.get(member.member_id, member.silent_at))
            for member in _listed(state.members, limit)
        ],
        "last_rebalance": state.rebalances.at,
        "last_causes": [
            {"cause": cause, "confidence": confidence} for cause, confidence in state.rebalances.causes
        ],
        "storm": is_open(state.storm),
        "last_commit": state.last_commit,
        **({"unowned_topics": list(map(short, unowned))} if unowned else {}),
    }


def _listed(members: Sequence[Member], limit: int) -> list[Member]:
    """Return the first members, and of the others those that a join phase most likely waits for.

    These are the members that stopped committing first, and the members that go on committing.
    """
    if len(members) <= limit:
        return list(members)
    room = min(_TELLING, limit // 5)
    first, rest = list(members[: limit - room]), members[limit - room :]
    by_commit = sorted(rest, key=lambda member: member.last_commit)
    known = [member for member in by_commit if member.last_commit >= 0]
    # Members without a commit fill the remaining places.
    ends = dict.fromkeys(map(id, [*known[: room // 2], *known[room // 2 :][::-1], *by_commit]))
    chosen = set(list(ends)[:room])
    return first + [member for member in rest if id(member) in chosen]


def _member(state: GroupState, member: Member, topics: Sequence[str], deadline: int) -> dict[str, Any]:
    return {
        "member_id": short(member.member_id),
        "client_id": short(member.client_id),
        "host": short(member.host),
        "instance_id": None if member.instance_id is None else short(member.instance_id),
        "family": member.family,
        "partitions": len(member.offsets),
        "session_timeout_ms": member.session_timeout,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "last_commit": member.last_commit,
        "cadence_ms": member.cadence,
        "commits_idle": commits_when_idle(state, member),
        "steady": under_traffic(member),
        "usual_ms": usual(member),
        "deadline": deadline,
        "silent": bool(member.silent_id),
        "assigned": {topics[one[0]]: _ranges(one[1:]) for one in member.assigned[:MAX_TOPICS]},
    }


def _ranges(partitions: Sequence[int]) -> str:
    """Return `ranges`; the members of many groups have the same few partitions."""
    return _remembered(tuple(partitions)) if len(partitions) <= _FEW else ranges(partitions)


def ranges(partitions: Sequence[int]) -> str:
    """Return partitions as text, `0-3,7`; cut with `…` after `MAX_RANGES` pieces."""
    runs: list[list[int]] = []
    for partition in sorted(partitions):
        if runs and partition == runs[-1][1] + 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    pieces = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:MAX_RANGES]]
    return ",".join(pieces + ["…"] * (len(runs) > MAX_RANGES))


_remembered = lru_cache(maxsize=_REMEMBERED)(ranges)
