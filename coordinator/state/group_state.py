"""What the shadow coordinator remembers of a shard, a group and a member.

Theory of operation. A classic group writes one record per completed generation and one when it becomes
Empty; between two of them it says nothing but commits. So a group's state is its last record (members,
timeouts, assignment) plus, per member, a trace of life learned from commits on the partitions that the
record assigned to it. Everything is small: topics are interned per group, subscriptions shrink to a hash
and a version, the last committed offset of a partition is kept only to see whether it moved.

A group's own fields are its last record, its commits and its clock. Each further concern is a struct of its
own: rebalances before, what was learned, epochs, changes, subscriptions, emptiness, a rebalance that does not
end, checks, storms, positions. An incident is named by its id, "" while none is open.

Plain mutable records without behaviour. A group is read and written in every batch that touches it, as an
array of its fields, in C (`msgspec`, by `checkpoints/state/codec.py`). So a new field comes last in its
struct and has a default; any other change is a new codec version. Times are ms since epoch, -1 where
unknown.
"""

from __future__ import annotations

import msgspec

from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.coordinator.state.state_machine import Status

NEVER = 2**63 - 1
"""`next_wake` of a group without any deadline."""

OF_MEMBER = 0
"""`version` of a member that speaks the classic protocol: its session timeout is its own."""


class Member(msgspec.Struct, array_like=True, gc=False):
    """One member as the last record describes it, and its trace of life."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    host_stale: bool
    """The host is that of the process which had the instance id first: Kafka keeps it."""
    session_timeout: int
    rebalance_timeout: int
    family: str
    version: int
    """Version of its subscription, -1 unknown; in epoch-based groups `OF_MEMBER` for the classic protocol."""
    subscribed: str
    """Digest of its subscription."""
    joined_at: int
    assigned: list[list[int]] = msgspec.field(default_factory=list)
    """One list per topic: index into the group's topics, then partitions."""
    offsets: list[int] = msgspec.field(default_factory=list)
    """Last committed offset (-1 unknown) of each partition of `assigned`, in the same order."""
    last_commit: int = -1
    commits: int = 0
    idle: int = 0
    """Commits that moved no offset; -1 once it survived a silence that would have ended its session."""
    cadence: int = -1
    moved: bool = False
    """An offset advanced in the commit at `last_commit`."""
    fresh: bool = False
    """A partition was new to it in the commit at `last_commit`."""
    silent_id: str = ""
    silent_at: int = -1
    silent_count: int = 0
    epoch: int = -1
    epoch_state: int = 0
    acked_at: int = -1
    behind_at: int = -1
    """When the group's target epoch last passed the member's epoch."""
    gap: int = -1
    """Time (ms) between its last two commits."""
    gaps: list[int] = msgspec.field(default_factory=list)
    """Last times (ms) between commits of one generation, oldest first, at most `commits.KEPT_GAPS`."""
    orders: list[int] = msgspec.field(default_factory=list)
    """All these times by order of length: of each order the sum (ms), then how many (`commits/trace.py`)."""


class StormState(msgspec.Struct, array_like=True, gc=False):
    """Generations of the window that count towards a storm, and the open incident."""

    events: list[list[int | str]] = msgspec.field(default_factory=list)
    """[at, code, generations, offender, its member id, its instance id], oldest first; codes in `storm.py`.

    The last two only where a member is known.
    """
    incident: str = ""
    opened_at: int = -1
    last_at: int = -1
    total: int = 0
    sequence: int = 0
    restart_at: int = -1
    """Start of the last rolling restart that was reported."""
    announced: bool = False
    """The clock has resolved the incident; a late record may still belong to it."""
    restarting: int = -1
    """When the first member departed in the rolling restart that is under way."""
    restarted_at: int = -1
    """End of the last rolling restart that was reported."""
    restarts: int = 0
    """Rolling restarts in a row."""
    stopped_at: int = -1
    """When the group last became empty."""
    loops: int = 0
    """Times in a row that it became empty as soon as it had started."""
    expired: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Client and first host -> when its members lately expired.

    Where another process has the same client and host, the key also has the id of the first member that did.
    """
    size: int = -1
    """Members that the rolling restart under way has to restart."""
    takeovers: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Instance id -> when another process lately took its place."""
    blamed: list[list[str | float | None]] = msgspec.field(default_factory=list)
    """The fields of the likeliest causes of the newest counted rebalance that was more than a join."""


