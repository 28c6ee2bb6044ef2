"""The assignors by the name under which the group's protocol, or KIP-848's server assignor, goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rebalance_monitor.coordinator.assignors import ranges, round_robin, server, sticky
from rebalance_monitor.coordinator.assignors.model import Assignment, Counts, Subscriber

Assign = Callable[[Sequence[Subscriber], Counts], Assignment]

CLIENT: dict[str, Assign] = {
    "range": ranges.assign,
    "roundrobin": round_robin.assign,
    "sticky": sticky.assign,
    "cooperative-sticky": sticky.assign,
}
"""Assignors of classic groups; cooperative-sticky as it ends, after both phases."""

SERVER: dict[str, Assign] = {"uniform": server.uniform, "range": ranges.assign}
"""Assignors of KIP-848 groups."""
