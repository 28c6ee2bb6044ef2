"""The shapes of a group's timeline: generations as columns, members as lanes (`shapes.py` has the others)."""

from typing import TypedDict

from rebalance_monitor.coordinator.findings.finding import CauseEntry


class Column(TypedDict):
    """One column of the timeline: a generation that completed, emptied or failed.

    waiting_peak: records that waited at most while it lasted and until the group had caught up; arrived: that
    came while partitions stood still; caught_up_ms: how long the group took to catch up afterwards;
    partition_seconds: partitions that stood still times how long, at most; cost_of: how many rebalances these
    are, of which this is the first. None where they are not known.
    """

    id: str
    kind: str
    severity: str
    generation: int | None
    at: int
    started_at_min: int | None
    started_at_max: int | None
    join_ms_min: int | None
    join_ms_max: int | None
    sync_ms: int | None
    stopped_ms_min: int | None
    stopped_ms_max: int | None
    waiting_peak: int | None
    partition_seconds: float | None
    arrived: int | None
    caught_up_ms: int | None
    cost_of: int | None
    protocol: str
    members: int | None
    joined: int
    left: int
    replaced: int
    evidence: str
    confidence: float
    history: bool
    causes: list[CauseEntry]


class Cell(TypedDict):
    """A lane in a column. mark: joined, left, kept, replaced, or implied (present, but not named)."""

    column: int
    mark: str
    member_id: str
    partitions: int | None
    leader: bool


class Breach(TypedDict):
    """A timeout or silence of one lane. column: the generation it led to, or stands before."""

    column: int
    kind: str
    phase: str | None
    at: int
    confidence: float
    why: str
    id: str


class Lane(TypedDict):
    """One member over time, as a person would follow it: by instance id, else by client and host."""

    key: str
    label: str
    client_id: str
    host: str
    instance_id: str | None
    present: bool
    cells: list[Cell]
    breaches: list[Breach]


class Timeline(TypedDict):
    """Generations as columns (oldest first), members as lanes. lanes_total: before the limit."""

    columns: list[Column]
    lanes: list[Lane]
    lanes_total: int
