"""Samples as frames of plain columns: what a contract needs to know of a row stands in a column of its own.

Where a group belongs (`place`) is given by the caller; everything else comes from the rows alone. Rows are
taken as they are: what is wrong with them is for the contracts to say.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope
from rebalance_monitor.coordinator.rollup.bursts import ROLLED_UP
from rebalance_monitor.dashboard.tables.files import date_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Row = dict[str, Any]
_CAUSES = frozenset(cause.value for cause in Cause)
_ENDS = frozenset({Kind.GROUP_REMOVED.value, Kind.GROUP_MIGRATED.value})
_FRESH = frozenset({Cause.FIRST_START.value, Cause.GROUP_MIGRATED.value})


def findings_frame(rows: Sequence[Mapping[str, Any]], place: Callable[[str], int] | None) -> list[Row]:
    """Return the frame of findings; `place` returns the shard of a group, None where it is not known."""
    grown = _grown(rows)
    return [{**_finding(row, place), "generation_grows": grown[n]} for n, row in enumerate(rows)]


def groups_frame(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the frame of the groups table."""
    kept = ("schema", "group", "group_type", "state", "generation", "at", "members", "snapshot_at")
    return [
        {
            **{name: row[name] for name in kept},
            "members_listed": len(row["member_list"] or ()),
            "strange_causes": _strange(row["last_causes"]),
            "strange_incidents": ", ".join(
                one["kind"] for one in row["incidents"] or () if not _has_phases(one["kind"], Scope.GROUP)
            ),
        }
        for row in rows
    ]


def records_frame(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the frame of decoded records, which come as rows of just these columns."""
    return [dict(row) for row in rows]


def _finding(row: Mapping[str, Any], place: Callable[[str], int] | None) -> Row:
    kept = (
        "schema",
        "id",
        "kind",
        "scope",
        "severity",
        "evidence",
        "confidence",
        "at",
        "detected_at",
        "date",
    )
    group, shard = row["group"], row["shard"]
    confidences = [entry["confidence"] for entry in row["causes"]]
    return {
        **{name: row[name] for name in kept},
        "date_of_at": date_of(row["at"]),
        "strange_causes": _strange(row["causes"]),
        "least_confidence": min(confidences, default=0.0),
        "most_confidence": max(confidences, default=0.0),
        "strange_details": ", ".join(_details(row) - _known_details(row["kind"])),
        "phase_fits": bool(row["phase"]) == _has_phases(row["kind"], row["scope"]),
        "incident_fits": not row["phase"] or bool(row["incident"]),
        "shard": shard,
        "shard_of_group": place(group) if place and group is not None and shard is not None else shard,
    }


def _grown(rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Say for each row whether its generation is higher than the one before it of the same group."""
    order = sorted(range(len(rows)), key=lambda n: (rows[n]["at"], rows[n]["offset"] or 0))
    last: dict[tuple[str, str], int] = {}
    grown = [True] * len(rows)
    for number in order:
        row = rows[number]
        group, generation = (row["cluster"], row["group"]), row["generation"]
        if row["kind"] in _ENDS:
            last.pop(group, None)
        if row["kind"] != Kind.REBALANCE or generation is None:
            continue
        fresh = any(entry["cause"] in _FRESH for entry in row["causes"])
        grown[number] = fresh or generation > last.get(group, -1)
        last[group] = generation
    return grown


def _strange(causes: Iterable[Mapping[str, Any]] | None) -> str:
    return ", ".join(str(entry["cause"]) for entry in causes or () if entry["cause"] not in _CAUSES)


def _details(row: Mapping[str, Any]) -> set[str]:
    try:
        found = json.loads(row["details"])
    except (TypeError, ValueError):
        return {"(no JSON)"}
    return set(found) if isinstance(found, dict) else {"(no object)"}


def _known_details(kind: str) -> set[str]:
    return set(KINDS[Kind(kind)].details) if kind in set(Kind) else set()


def _has_phases(kind: str, scope: str) -> bool:
    rolled_up = scope == Scope.CLUSTER and kind in ROLLED_UP
    return kind in set(Kind) and (KINDS[Kind(kind)].phases or rolled_up)
