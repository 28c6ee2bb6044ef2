"""The shapes of every answer of the API; `openapi.py` derives their JSON schemas from them.

Times are ms since epoch, durations ms; None where something is not known or does not apply. Findings have the
fields of docs/findings.md.
"""

from typing import TypedDict

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.dashboard.web.views.timeline_shapes import Timeline

Json = str | int | float | bool | None


class GroupRow(TypedDict):
    """One group in a list.

    trouble: kind of the worst open incident or recent breach, "" without. since: when that began.
    rebalances: in the last hour. bars: the same hour in twelve pieces, oldest first. lag: records that wait,
    lag_age_ms: age of the oldest of them; None where they are not known. lag_unknown: partitions with a
    committed offset whose lag is not known. lag_offsets: where the committed offsets come from, `topic` or
    `brokers` (OffsetFetch, of a group that commits by transactions), "" without lag. lag_ends: where the
    ends come from, `brokers` or `interpolated` to the time of the offsets; lag_age_ms is always so. type:
    `commits` for a group without a record of its own, whose consumers assign themselves partitions;
    generation: None for it. commits_per_minute: offsets committed a minute until the last commit, None
    before that is known. lag_line: lag of the last ten minutes, oldest first. team: "" for a group of none.
    topics: the first five that it subscribes to or has committed to.
    """

    group: str
    team: str
    type: str
    state: str
    generation: int | None
    protocol: str
    members: int
    trouble: str
    severity: str
    incident: str | None
    incidents: int
    since: int | None
    rebalances: int
    bars: list[int]
    last_rebalance: int | None
    last_cause: str
    last_confidence: float
    at: int
    lag: int | None
    lag_age_ms: int | None
    lag_unknown: int
    lag_offsets: str
    lag_ends: str
    lag_line: list[int]
    topics: list[str]
    last_commit: int | None
    commits_per_minute: float | None


class GroupsPage(TypedDict):
    """A page of groups. total: all groups, matched: the groups that the filters leave."""

    version: int
    now: int
    total: int
    matched: int
    offset: int
    rows: list[GroupRow]


class EventRow(TypedDict):
    """One event: findings that belong together, named by the weightiest.

    at: of the newest, since: of the first. count: events in a burst that are alike, else 1; is_cut: there
    may be more of them. groups, groups_total: those of a burst, or of a finding about many. phase: of its
    incident, None without. cause, confidence: the likeliest cause's. clients: named by its departures.
    with_kinds: of its other findings. broker: where all its coordinators moved. waiting: records that waited
    at most. findings: their ids, oldest first.
    """

    id: str
    at: int
    since: int
    kind: str
    severity: str
    phase: str | None
    count: int
    is_cut: bool
    group: str | None
    groups: list[str]
    groups_total: int
    generation: int | None
    cause: str
    confidence: float
    clients: list[str]
    with_kinds: list[str]
    incident: str | None
    broker: int | None
    waiting: int
    findings: list[str]


class WorstOffender(TypedDict):
    """The client behind a third of a storm's rebalances or more. host: "" where it has several."""

    client_id: str
    host: str
    share: float


class IncidentRow(TypedDict):
    """One incident: phases of one storm, one stuck rebalance, one silence… closed_at: None while open.

    worst: None where no client is behind a third of a storm, and of other kinds.
    """

    id: str
    kind: str
    severity: str
    scope: str
    group: str | None
    groups: list[str]
    groups_total: int
    opened_at: int
    closed_at: int | None
    resolution: str | None
    evidence: str
    confidence: float
    what: str
    cause: str
    why: str
    findings: int
    worst: WorstOffender | None
    details: dict[str, str | int | float]


class IncidentsPage(TypedDict):
    """Incidents: open ones first, the worst on top; then closed ones, the newest first."""

    version: int
    now: int
    open: int
    rows: list[IncidentRow]


class Offender(TypedDict):
    """A client that an incident's findings name: in so many `findings`, `of` those that name anybody.

    role: the weightiest of `waited_for`, `worst` (of a storm), `silent`, `left`, `named` (by a cause),
    `replaced`, `joined`.
    """

    client_id: str
    host: str
    role: str
    findings: int
    of: int


