"""How bad it is: the rows of numbers in a message, from the finding's fields and its kind's details.

What a kind's details add is one table of row templates; a row whose details are missing, or a duration of no
time, is left out. The templates are ours; values are put in as words and never read as templates.
"""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.messages import text
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from rebalance_monitor.alerts.incidents.tally import Tally
    from rebalance_monitor.coordinator.findings.finding import Details, Finding

Row = tuple[str, str]

_LOST = (
    ("Silence", "{silence_ms} (session timeout {session_timeout_ms})"),
    ("Commits", "every {cadence_ms}"),
)
_COST = (
    ("Waiting", "{waiting_peak} records at the peak, {waiting_at_stop} when it stopped"),
    ("Caught up", "at {caught_up_at}"),
)
_LAG = (
    ("Waiting", "{waiting} records in {partitions} partition(s), the oldest for {age_ms}"),
    ("Worst", "{topic} partition {partition}, at offset {committed_offset} since {since}"),
)
DETAIL_ROWS: dict[Kind, tuple[tuple[str, str], ...]] = {
    Kind.REBALANCE: _COST,
    Kind.REBALANCE_FAILED: (("Generations lost", "{failed}, without an assignment"),),
    Kind.REBALANCE_IN_PROGRESS: (("Seen rebalancing", "for {duration_ms}; looks: {sightings}"),),
    Kind.REBALANCE_STUCK: (
        ("Seen rebalancing", "for {duration_ms}; looks: {sightings}"),
        ("Waits for", "{waits_for}"),
        ("Stuck from", "{threshold_ms} on"),
        *_COST,
    ),
    Kind.SESSION_TIMEOUT: _LOST,
    Kind.POLL_INTERVAL_EXCEEDED: (("Silence", "{silence_ms} (rebalance timeout {rebalance_timeout_ms})"),),
    Kind.MEMBER_SILENT: (("Silence", "{silence_ms}, past its {deadline} deadline"),),
    Kind.STORM: (
        ("In the window", "{count} {rule} in {window_ms}"),
        ("Of them", "{completed} completed, {failed} failed"),
        ("Storm from", "{threshold} on"),
        ("Since it began", "{total} generations"),
        ("Worst offender", "{worst_client}, in {worst_share} of them"),
        ("Its host", "{worst_host}"),
        *_COST,
    ),
    Kind.ROLLING_RESTART: (("Restarted", "{restarted} members in {window_ms}"),),
    Kind.STATIC_MEMBER_REPLACED: (
        ("Instance", "{instance_id}"),
        ("Times", "{times} in {window_ms}"),
    ),
    Kind.GROUP_MIGRATED: (("Protocol", "from {from} to {to}"),),
    Kind.GROUP_REMOVED: (("Was empty for", "{empty_ms}"),),
    Kind.BROKER_AWAY: (
        ("Broker", "{broker}, which answered nobody for {silent_ms}"),
        ("Not back", "{not_back} groups, {missing} first"),
    ),
    Kind.COORDINATOR_MOVED: (("Coordinator before", "broker {previous_broker}, epoch {previous_epoch}"),),
    Kind.GROUP_EMPTY: (("Last member went by", "{ended_by}"), ("Was empty for", "{empty_ms}"), *_COST),
    Kind.OFFSETS_EXPIRING: (("Topic", "{topic}"), ("Offsets expire", "{expires_at}")),
    Kind.SLOW_SYNC: (("Slow from", "{threshold_ms} on"),),
    Kind.ASSIGNMENT_SKEWED: (
        ("Partitions", "{most} at the busiest member, {least} at the idlest; {idle} members without any"),
    ),
    Kind.PARTITIONS_UNASSIGNED: (
        ("Partitions", "{unread} assigned to members that do not subscribe to them, {twice} owned twice"),
        ("Topics owned by nobody", "{unowned_topics}"),
        ("Applications under this group id", "{applications}"),
    ),
    Kind.GROUP_TOO_LARGE: (("Record", "{bytes} bytes of at most {limit}"),),
    Kind.CONSUMPTION_STALLED: _LAG,
    Kind.CONSUMPTION_STOPPED: _LAG,
    Kind.FALLING_BEHIND: _LAG,
    Kind.OFFSETS_REWOUND: (
        ("Read again", "{records} records of {partitions} partition(s)"),
        ("Furthest", "{topic} partition {partition}, from offset {from_offset} to {to_offset}"),
    ),
    Kind.RECORDS_LOST: (
        ("Lost", "{records} records of {partitions} partition(s)"),
        ("Most", "{topic} partition {partition}: committed {committed_offset}, begins at {earliest_offset}"),
    ),
    Kind.RECORDS_EXPIRING: (
        ("Left", "{left_ms} at the present rate"),
        ("Next", "{topic} partition {partition}: committed {committed_offset}, begins at {earliest_offset}"),
    ),
    Kind.UNREADABLE_RECORDS: (
        ("Unreadable", "{count} records in {window_ms}: {reason}"),
        ("For example", "partition and offset {sample}"),
    ),
    Kind.MONITOR_DEGRADED: (
        ("Degraded", "{cause}"),
        ("Behind", "{lag_ms}"),
        ("Records", "{records}"),
        ("Groups seen", "{seen} of {expected}"),
    ),
}
"""kind -> (label, template over the kind's details)."""


