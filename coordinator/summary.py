"""The group summary: what the dashboard and the terminal show of a group between findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.storms import is_open

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state import GroupState, Member


def summarise(group: str, state: GroupState, limit: int) -> dict[str, Any]:
    """JSON-able dict; times in ms since epoch, at most `limit` members."""
    return {
        "group": group,
        "group_type": state.group_type,
        "state": state.status,
        "generation": state.generation,
        "leader": state.leader,
        "protocol": state.protocol,
        "protocol_type": state.protocol_type,
        "at": state.ts,
        "topics": (state.names or state.topics)[:20],
        "members": len(state.members),
        "member_list": [_member(member) for member in state.members[:limit]],
        "last_rebalance": state.rebalance_at,
        "last_causes": [{"cause": cause, "confidence": confidence} for cause, confidence in state.causes],
        "storm": is_open(state.storm),
        "last_commit": state.last_commit,
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "family": member.family,
        "partitions": len(member.offsets),
        "session_timeout_ms": member.session_timeout,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "last_commit": member.last_commit,
    }
