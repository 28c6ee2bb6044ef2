"""What the shadow coordinator remembers of a shard, a group and a member.

Theory of operation. A classic group writes one record per completed generation and one when it becomes
Empty; between two of them it says nothing but commits. So a group's state is its last record (members,
timeouts, assignment) plus, per member, a trace of life learned from commits on the partitions that the
record assigned to it. Everything is small: topics are interned per group, subscriptions shrink to a hash
and a version, the last committed offset of a partition is kept only to see whether it moved.

Plain mutable records without behaviour. Those of a group are read and written in every batch that touches it:
as arrays of their fields, in C (`msgspec`, by `checkpoints/state/codec.py`). So a new field comes last and
has a default, and anything else is a new codec version. Times are ms since epoch, -1 where unknown.
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
    first_commit: int = -1
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
    stalled_at: int = -1
    """When it last committed after a gap of at least its rebalance timeout."""
    behind_at: int = -1
    """When the group's target epoch last passed the member's epoch."""
    gap: int = -1
    """Time (ms) between its last two commits."""
    gaps: list[int] = msgspec.field(default_factory=list)
    """Last times (ms) between commits of one generation, oldest first, at most `commits.KEPT_GAPS`."""


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


class GroupState(msgspec.Struct, array_like=True, gc=False):
    """One group: its last record, what its members' commits add, and its open incidents."""

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
    members: list[Member] = msgspec.field(default_factory=list)
    topics: list[str] = msgspec.field(default_factory=list)
    """Topic names; in KIP-848 groups topic ids in hex, whose names are in `names`."""
    totals: list[int] = msgspec.field(default_factory=list)
    idle_families: list[str] = msgspec.field(default_factory=list)
    """Client families that were seen to commit unchanged offsets."""
    last_commit: int = -1
    reset_at: int = -1
    failed: list[int] = msgspec.field(default_factory=list)
    storm: StormState = msgspec.field(default_factory=StormState)
    empty_id: str = ""
    empty_at: int = -1
    expiring_id: str = ""
    large_id: str = ""
    rebalance_at: int = -1
    causes: list[list[str | float]] = msgspec.field(default_factory=list)
    probing_at: int = -1
    connect: list[int] = msgspec.field(default_factory=lambda: [-1, 0, 0])
    """Connect: [config offset, scheduled delay (ms), tasks were revoked]."""
    skew_id: str = ""
    last_summary: int = 0
    dirty: bool = False

    # Epoch-based groups: KIP-848, share and streams.
    target_epoch: int = -1
    stable_epoch: int = -1
    bumped_at: int = -1
    bumps: int = 0
    names: list[str] = msgspec.field(default_factory=list)
    """Subscribed topic names."""
    departed: list[Member] = msgspec.field(default_factory=list)
    """Members that departed since `stable_epoch`; `verdicts` and `silences` belong to them."""
    verdicts: list[list[list[str | float]]] = msgspec.field(default_factory=list)
    silences: list[list[int]] = msgspec.field(default_factory=list)
    """[silence, session timeout, rebalance timeout, cadence, departure] of each, ms."""
    newcomers: list[str] = msgspec.field(default_factory=list)
    metadata_hash: int = 0
    rehashed: bool = False
    """The metadata hash changed since `stable_epoch`."""
    resubscribed: list[str] = msgspec.field(default_factory=list)
    """Ids of members whose subscription changed since `stable_epoch`."""
    aliases: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Topic name -> ids that it may have; in streams groups subtopology -> topics that it reads."""
    asked: list[list[str | int]] = msgspec.field(default_factory=list)
    """Partitions committed at `asked_at`, from which topic names are learned."""
    asked_at: int = -1

    # A join phase that commits suggest, or a convergence that takes too long.
    held_id: str = ""
    held_at: int = -1
    stuck_id: str = ""

    wake: int = 0
    """Clock (ms) of the next deadline."""
    unsubscribed: dict[str, list[int | str]] = msgspec.field(default_factory=dict)
    """Topic that no member subscribes to any longer -> [last commit, incident about its offsets]."""
    holes: int = 0
    """Generations by which it became Empty, without completing them, since it last had members."""
    migrated: int = -1
    """Members when it came from the other protocol, until that is reported."""
    subscriptions: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Digest of a subscription, or a pattern -> topics, for `names`."""
    resumed_at: int = -1
    """When a member committed after the whole group was silent for longer than any of its deadlines."""
    stands_empty: bool = False
    """That the group is empty was reported live."""
    takeovers: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Instance id -> when another process lately took its place."""
    uncounted: int = 0
    """Departed members beyond the ones kept in `departed`."""
    unread_at: int = -1
    """From when on its records may have been cleaned away unread."""
    dropped_at: int = -1
    """When an offset was last removed while the group had no members."""
    counted_at: int = -1
    """When all members of an epoch-based group became known (`baselines.py`), -1 before an epoch was read."""
    visits: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Topic -> [last commit without a member, count, whether members had it before] (`visits.py`)."""
    unassigned_id: str = ""
    unowned: list[str] = msgspec.field(default_factory=list)
    """Topics that members subscribe to and no member owns; whether they exist, only the brokers know."""
    beats: list[float] = msgspec.field(default_factory=list)
    """What its rebalances taught of its heartbeat interval."""
    ways: list[float] = msgspec.field(default_factory=list)
    """What its rebalances taught of how its members depart."""
    positions: Positions = msgspec.field(default_factory=Positions)
    stuck_loudly: bool = False
    """The stuck rebalance was reported as critical."""
    waits_for: str = ""
    """Client ids of the members that it was reported to wait for."""


def forget(state: GroupState, group_type: str) -> None:
    """Forget what was known of a group that turns out to be another one, or of another type."""
    known = GroupState() if state.group_type else state
    fresh = GroupState(
        group_type=group_type,
        last_commit=known.last_commit,
        last_summary=state.last_summary,
        dirty=True,
        migrated=known.migrated,
        empty_id=known.empty_id,
        empty_at=known.empty_at,
        stands_empty=known.stands_empty,
        positions=state.positions,
    )
    for name in GroupState.__struct_fields__:
        setattr(state, name, getattr(fresh, name))
