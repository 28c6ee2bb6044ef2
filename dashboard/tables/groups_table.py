"""The groups table: the state of every group now, one Parquet file that is replaced as a whole.

For queries it has typed columns; for the monitor's own next start it also keeps each whole summary, the
newest finding of every open incident, which is where pages begin after a restart.
Findings published after the file was written are taken from the findings table by `restored`.
Refuses a file of another schema version: it is written anew within seconds.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.checkpoints.storage.sealed import parsed
from rebalance_monitor.coordinator.findings.bodies import body_of
from rebalance_monitor.coordinator.findings.finding import from_json, to_json
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.committing import Committing
from rebalance_monitor.dashboard.tables.parquet import parquet_bytes, parquet_file
from rebalance_monitor.dashboard.view.group_view import GroupView
from rebalance_monitor.dashboard.view.incidents import Incident, Incidents
from rebalance_monitor.dashboard.view.snapshot import Known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.findings.finding import Finding

SCHEMA = 1
FILE = "groups.parquet"
ROWS_OF_GROUP = 100_000
"""Rows side by side in the file: it is read and written as a whole, and each further row group costs time."""

SLACK_MS = 60_000
"""Findings are stamped before their batch is committed, and published by then."""
_META = b"rebalance_monitor"
_TEXT, _INT, _LONG, _REAL, _FLAG = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()
_MEMBER = pa.struct(
    {
        "member_id": _TEXT,
        "client_id": _TEXT,
        "host": _TEXT,
        "instance_id": _TEXT,
        "family": _TEXT,
        "partitions": _INT,
        "session_timeout_ms": _INT,
        "rebalance_timeout_ms": _INT,
        "last_commit": _LONG,
        "cadence_ms": _LONG,
        "deadline": _LONG,
        "silent": _FLAG,
    }
)
_CAUSE = pa.struct({"cause": _TEXT, "confidence": _REAL})
_INCIDENT = pa.struct({"incident": _TEXT, "kind": _TEXT, "severity": _TEXT, "opened_at": _LONG})
GROUPS_SCHEMA = pa.schema(
    {
        "schema": _INT,
        "cluster": _TEXT,
        "snapshot_at": _LONG,
        "group": _TEXT,
        "group_type": _TEXT,
        "state": _TEXT,
        "generation": _INT,
        "leader": _TEXT,
        "protocol": _TEXT,
        "protocol_type": _TEXT,
        "at": _LONG,
        "topics": pa.list_(_TEXT),
        "members": _INT,
        "member_list": pa.list_(_MEMBER),
        "last_rebalance": _LONG,
        "last_causes": pa.list_(_CAUSE),
        "storm": _FLAG,
        "last_commit": _LONG,
        "incidents": pa.list_(_INCIDENT),
        "summary": _TEXT,
    }
)
# What depends on the group's summary alone.
ROWS_SCHEMA = pa.schema(
    [field for field in GROUPS_SCHEMA if field.name not in {"schema", "cluster", "snapshot_at", "incidents"}]
)


class GroupsTable:
    """The table in `folder`. Rows of groups that did not change are kept as they were made, not made again.

    Not for several threads at once.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._summaries: dict[str, Mapping[str, Any]] = {}
        self._rows = ROWS_SCHEMA.empty_table()

    def write(self, known: Known, at: int) -> None:
        """Replace the file by what is known at `at` (ms, driver's clock). Raises OSError."""
        make_folder(self._folder)
        self._take(known.groups)
        meta = {"schema": SCHEMA, "at": at, "open": [_kept(one) for one in known.incidents.open.values()]}
        count, groups = len(self._rows), self._rows["group"].to_pylist()
        newest = [-1 if (last := known.committing.get(group)) is None else last.at for group in groups]
        columns = {name: self._rows[name] for name in ROWS_SCHEMA.names} | {
            # Newer than the summary: a group that goes on committing is not summarised for that.
            "last_commit": pc.max_element_wise(self._rows["last_commit"], pa.array(newest, _LONG)),
            "schema": pa.repeat(pa.scalar(SCHEMA, _INT), count),
            "cluster": pa.repeat(pa.scalar(known.cluster, _TEXT), count),
            "snapshot_at": pa.repeat(pa.scalar(at, _LONG), count),
            "incidents": _incidents(groups, known.incidents.open.values()),
        }
        schema = GROUPS_SCHEMA.with_metadata({_META: json.dumps(meta).encode()})
        table = pa.table([columns[name] for name in schema.names], schema=schema)
        replace_file(self._folder / FILE, parquet_bytes(table, ROWS_OF_GROUP))

    def _take(self, groups: Mapping[str, GroupView]) -> None:
        """Make the rows of groups that are new or have another summary; drop the rows of removed groups."""
        seen = self._summaries
        changed = [view for name, view in groups.items() if seen.get(name) is not view.summary]
        stale = [view.name for view in changed] + [name for name in seen if name not in groups]
        if stale:
            stays = ~pc.is_in(self._rows["group"], pa.array(stale, _TEXT)).to_numpy()
            fresh = pa.Table.from_pylist([_row(view) for view in changed], schema=ROWS_SCHEMA)
            both = pa.concat_tables([self._rows, fresh]).combine_chunks()
            places = np.concatenate([np.flatnonzero(stays), np.arange(len(stays), len(both))])
            order = pc.sort_indices(both["group"].take(places)).to_numpy()
            self._rows = both.take(places[order])
            self._summaries = {name: view.summary for name, view in groups.items()}


