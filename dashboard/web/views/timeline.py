"""The swim-lane timeline of a group: generations as columns, members as lanes.

A lane is a member as a person would follow it: by instance id, else by client id and host, so a client that
crashes and comes back under a new member id stays in its lane. Where two members of one generation share
that, each has a lane of its own by member id. Findings name every member that joined, left or was replaced,
but kept ones only up to a limit: a member that came and has not gone is present, marked `implied`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.finding import to_dict
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding, MemberEntry
    from rebalance_monitor.dashboard.web.views.timeline_shapes import Breach, Cell, Column, Lane, Timeline

COLUMNS = 60
LANES = 80
_GENERATIONS = frozenset(
    {Kind.REBALANCE, Kind.REBALANCE_FAILED, Kind.GROUP_EMPTY, Kind.STATIC_MEMBER_REPLACED, Kind.GROUP_REMOVED}
)
_COST = ("waiting_peak", "partition_seconds", "arrived", "caught_up_ms", "rebalances")
_BREACHES = frozenset({Kind.SESSION_TIMEOUT, Kind.POLL_INTERVAL_EXCEEDED, Kind.MEMBER_SILENT})


@dataclass(slots=True)
class _Lane:
    """A lane while it is filled."""

    entry: MemberEntry
    cells: list[Cell] = field(default_factory=list)
    breaches: list[Breach] = field(default_factory=list)
    present: bool = False


def timeline(findings: Iterable[Finding], columns: int = COLUMNS, lanes: int = LANES) -> Timeline:
    """Return the timeline of one group's findings, oldest first."""
    ordered = sorted(findings, key=lambda finding: finding.at)
    shown = [finding for finding in ordered if _is_column(finding)][-columns:]
    costs = {str(one.details["rebalance"]): one for one in ordered if one.kind is Kind.REBALANCE_COST}
    shared = _shared(shown)
    made: dict[str, _Lane] = {}
    for number, finding in enumerate(shown):
        _fill(made, shared, number, finding)
    for finding in ordered:
        if finding.kind in _BREACHES and shown and finding.at >= shown[0].at:
            _mark(made, shared, shown, finding)
    kept = _bounded(made, lanes)
    return {
        "columns": [column(finding, costs.get(finding.id)) for finding in shown],
        "lanes": [_lane(key, lane) for key, lane in kept.items()],
        "lanes_total": len(made),
    }


def column(finding: Finding, cost: Finding | None = None) -> Column:
    """Return one column's heading and what the table below it says; `cost`: what it cost, once known."""
    details = finding.details
    # What it cost is known better later on: the rebalance itself carries what had waited until then.
    known = {**details, **(cost.details if cost is not None else {})}
    peak, stood, arrived, caught_up, times = map(known.get, _COST)
    return {
        "id": finding.id,
        "kind": finding.kind.value,
        "severity": finding.severity.value,
        "generation": finding.generation,
        "at": finding.at,
        "started_at_min": finding.started_at_min,
        "started_at_max": finding.started_at_max,
        "join_ms_min": finding.join_ms_min,
        "join_ms_max": finding.join_ms_max,
        "sync_ms": finding.sync_ms,
        "stopped_ms_min": finding.stopped_ms_min,
        "stopped_ms_max": finding.stopped_ms_max,
        "waiting_peak": None if peak is None else int(peak),
        "partition_seconds": None if stood is None else float(stood),
        "arrived": None if arrived is None else int(arrived),
        "caught_up_ms": None if caught_up is None else int(caught_up),
        "cost_of": None if times is None else int(times),
        "protocol": finding.protocol or "",
        "members": finding.members_total,
        "joined": int(details.get("joined", 0)),
        "left": int(details.get("left", 0)),
        "replaced": int(details.get("replaced", 0)),
        "evidence": finding.evidence,
        "confidence": finding.confidence,
        "history": finding.history,
        "causes": to_dict(finding)["causes"],
    }


