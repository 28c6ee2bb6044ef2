"""The cluster at a glance: groups by state and trouble, the last hour by minute and cause, open incidents."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from heapq import nsmallest
from itertools import pairwise
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard.web.views.board import HOUR_MS
from rebalance_monitor.dashboard.web.views.events import event_row, events_of
from rebalance_monitor.dashboard.web.views.incident_view import in_order, incident_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.view.snapshot import Health, Known
    from rebalance_monitor.dashboard.web.views.board import Board
    from rebalance_monitor.dashboard.web.views.shapes import Count, MonitorHealth, Overview

MINUTES = 60
MINUTE_MS = 60_000
INCIDENTS = 20
OFFENDERS = 8
LATEST = 30
LOOKED_AT = 200
"""Newest findings of which the latest events are made."""
# Published so often that they would drown the rest; the group's own page has them.
_QUIET = frozenset({Kind.REBALANCE_IN_PROGRESS})


def overview(board: Board, wall: int, *, live: bool) -> Overview:
    """Return the overview of the board's moment; `wall` is the clock (ms) that lag is measured by."""
    known, now = board.known, board.now
    recent = [finding for entry in board.entries for finding in _since(entry.facts.view.recent, now)]
    recent += _since(known.others, now)
    rebalances = [finding for finding in recent if finding.kind is Kind.REBALANCE]
    busiest = nsmallest(OFFENDERS, board.entries, key=lambda entry: (-entry.rebalances, entry.name))
    latest = nsmallest(LOOKED_AT, (f for f in recent if f.kind not in _QUIET), key=lambda f: (-f.at, f.id))
    cut_at = latest[-1].at if len(latest) == LOOKED_AT else -1
    return {
        "cluster": known.cluster,
        "version": known.version,
        "now": now,
        "live": live,
        "groups": len(board.entries),
        "with_members": sum(entry.members > 0 for entry in board.entries),
        "commits_only": sum(entry.is_commits_only for entry in board.entries),
        "troubled": sum(entry.is_troubled for entry in board.entries),
        "states": counts(entry.state for entry in board.entries),
        "types": counts(entry.facts.view.summary.get("group_type") or "unknown" for entry in board.entries),
        "troubles": counts(entry.trouble.kind.value for entry in board.entries if entry.trouble),
        "minutes": by_minute(rebalances, now),
        "causes": counts(f.causes[0].cause.value if f.causes else "unknown" for f in rebalances),
        "offenders": [board.row(entry) for entry in busiest if entry.rebalances],
        "incidents": [incident_row(one) for one in in_order(known) if one.closed_at is None][:INCIDENTS],
        "incidents_open": len(known.incidents.open),
        "latest": [event_row(event, cut_at) for event in events_of(latest)[:LATEST]],
        "health": health_of(known, wall, live=live),
    }


def counts(names: Iterable[str]) -> list[Count]:
    """Return names with how often they occur, the most frequent first."""
    found = Counter(names)
    return [
        {"name": name, "count": count} for name, count in sorted(found.items(), key=lambda x: (-x[1], x[0]))
    ]


def by_minute(findings: Iterable[Finding], now: int) -> list[int]:
    """Return how many findings each minute of the hour before `now` (ms) has, oldest first."""
    times = sorted(finding.at for finding in findings)
    edges = [bisect_left(times, now - HOUR_MS + MINUTE_MS * number + 1) for number in range(MINUTES + 1)]
    return [after - before for before, after in pairwise(edges)]


def health_of(known: Known, wall: int, *, live: bool) -> MonitorHealth:
    """Return the monitor's own state."""
    health: Health = known.health
    return {
        "ready": health.is_ready,
        "started": health.started,
        "last_batch": health.last_batch,
        "batch": health.batch,
        "rows": health.rows,
        "state_bytes": health.state_bytes,
        "groups": health.groups,
        "shards": len(health.shards),
        "catching_up": len(health.catching_up),
        "history_at": health.history_at,
        "lag_records": health.lag_records,
        "behind_ms": max(0, wall - health.now) if live and health.now >= 0 else None,
        "as_of": known.kept_at if live and known.kept_at >= 0 and not health.is_ready else None,
    }


def _since(findings: tuple[Finding, ...], now: int) -> list[Finding]:
    if not findings or findings[-1].at <= now - HOUR_MS:
        return []
    return [finding for finding in findings if now - HOUR_MS < finding.at]
