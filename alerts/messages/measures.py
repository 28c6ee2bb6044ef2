"""The rows of numbers in a message, from the finding's fields and its kind's details.

What a kind's details add is one table of row templates. A row is left out where a detail is missing, a
duration is not positive, or its first number counts nothing. Values are put in as words and never read as
templates.
"""

from __future__ import annotations

from itertools import islice
from string import Formatter
from typing import TYPE_CHECKING, TypeAlias

from rebalance_monitor.alerts.messages import text
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from rebalance_monitor.alerts.incidents.tally import Tally
    from rebalance_monitor.coordinator.findings.finding import Details, Finding

Row = tuple[str, str]
Rows: TypeAlias = tuple[Row, ...]

_LOST: Rows = (
    ("Silence", "{silence_ms} (session timeout {session_timeout_ms})"),
    ("Commits", "every {cadence_ms}"),
)
_COST: Rows = (
    ("Waiting", "{waiting_peak:record} at the peak, {waiting_at_stop:record} when it stopped"),
    ("Caught up", "at {caught_up_at}"),
)
_LAG: Rows = (
    ("Waiting", "{waiting:record} in {partitions:partition}, the oldest for {age_ms}"),
    ("Worst", "{topic} partition {partition}, at offset {committed_offset} since {since}"),
    ("Members", "none since {empty_at}"),
)
_PROBED: Rows = (("Rebalancing", "for {duration_ms} ({sightings:probe sample})"),)
DETAIL_ROWS: dict[Kind, Rows] = {
    Kind.REBALANCE: _COST,
    Kind.REBALANCE_COST: (
        ("Arrived", "{arrived:record} while consumption stood still"),
        *_COST,
        ("Caught up", "{caught_up_ms} after the rebalance"),
        ("Rebalances", "{rebalances}"),
    ),
    Kind.REBALANCE_FAILED: (("Failed", "{failed:generation} without an assignment"),),
    Kind.REBALANCE_IN_PROGRESS: _PROBED,
    Kind.REBALANCE_STUCK: (
        ("Waits for", "{waits_for}"),
        ("Waits for", "one of {waits_for_one_of}"),
        *_PROBED,
        ("Threshold", "{threshold_ms}"),
        ("Ends", "at {ends_at} at the latest"),
        ("Removed", "{removed:member} at the rebalance timeout"),
        *_COST,
    ),
    Kind.SESSION_TIMEOUT: (*_LOST, *_COST),
    Kind.POLL_INTERVAL_EXCEEDED: (
        ("Silence", "{silence_ms} (rebalance timeout {rebalance_timeout_ms})"),
        *_COST,
    ),
    Kind.MEMBER_SILENT: (("Silence", "{silence_ms}, past its {deadline} deadline"),),
    Kind.STORM: (
        ("Rebalances", "{count} in {window_ms}"),
        ("Threshold", "{threshold:rebalance} in {window_ms}"),
        ("Failed", "{failed}"),
        ("Since it began", "{total}"),
        ("Most frequent", "{worst_client}, in {worst_share} of the rebalances"),
        *_COST,
    ),
    Kind.ROLLING_RESTART: (("Restarted", "{restarted:member} in {window_ms}"), *_COST),
    Kind.STATIC_MEMBER_REPLACED: (
        ("Instance", "{instance_id}"),
        ("Returned", "{times:time} in {window_ms}"),
    ),
    Kind.GROUP_MIGRATED: (("Protocol", "from {from} to {to}"),),
    Kind.GROUP_REMOVED: (("Was empty for", "{empty_ms}"),),
    Kind.BROKER_AWAY: (
        ("Broker", "{broker}, no response for {silent_ms}"),
        ("Not recovered", "{not_back:group}, {missing} first"),
        *_COST,
    ),
    Kind.COORDINATOR_MOVED: (
        ("Before", "broker {previous_broker}, epoch {previous_epoch}"),
        ("Partitions", "{partitions}"),
        *_COST,
    ),
    Kind.GROUP_EMPTY: (
        ("Last member", "{ended_by}"),
        ("Was empty for", "{empty_ms}"),
        ("Unusual", "empty for more than {unusual_after_ms}"),
        *_COST,
    ),
    Kind.OFFSETS_EXPIRING: (("Topic", "{topic}"), ("Offsets expire", "{expires_at}")),
    Kind.SLOW_SYNC: (("Threshold", "{threshold_ms}"),),
    Kind.ASSIGNMENT_SKEWED: (
        ("Partitions", "{most} at the busiest member, {least} at the least busy one"),
        ("Idle", "{idle:member} without partitions"),
    ),
    Kind.PARTITIONS_UNASSIGNED: (
        ("Not read", "{unread:partition} assigned to members that do not subscribe to the topic"),
        ("Read twice", "{twice:partition} owned by two members"),
        ("Topics without an owner", "{unowned_topics}"),
        ("Topics with new partitions without an owner", "{grown_topics}"),
        ("Arrived there, not read", "{arrived:record}"),
        ("Applications under this group id", "{applications}"),
    ),
    Kind.GROUP_TOO_LARGE: (("Record", "{bytes:byte}, limit {limit}"),),
    Kind.CONSUMPTION_STALLED: _LAG,
    Kind.CONSUMPTION_STOPPED: _LAG,
    Kind.FALLING_BEHIND: _LAG,
    Kind.OFFSETS_REWOUND: (
        ("Read again", "{records:record} in {partitions:partition}"),
        ("Furthest", "{topic} partition {partition}, from offset {from_offset} to {to_offset}"),
    ),
    Kind.RECORDS_LOST: (
        ("Lost", "{records:record} in {partitions:partition}"),
        (
            "Most",
            "{topic} partition {partition}: committed {committed_offset}, topic begins at {earliest_offset}",
        ),
        ("Most", "{topic} partition {partition}: committed {committed_offset}, log cut to {cut_to}"),
    ),
    Kind.RECORDS_EXPIRING: (
        ("Time left", "{left_ms} at the present rate"),
        (
            "First",
            "{topic} partition {partition}: committed {committed_offset}, topic begins at {earliest_offset}",
        ),
    ),
    Kind.UNREADABLE_RECORDS: (
        ("Unreadable", "{count:record} in {window_ms}: {reason}"),
        ("For example", "partition and offset {sample}"),
    ),
    Kind.MONITOR_DEGRADED: (
        ("Behind", "{lag_ms}"),
        ("Records", "{records}"),
        ("Groups seen", "{seen} of {expected}"),
    ),
}
"""kind -> (label, template over the kind's details), the most important rows first.

A field is `{key}`, or `{key:noun}` for a number with its noun, which takes an s except for one.
"""