def measures(finding: Finding) -> list[Row]:
    """Return the rows that say how bad it is, the damage to consumption first."""
    rows = [
        ("Consumption stopped", text.bounds(finding.stopped_ms_min, finding.stopped_ms_max)),
        ("Members", _members(finding)),
        *_details(finding),
        ("Generation", _generation(finding)),
        ("Joining took", text.bounds(finding.join_ms_min, finding.join_ms_max)),
        ("Sync took", None if finding.sync_ms is None else text.duration(finding.sync_ms)),
        ("Shard", None if finding.shard is None or finding.group is not None else f"{finding.shard}"),
        ("Coordinator", _coordinator(finding)),
        ("Ended", finding.resolution),
    ]
    return [(label, value) for label, value in rows if value]


def closing(tally: Tally) -> list[Row]:
    """Return the rows that sum up an incident that is over."""
    rows = []
    if tally.rebalances or tally.failed:
        failed = f", {tally.failed:,} failed" if tally.failed else ""
        rows.append(("Rebalances meanwhile", f"{tally.rebalances:,} completed{failed}"))
    if tally.stopped_ms:
        rows.append(("Stood still in all", f"at most {text.duration(tally.stopped_ms)}"))
    if tally.offenders:
        name, times = tally.offenders[0]
        total = tally.rebalances + tally.failed
        rows.append(("Worst offender", f"{text.name(name)}, in {times:,} of {total:,} rebalances"))
    return rows


def _details(finding: Finding) -> list[tuple[str, str | None]]:
    rows = DETAIL_ROWS.get(finding.kind, ())
    return [(label, _filled(template, finding.details)) for label, template in rows]


def keys_of(template: str) -> tuple[str, ...]:
    """Return the details that a row's template names."""
    return tuple(key for _, key, _, _ in Formatter().parse(template) if key)


def _filled(template: str, details: Details) -> str | None:
    keys = keys_of(template)
    if any(details.get(key) in (None, "") or _is_no_time(key, details[key]) for key in keys):
        return None
    return template.format_map({key: _worded(key, details[key]) for key in keys})


def _is_no_time(key: str, value: str | float) -> bool:
    return value == 0 and key.endswith("_ms")


def _worded(key: str, value: str | float) -> str:
    if isinstance(value, str):
        return text.name(value.lstrip("/") if key.endswith("_host") else value)
    if key.endswith("_share"):
        return f"{value:.0%}"
    if key.endswith("_ms"):
        return text.duration(int(value))
    return text.moment(int(value)) if key.endswith("_at") else f"{value:,}"


def _generation(finding: Finding) -> str | None:
    if finding.generation is None:
        return None
    before = finding.previous_generation
    return f"{finding.generation}" if before is None else f"{before} → {finding.generation}"


def _members(finding: Finding) -> str | None:
    parts = []
    if finding.members_affected is not None:
        parts.append(f"{finding.members_affected:,} affected")
    if finding.members_total is not None:
        parts.append(f"{finding.members_total:,} in the group")
    if finding.partitions_affected:
        parts.append(text.count(finding.partitions_affected, "partition"))
    return ", ".join(parts) or None


def _coordinator(finding: Finding) -> str | None:
    if finding.coordinator is None:
        return None
    return f"broker {finding.coordinator.broker}, epoch {finding.coordinator.leader_epoch}"