def _is_column(finding: Finding) -> bool:
    return finding.kind in _GENERATIONS and finding.phase in {None, "opened"}


def _name(entry: MemberEntry) -> str:
    return f"instance {entry.instance_id}" if entry.instance_id else f"{entry.client_id} {entry.host}"


def _shared(shown: Sequence[Finding]) -> frozenset[str]:
    """Return the names that two members of one generation have at once."""
    found: set[str] = set()
    for finding in shown:
        names = Counter(_name(entry) for entry in finding.members if entry.role != "left")
        found |= {name for name, count in names.items() if count > 1}
    return frozenset(found)


def _key(entry: MemberEntry, shared: frozenset[str]) -> str:
    name = _name(entry)
    return f"member {entry.member_id}" if name in shared else name


def _fill(made: dict[str, _Lane], shared: frozenset[str], number: int, finding: Finding) -> None:
    named: set[str] = set()
    # Members that left come first: a client that was replaced by itself ends the column as present.
    for entry in sorted(finding.members, key=lambda entry: entry.role != "left"):
        key = _key(entry, shared)
        lane = made.setdefault(key, _Lane(entry))
        if key in named:
            lane.cells[-1] = _cell(number, entry, finding, came_back=True)
        else:
            lane.cells.append(_cell(number, entry, finding))
        named.add(key)
        lane.present = entry.role != "left"
    empty = finding.kind in {Kind.GROUP_EMPTY, Kind.GROUP_REMOVED}
    for key, lane in made.items():
        if key not in named and lane.present:
            lane.present = not empty
            if lane.present:
                lane.cells.append(_implied(number, lane))


def _cell(number: int, entry: MemberEntry, finding: Finding, *, came_back: bool = False) -> Cell:
    gone = entry.role == "left"
    return {
        "column": number,
        "mark": "replaced" if came_back else entry.role,
        "member_id": entry.member_id,
        "partitions": None if gone else entry.partitions,
        "leader": not gone and entry.member_id == finding.leader,
    }


def _implied(number: int, lane: _Lane) -> Cell:
    before = lane.cells[-1]
    return {**before, "column": number, "mark": "implied", "leader": False}


def _mark(made: dict[str, _Lane], shared: frozenset[str], shown: Sequence[Finding], finding: Finding) -> None:
    """Put a timeout or silence into its lane: at the generation that it led to, or the next one."""
    led_to = next((n for n, one in enumerate(shown) if one.id == finding.details.get("rebalance")), None)
    after = next((n for n, one in enumerate(shown) if one.at >= finding.at), len(shown))
    for entry in finding.members[:1]:
        lane = made.setdefault(_key(entry, shared), _Lane(entry))
        cause = finding.causes[0] if finding.causes else None
        lane.breaches.append(
            {
                "column": after if led_to is None else led_to,
                "kind": finding.kind.value,
                "phase": finding.phase,
                "at": finding.at,
                "confidence": finding.confidence,
                "why": cause.why if cause else "",
                "id": finding.id,
            }
        )


def _bounded(made: dict[str, _Lane], limit: int) -> dict[str, _Lane]:
    """Return at most `limit` lanes in order of appearance; those with breaches or most changes stay."""
    if len(made) <= limit:
        return made
    busy = sorted(made, key=lambda key: -_activity(made[key]))[:limit]
    kept = frozenset(busy)
    return {key: lane for key, lane in made.items() if key in kept}


def _activity(lane: _Lane) -> int:
    return 10 * len(lane.breaches) + sum(cell["mark"] not in {"kept", "implied"} for cell in lane.cells)


def _lane(key: str, lane: _Lane) -> Lane:
    entry = lane.entry
    return {
        "key": key,
        "label": entry.instance_id or entry.client_id or entry.member_id,
        "client_id": entry.client_id,
        "host": entry.host,
        "instance_id": entry.instance_id,
        "present": lane.present,
        "cells": lane.cells,
        "breaches": lane.breaches,
    }