class IncidentDetail(TypedDict):
    """One incident with its own findings and what else happened to its group meanwhile, oldest first.

    ended_by: the generation that ended it, None while it is open or where none is known. events: `around`,
    one row for each event, newest first.
    """

    now: int
    live: bool
    incident: IncidentRow
    findings: list[Finding]
    around: list[Finding]
    events: list[EventRow]
    ended_by: Finding | None
    offenders: list[Offender]


class MonitorHealth(TypedDict):
    """The monitor itself. behind_ms: age of the newest batch; lag_records: not yet read.

    as_of: until this process has caught up, when (ms) an earlier one kept what is shown, if one did.
    """

    ready: bool
    started: int
    last_batch: int
    batch: int
    rows: int
    state_bytes: int
    groups: int
    shards: int
    catching_up: int
    history_at: int
    lag_records: int
    behind_ms: int | None
    as_of: int | None


class Count(TypedDict):
    """How often something was counted."""

    name: str
    count: int


class Overview(TypedDict):
    """The cluster at a glance. minutes: rebalances of the last hour by minute, oldest first.

    groups: all of them; with_members, commits_only: the groups with members, and the groups without a record
    of their own. causes: of the last hour, by likeliest cause. offenders: groups that rebalanced most in it.
    """

    cluster: str
    version: int
    now: int
    live: bool
    groups: int
    with_members: int
    commits_only: int
    troubled: int
    states: list[Count]
    types: list[Count]
    troubles: list[Count]
    minutes: list[int]
    causes: list[Count]
    offenders: list[GroupRow]
    incidents: list[IncidentRow]
    incidents_open: int
    latest: list[EventRow]
    health: MonitorHealth


class Member(TypedDict):
    """One member now. assigned: topic -> partitions like `0-3,7`.

    deadline: when its silence will have lasted too long, None while it shows life.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    family: str
    partitions: int
    assigned: dict[str, str]
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    last_commit: int | None
    deadline: int | None
    is_leader: bool
    is_silent: bool


class Spread(TypedDict):
    """How partitions are spread over the members."""

    most: int
    least: int
    idle: int
    partitions: int


class Deadline(TypedDict):
    """A deadline ahead of the group that needs no action to pass. what: session, offsets."""

    what: str
    at: int
    who: str


class PartitionLagRow(TypedDict):
    """One partition; lag and age_ms None where they are not known, end -1.

    lag_stable: of these the records before the first open transaction.
    """

    partition: int
    committed_offset: int
    committed_at: int
    end: int
    lag: int | None
    lag_stable: int | None
    age_ms: int | None


class TopicLagRow(TypedDict):
    """A group's lag on one topic. unknown: partitions whose lag is not known. listed: those with most lag."""

    topic: str
    lag: int | None
    age_ms: int | None
    unknown: int
    partitions: int
    listed: list[PartitionLagRow]


class GroupDetail(TypedDict):
    """Everything about one group. as_of: the moment asked for, None for now. lag_topics: listed or not.

    events: `findings`, one row for each event, newest first. lag_track: times (ms) and records that waited,
    oldest first.
    """

    version: int
    now: int
    live: bool
    as_of: int | None
    row: GroupRow
    protocol_type: str
    leader: str
    topics: list[str]
    members: list[Member]
    spread: Spread
    deadlines: list[Deadline]
    timeline: Timeline
    incidents: list[IncidentRow]
    findings: list[Finding]
    events: list[EventRow]
    lag_track: list[list[int]]
    lag_at: int | None
    lag: list[TopicLagRow]
    lag_topics: int


class FindingsPage(TypedDict):
    """Findings of the retained history, newest first. next: pass as `before` to go on, None at the end."""

    now: int
    source: str
    rows: list[Finding]
    next: str | None


class HistoryPage(TypedDict):
    """Events of the retained history, newest first. findings: theirs. next: as of `FindingsPage`.

    An event whose findings lie on two pages is on both: a reader of both leaves out the ids that it has.
    """

    now: int
    source: str
    rows: list[EventRow]
    findings: list[Finding]
    next: str | None


class Problem(TypedDict):
    """Why there is no answer."""

    error: str
