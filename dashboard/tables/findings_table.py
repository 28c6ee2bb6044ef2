"""The findings table: every finding with its own fields (docs/findings.md), partitioned by the date of `at`.

Columns stand in the order of the finding's fields; times are ms since epoch, `details` is a JSON string.
Batches are written once, see `table_files`.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rebalance_monitor.coordinator.findings.bodies import body_of
from rebalance_monitor.coordinator.findings.finding import FIELDS, Finding, from_dict, to_dict
from rebalance_monitor.dashboard.tables.files import file_name, files, read_again, write_rows
from rebalance_monitor.dashboard.tables.parquet import parquet_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.checkpoints.storage.places import Place

_TEXT, _INT, _LONG, _REAL, _FLAG = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()

_CAUSE = pa.struct(
    {
        "cause": _TEXT,
        "confidence": _REAL,
        "why": _TEXT,
        "member_id": _TEXT,
        "client_id": _TEXT,
        "host": _TEXT,
        "instance_id": _TEXT,
    }
)
_MEMBER = pa.struct(
    {
        "member_id": _TEXT,
        "instance_id": _TEXT,
        "client_id": _TEXT,
        "host": _TEXT,
        "host_is_stale": _FLAG,
        "role": _TEXT,
        "session_timeout_ms": _INT,
        "rebalance_timeout_ms": _INT,
        "last_seen": _LONG,
        "silence_ms": _LONG,
        "partitions": _INT,
    }
)
_COORDINATOR = pa.struct({"broker": _INT, "leader_epoch": _INT})

# Every field that is not text.
_TYPES: dict[str, pa.DataType] = {
    "schema": _INT,
    "confidence": _REAL,
    "history": _FLAG,
    "late": _FLAG,
    "groups": pa.list_(_TEXT),
    "groups_total": _INT,
    "shard": _INT,
    "offset": _LONG,
    "generation": _INT,
    "previous_generation": _INT,
    "coordinator": _COORDINATOR,
    "topics": pa.list_(_TEXT),
    "topics_total": _INT,
    "at": _LONG,
    "detected_at": _LONG,
    "started_at_min": _LONG,
    "started_at_max": _LONG,
    "join_ms_min": _LONG,
    "join_ms_max": _LONG,
    "sync_ms": _LONG,
    "stopped_ms_min": _LONG,
    "stopped_ms_max": _LONG,
    "members_total": _INT,
    "members_affected": _INT,
    "partitions_affected": _INT,
    "causes": pa.list_(_CAUSE),
    "members": pa.list_(_MEMBER),
    "opened_at": _LONG,
}

FINDINGS_SCHEMA = pa.schema([(name, _TYPES.get(name, _TEXT)) for name in FIELDS])


def finding_row(finding: Finding) -> dict[str, Any]:
    """Return the row of one finding."""
    row = to_dict(finding)
    row["details"] = body_of(finding.details)
    return row


def write_findings(folder: Place, findings: Iterable[Finding], query_id: str, batch_id: int) -> list[Place]:
    """Write a batch's findings below `folder`; nothing for none. Returns the files; raises OSError."""
    rows = ((finding.at, finding_row(finding)) for finding in findings)
    return write_rows(folder, FINDINGS_SCHEMA, rows, file_name(query_id, batch_id))


def read_newest(folder: Place, limit: int, since: float = 0.0) -> list[Finding]:
    """Return the newest findings of the table, oldest first: `limit`, and all of files written after `since`.

    `since` in seconds since epoch. Whole files are read, so there may be some more. Raises OSError.
    """
    found = [finding_of(row) for row in newest_rows(folder, limit, since)]
    return sorted(found, key=lambda finding: (finding.detected_at, finding.at))


def newest_rows(folder: Place, limit: int, since: float = 0.0) -> list[dict[str, Any]]:
    """Return rows as they stand in the table, with the `date` of their folder, the newest file's last.

    Otherwise as `read_newest`.
    """
    return read_again(partial(_newest_rows, folder, limit, since))


def _newest_rows(folder: Place, limit: int, since: float) -> list[dict[str, Any]]:
    found: list[list[dict[str, Any]]] = []
    for path in sorted(files(folder), key=lambda path: path.stat().st_mtime_ns, reverse=True):
        if sum(map(len, found)) >= limit and path.stat().st_mtime <= since:
            break
        date = path.parent.name.removeprefix("date=")
        found.append([{**row, "date": date} for row in parquet_file(path).read().to_pylist()])
    return [row for rows in reversed(found) for row in rows]


def finding_of(row: dict[str, Any]) -> Finding:
    """Return the finding of one row of the table."""
    return from_dict({**{name: row[name] for name in FIELDS}, "details": json.loads(row["details"])})