def read_groups(folder: Place) -> Known:
    """Return what the table says; an empty `Known` where there is none, or one of another version."""
    path = folder / FILE
    if not path.exists():
        return Known()
    file = parquet_file(path)
    meta = parsed((file.schema_arrow.metadata or {}).get(_META, b"{}"))
    if meta.get("schema") != SCHEMA:
        return Known()
    rows = file.read(columns=["group", "summary", "last_commit"]).to_pylist()
    groups = {row["group"]: GroupView(row["group"], json.loads(row["summary"])) for row in rows}
    # A summary is of the group's last change, which may be weeks before its last commit.
    committing = {row["group"]: Committing(row["last_commit"]) for row in rows if row["last_commit"] >= 0}
    incidents = Incidents(open={one.id: one for one in map(_taken, meta["open"])})
    return Known(groups=groups, incidents=incidents, kept_at=int(meta.get("at", -1)), committing=committing)


def restored(known: Known, findings: Sequence[Finding]) -> Known:
    """Return `known` with the newest findings, oldest first: the ones it has and the ones published after it.

    A group that it does not have, and that has no finding since, had been removed by then. Findings that were
    counted already change nothing but the number of findings of an open incident.
    """
    since = known.kept_at - SLACK_MS
    groups, incidents = dict(known.groups), known.incidents
    others: list[Finding] = []
    gone: dict[str, int] = {}
    for finding in findings:
        incidents = incidents.after([finding])
        if finding.group is None:
            others.append(finding)
        elif finding.kind is Kind.GROUP_REMOVED:
            groups.pop(finding.group, None)
            gone[finding.group] = finding.at
            incidents = incidents.without([finding.group])
        elif finding.at > gone.get(finding.group, -1) and (
            finding.group in groups or finding.detected_at > since
        ):
            # A finding published together with the removal does not bring the group back.
            view = groups.get(finding.group, GroupView(finding.group))
            groups[finding.group] = view.with_finding(finding, known.version)
    return replace(
        known,
        groups=groups,
        incidents=incidents,
        others=tuple(others[-GroupView.KEPT :]),
        findings_held=len(findings),
        committing={name: newest for name, newest in known.committing.items() if name in groups},
    )


def _row(view: GroupView) -> dict[str, Any]:
    summary = dict(view.summary)
    return {
        **{name: summary.get(name) for name in ROWS_SCHEMA.names},
        "group": view.name,
        "summary": body_of(summary),
    }


def _incidents(groups: Iterable[str], still_open: Iterable[Incident]) -> pa.Array:
    by_group: dict[str, list[dict[str, Any]]] = {}
    for one in still_open:
        row = {
            "incident": one.id,
            "kind": one.kind.value,
            "severity": one.latest.severity.value,
            "opened_at": one.opened_at,
        }
        by_group.setdefault(one.group or "", []).append(row)
    return pa.array([by_group.get(group, ()) for group in groups], pa.list_(_INCIDENT))


def _kept(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id,
        "opened_at": incident.opened_at,
        "findings": incident.findings,
        "latest": to_json(incident.latest),
    }


def _taken(kept: dict[str, Any]) -> Incident:
    latest = from_json(kept["latest"])
    return Incident(kept["id"], latest.kind, latest.group, kept["opened_at"], latest, kept["findings"])
