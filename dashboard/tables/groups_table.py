"""The groups table: the state of every group now, one Parquet file that is replaced as a whole.

For queries it has typed columns; for the monitor's own next start it also keeps each whole summary, the
newest finding of every open incident, which is where pages begin after a restart.
Findings published after the file was written are taken from the findings table by `restored`.
Refuses a file of another schema version: it is written anew within seconds.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.checkpoints.storage.sealed import parsed
from rebalance_monitor.coordinator.findings.bodies import body_of
from rebalance_monitor.coordinator.findings.finding import from_json, to_json
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.committing import Committing
from rebalance_monitor.dashboard.tables.parquet import parquet_file, parquet_writer
from rebalance_monitor.dashboard.view.group_view import GroupView
from rebalance_monitor.dashboard.view.incidents import Incident, Incidents
from rebalance_monitor.dashboard.view.snapshot import Known

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rebalance_monitor.checkpoints.storage.places import Place
    from rebalance_monitor.coordinator.findings.finding import Finding

SCHEMA = 1
FILE = "groups.parquet"
ROWS_OF_BLOCK = 1_000
"""Groups that are written together, up to twice as many: some megabytes of memory."""

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


class _Block(NamedTuple):
    """Rows of groups whose names follow each other: the first name, how many, and their compressed bytes."""

    first: str
    rows: int
    content: bytes


class GroupsTable:
    """The table in `folder`. Rows of groups that did not change are kept as they were made, not made again.

    They are kept compressed, in blocks of groups by their names, and written block by block: 10,000 groups
    would be 20 MB, and as much again, or twice that, while they are written. Not for several threads at once.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._summaries: dict[str, Mapping[str, Any]] = {}
        self._blocks: list[_Block] = []

    def write(self, known: Known, at: int) -> None:
        """Replace the file by what is known at `at` (ms, driver's clock). Raises OSError."""
        make_folder(self._folder)
        meta = {"schema": SCHEMA, "at": at, "open": [_kept(one) for one in known.incidents.open.values()]}
        schema = GROUPS_SCHEMA.with_metadata({_META: json.dumps(meta).encode()})
        still_open = _incidents(known.incidents.open.values())
        sink, blocks = pa.BufferOutputStream(), []
        with parquet_writer(sink, schema, len(known.groups)) as writer:
            for rows, block in self._brought_up(known.groups):
                writer.write_table(_columns(rows, known, at, still_open))
                blocks.append(block)
        self._blocks = blocks
        self._summaries = {name: view.summary for name, view in known.groups.items()}
        replace_file(self._folder / FILE, sink.getvalue().to_pybytes())

    def _brought_up(self, groups: Mapping[str, GroupView]) -> Iterator[tuple[pa.Table, _Block]]:
        """Yield the rows of all groups, and as what they are kept, block by block."""
        names = sorted(groups)
        blocks = self._blocks or [_Block("", 0, _packed(ROWS_SCHEMA.empty_table()))]
        borders = [0, *(bisect_left(names, block.first) for block in blocks[1:]), len(names)]
        for block, (since, until) in zip(blocks, pairwise(borders), strict=True):
            each = ROWS_OF_BLOCK if until - since > 2 * ROWS_OF_BLOCK else max(until - since, 1)
            for start in range(since, until, each):
                yield self._one(block, [groups[name] for name in names[start : min(start + each, until)]])

    def _one(self, block: _Block, views: Sequence[GroupView]) -> tuple[pa.Table, _Block]:
        """Return the rows of these groups; made anew are those of groups that have another summary."""
        rows, seen = _unpacked(block.content), self._summaries
        changed = [view for view in views if seen.get(view.name) is not view.summary]
        if not changed and len(views) == block.rows:
            return rows, block
        stays = [view.name for view in views if seen.get(view.name) is view.summary]
        kept = rows.filter(pc.is_in(rows["group"], pa.array(stays, _TEXT)))
        fresh = pa.Table.from_pylist(list(map(_row, changed)), schema=ROWS_SCHEMA)
        both = pa.concat_tables([kept, fresh]).combine_chunks()
        rows = both.take(pc.sort_indices(both["group"]))
        return rows, _Block(views[0].name, len(rows), _packed(rows))


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


def _columns(
    rows: pa.Table, known: Known, at: int, still_open: Mapping[str, Sequence[Mapping[str, Any]]]
) -> pa.Table:
    """Return rows as the file has them."""
    groups = rows["group"].to_pylist()
    newest = [-1 if (last := known.committing.get(group)) is None else last.at for group in groups]
    columns = {name: rows[name] for name in ROWS_SCHEMA.names} | {
        # Newer than the summary: a group that goes on committing is not summarised for that.
        "last_commit": pc.max_element_wise(rows["last_commit"], pa.array(newest, _LONG)),
        "schema": pa.repeat(pa.scalar(SCHEMA, _INT), len(rows)),
        "cluster": pa.repeat(pa.scalar(known.cluster, _TEXT), len(rows)),
        "snapshot_at": pa.repeat(pa.scalar(at, _LONG), len(rows)),
        "incidents": pa.array([still_open.get(group, ()) for group in groups], pa.list_(_INCIDENT)),
    }
    return pa.table([columns[name] for name in GROUPS_SCHEMA.names], schema=GROUPS_SCHEMA)


def _packed(rows: pa.Table) -> bytes:
    """Return rows as compressed bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _unpacked(content: bytes) -> pa.Table:
    """Inverse of `_packed`."""
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


def _incidents(still_open: Iterable[Incident]) -> dict[str, list[dict[str, Any]]]:
    """Return the open incidents of each group as its row has them."""
    by_group: dict[str, list[dict[str, Any]]] = {}
    for one in still_open:
        row = {
            "incident": one.id,
            "kind": one.kind.value,
            "severity": one.latest.severity.value,
            "opened_at": one.opened_at,
        }
        by_group.setdefault(one.group or "", []).append(row)
    return by_group


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