_SAMPLED_STORM: Rows = (
    ("Rebalancing", "in {count:probe sample} of the last {window_ms}"),
    ("Most frequent", "{worst_client}, in {worst_share} of the rebalances"),
)
"""The rows of a storm that the probe saw."""

_COUNTS = frozenset({"count", "failed", "total"})
_SAID = {"leave": "left cleanly", "session": "removed after its session timeout", "unknown": "unknown"}
_PAST = {"Waits for": "Waited for"}
_WHERE_IT_MATTERS = {Kind.COORDINATOR_MOVED, Kind.BROKER_AWAY}


def key_rows(finding: Finding) -> list[Row]:
    """Return the rows of the kind's details, after the coordinator where that is what it is about."""
    sampled = finding.details.get("rule") == "sightings"
    rows = _SAMPLED_STORM if sampled else DETAIL_ROWS.get(finding.kind, ())
    filled = [("Coordinator", _coordinator(finding))]
    filled += [(label, _filled(template, finding.details)) for label, template in rows]
    return [(label, value) for label, value in filled if value]


def past(rows: list[Row]) -> list[Row]:
    """Return the rows of an incident that is over: what it waits for is what it waited for."""
    return [(_PAST.get(label, label), value) for label, value in rows if label != "Ends"]


def more_rows(finding: Finding) -> list[Row]:
    """Return the rows for an investigation."""
    rows = [
        ("Generation", _generation(finding)),
        ("Joining took", text.bounds(finding.join_ms_min, finding.join_ms_max)),
        ("Sync took", None if finding.sync_ms is None else text.duration(finding.sync_ms)),
    ]
    return [(label, value) for label, value in rows if value]


def closing(tally: Tally) -> list[Row]:
    """Return the rows that sum up an incident that is over."""
    rows = []
    if tally.rebalances or tally.failed:
        failed = f", {tally.failed:,} failed" if tally.failed else ""
        rows.append(("Rebalances", f"{tally.rebalances:,} completed{failed}"))
    if tally.stopped_ms:
        rows.append(("Total stop time", f"at most {text.duration(tally.stopped_ms)}"))
    if tally.worst is not None:
        name, times = tally.worst
        total = text.count(tally.rebalances + tally.failed, "rebalance")
        rows.append(("Worst offender", f"{text.name(name)}, in {times:,} of {total}"))
    return rows


def keys_of(template: str) -> tuple[str, ...]:
    """Return the details that a row's template names."""
    return tuple(key for _, key, _, _ in Formatter().parse(template) if key)


def _filled(template: str, details: Details) -> str | None:
    keys = keys_of(template)
    if any(details.get(key) in (None, "") or _is_no_time(key, details[key]) for key in keys):
        return None
    if _counts_none(template, details):
        return None
    parts = Formatter().parse(template)
    return "".join(
        before + (_worded(key, details[key], noun or "") if key else "") for before, key, noun, _ in parts
    )


def _counts_none(template: str, details: Details) -> bool:
    """Whether the first field is a count, and zero."""
    first = islice(Formatter().parse(template), 1)
    return any(key and (noun or key in _COUNTS) and details[key] == 0 for _, key, noun, _ in first)


def _is_no_time(key: str, value: str | float) -> bool:
    return key.endswith("_ms") and isinstance(value, int | float) and value <= 0


def _worded(key: str, value: str | float, noun: str) -> str:
    if isinstance(value, str):
        return _SAID.get(value, value) if key == "ended_by" else text.name(value)
    if noun:
        return text.count(int(value), noun)
    if key.endswith("_share"):
        return f"{value:.0%}"
    if key.endswith("_ms"):
        return text.duration(int(value))
    return text.moment(int(value)) if key.endswith("_at") or key == "since" else f"{value:,}"


def _generation(finding: Finding) -> str | None:
    if finding.generation is None:
        return None
    before = finding.previous_generation
    return f"{finding.generation}" if before is None else f"{before} → {finding.generation}"


def _coordinator(finding: Finding) -> str | None:
    if finding.coordinator is None or finding.kind not in _WHERE_IT_MATTERS:
        return None
    return f"broker {finding.coordinator.broker}, epoch {finding.coordinator.leader_epoch}"