class Rebalances(msgspec.Struct, array_like=True, gc=False):
    """The rebalances before: what the next one is compared with, beside the last record."""

    at: int = -1
    """When the last one was written."""
    causes: list[list[str | float]] = msgspec.field(default_factory=list)
    """The likeliest causes of the last one, each with its confidence."""
    failed: list[int] = msgspec.field(default_factory=list)
    """When generations were lately used up without an assignment."""
    holes: int = 0
    """Generations by which it became Empty, without completing them, since it last had members."""
    migrated: int = -1
    """Members when it came from the other protocol, until that is reported."""
    expired: list[list[str | int | float]] = msgspec.field(default_factory=list)
    """Dynamic members that expired and have no successor yet, oldest first (`successors.py`)."""


class Learned(msgspec.Struct, array_like=True, gc=False):
    """What was learned of a group's clients and of the coordinator's timers."""

    idle_families: list[str] = msgspec.field(default_factory=list)
    """Client families that were seen to commit unchanged offsets."""
    beats: list[float] = msgspec.field(default_factory=list)
    """What its rebalances taught of its heartbeat interval."""
    ways: list[float] = msgspec.field(default_factory=list)
    """What its rebalances taught of how its members depart."""


class Epochs(msgspec.Struct, array_like=True, gc=False):
    """The epochs of a KIP-848, share or streams group; its own epoch is the group's `generation`."""

    target: int = -1
    """Epoch of the target assignment."""
    stable: int = -1
    """Newest epoch that every member has acknowledged."""
    bumped_at: int = -1
    """When the first bump since `stable` was written."""
    counted_at: int = -1
    """When all members became known (`baselines.py`), -1 before an epoch was read."""
    unread_at: int = -1
    """From when on its records may have been cleaned away unread."""
    metadata_hash: int = 0


class Changes(msgspec.Struct, array_like=True, gc=False):
    """What changed in an epoch-based group since `Epochs.stable`."""

    bumps: int = 0
    """Bumps of the epoch."""
    departed: list[Member] = msgspec.field(default_factory=list)
    """Members that departed; `verdicts` and `silences` belong to them."""
    verdicts: list[list[list[str | float]]] = msgspec.field(default_factory=list)
    silences: list[list[int]] = msgspec.field(default_factory=list)
    """[silence, session timeout, rebalance timeout, cadence, departure] of each, ms."""
    uncounted: int = 0
    """Departed members beyond the ones kept in `departed`."""
    newcomers: set[str] = msgspec.field(default_factory=set)
    """Ids of members that joined."""
    rehashed: bool = False
    """The metadata hash changed."""
    resubscribed: set[str] = msgspec.field(default_factory=set)
    """Ids of members whose subscription changed."""
    evidence: dict[str, str] = msgspec.field(default_factory=dict)
    """Id of a departed member -> the evidence that the departure model judged."""
    resolved_at: int = -1
    """When a pattern was resolved that the newest bump may be about."""


class Subscriptions(msgspec.Struct, array_like=True, gc=False):
    """Topics that an epoch-based group subscribes to, and which topic id is which name."""

    names: list[str] = msgspec.field(default_factory=list)
    """Subscribed topic names."""
    topics: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Digest of a subscription, or a pattern -> topics, for `names`."""
    aliases: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Topic name -> ids that it may have; in streams groups subtopology -> topics that it reads."""
    committed: list[list[str | int]] = msgspec.field(default_factory=list)
    """Partitions committed at `committed_at`, from which topic names are learned."""
    committed_at: int = -1


