"""Findings as the coordinator writes them, for tests of the messages about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind

AT = 1_795_218_556_552

MEMBER = MemberEntry(
    member_id="orders-3-8c1e",
    instance_id=None,
    client_id="orders-3",
    host="/10.1.2.3",
    host_is_stale=False,
    role="left",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=300_000,
    last_seen=AT - 6_400,
    silence_ms=6_400,
    partitions=4,
)

CAUSE = CauseEntry(
    Cause.SESSION_TIMEOUT,
    0.93,
    "no commit for 6.4 s before the join phase ended; session timeout 6.0 s; commits every 0.5 s until then",
    member_id=MEMBER.member_id,
    client_id=MEMBER.client_id,
    host=MEMBER.host,
)


def finding(kind: Kind = Kind.REBALANCE, **changes: Any) -> Finding:  # noqa: ANN401 - any field of a finding
    """Return a complete finding of `kind`; `changes` replace fields."""
    spec = KINDS[kind]
    made = Finding(
        id="0123456789abcdef",
        kind=kind,
        scope=spec.scope,
        severity=spec.severity,
        evidence="derived",
        confidence=0.93,
        cluster="prod",
        group="orders" if spec.scope.value == "group" else None,
        generation=12,
        previous_generation=11,
        at=AT,
        detected_at=AT + 900,
        stopped_ms_min=900,
        stopped_ms_max=3_100,
        members_total=5,
        members_affected=1,
        partitions_affected=4,
        causes=(CAUSE,),
        members=(MEMBER,),
        phase="opened" if spec.phases else None,
        opened_at=AT if spec.phases else None,
        details={"count": 7, "window_ms": 300_000} if kind is Kind.STORM else {},
    )
    return replace(made, **changes)