class Emptiness(msgspec.Struct, array_like=True, gc=False):
    """A group without members, and what is committed to it meanwhile."""

    incident: str = ""
    at: int = -1
    """When it became empty."""
    is_reported: bool = False
    """That the group is empty was reported live."""
    expiring: str = ""
    """Incident about its offsets, which expire."""
    dropped_at: int = -1
    """When an offset was last removed while the group had no members."""
    visits: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Topic -> [last commit without a member, count, 1 if members had it before, 2 if it went back, too]."""
    expiring_at: int = -1
    """When `expiring` was opened."""
    spells: list[list[int]] = msgspec.field(default_factory=list)
    """[day, longest time (ms) without members that ended on it], oldest first (`habits.py`)."""
    followed_since: int = -1
    """Since when every such time is known."""


class Stuck(msgspec.Struct, array_like=True, gc=False):
    """A join phase that commits suggest, or a convergence that takes too long."""

    suspected: str = ""
    """Incident of the suspected join phase."""
    since: int = -1
    incident: str = ""
    """Incident of the stuck rebalance."""
    is_critical: bool = False
    """The stuck rebalance was reported as critical."""
    waits_for: str = ""
    """Client ids of the members that it was reported to wait for."""


class Checks(msgspec.Struct, array_like=True, gc=False):
    """Incidents about a group's record, assignment and subscriptions."""

    too_large: str = ""
    skewed: str = ""
    """Rule that found it, a slash, the incident."""
    unassigned: str = ""
    unowned: list[str] = msgspec.field(default_factory=list)
    """Topics that members subscribe to and no member owns; whether they exist, only the brokers know."""
    unsubscribed: dict[str, list[int | str]] = msgspec.field(default_factory=dict)
    """Topic that no member subscribes to any longer -> [last commit, incident about its offsets]."""
    too_large_at: int = -1
    """When (ms) `too_large` was opened; so of the others."""
    skewed_at: int = -1
    unassigned_at: int = -1


class GroupState(msgspec.Struct, array_like=True, gc=False):
    """One group: its last record, its commits, its clock, and a struct for each further concern."""

    group_type: str = ""
    status: str = Status.DEAD
    protocol_type: str = ""
    protocol: str = ""
    generation: int = -1
    leader: str = ""
    cst: int = -1
    """`currentStateTimestamp`: when the group entered its state."""
    ts: int = -1
    offset: int = -1
    live: bool = False
    """The last record was read live, not rebuilt from history."""
    started_at: int = -1
    """When it last became a group with members."""
    members: list[Member] = msgspec.field(default_factory=list)
    topics: list[str] = msgspec.field(default_factory=list)
    """Topic names; in KIP-848 groups topic ids in hex, whose names are in `subscriptions`."""
    totals: list[int] = msgspec.field(default_factory=list)
    """Partitions assigned of each of `topics`."""
    connect: list[int] = msgspec.field(default_factory=lambda: [-1, 0, 0])
    """Connect: [config offset, scheduled delay (ms), tasks were revoked]."""
    probing_at: int = -1
    """When Kafka Streams announced its next probing rebalance."""

    last_commit: int = -1
    resumed_at: int = -1
    """When a member committed after the whole group was silent for longer than any of its deadlines."""

    wake: int = 0
    """Clock (ms) of the next deadline."""
    last_summary: int = 0
    dirty: bool = False
    """It has changed since its last summary."""

    storm: StormState = msgspec.field(default_factory=StormState)
    rebalances: Rebalances = msgspec.field(default_factory=Rebalances)
    learned: Learned = msgspec.field(default_factory=Learned)
    epochs: Epochs = msgspec.field(default_factory=Epochs)
    changes: Changes = msgspec.field(default_factory=Changes)
    subscriptions: Subscriptions = msgspec.field(default_factory=Subscriptions)
    empty: Emptiness = msgspec.field(default_factory=Emptiness)
    stuck: Stuck = msgspec.field(default_factory=Stuck)
    checks: Checks = msgspec.field(default_factory=Checks)
    positions: Positions = msgspec.field(default_factory=Positions)
    worked: int = -1
    """When a member committed last before the group's generation."""
