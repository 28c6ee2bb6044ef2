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
    """One member as the last record describes it, and its trace of life.

    `assigned` is one list per topic: index into the group's topics, then partitions; `offsets` holds the last
    committed offset (-1 unknown) of each of these partitions in the same order. `moved` and `fresh` describe
    the commit at `last_commit`: whether an offset advanced in it, whether a partition was new to it.
    `stalled_at` is when it last committed after a gap of at least its rebalance timeout, `behind_at` when an
    epoch-based group's target last went past the epoch that it was at. `idle`: how many of its commits moved
    nothing, -1 for one that lived through a silence that would have ended its session. `gap`: how long before
    its last commit the one before came. `gaps`: the last times (ms) between commits of one generation, oldest
    first, at most `commits.KEPT_GAPS`.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    host_stale: bool
    session_timeout: int
    rebalance_timeout: int
    family: str
    version: int
    subscribed: str
    joined_at: int
    assigned: list[list[int]] = msgspec.field(default_factory=list)
    offsets: list[int] = msgspec.field(default_factory=list)
    first_commit: int = -1
    last_commit: int = -1
    commits: int = 0
    idle: int = 0
    cadence: int = -1
    moved: bool = False
    fresh: bool = False
    silent_id: str = ""
    silent_at: int = -1
    silent_count: int = 0
    epoch: int = -1
    epoch_state: int = 0
    acked_at: int = -1
    stalled_at: int = -1
    behind_at: int = -1
    gap: int = -1
    gaps: list[int] = msgspec.field(default_factory=list)


class StormState(msgspec.Struct, array_like=True, gc=False):
    """Generations of the window that count towards a storm, and the open incident.

    `events` are [at, code, generations, offender, its member id, its instance id], the last two only where
    one is known (codes in `storm.py`), oldest first. `announced`: the clock has told that the incident is
    over, and nothing since has said otherwise; a record may still belong to it. `restarting`: when the first
    member went of a rolling restart that goes on; `restart_at` is that of the last one told, `restarted_at`
    its end, and `restarts` how many followed each other. `stopped_at`: when the group last became empty,
    `loops` how many times in a row it did as soon as it had begun. `expired`: client and first host (where
    another process has these: and the id of its first member that did) -> when its members lately expired.
    `size`: how many members there are to be restarted by the one that goes on.
    """

    events: list[list[int | str]] = msgspec.field(default_factory=list)
    incident: str = ""
    opened_at: int = -1
    last_at: int = -1
    total: int = 0
    sequence: int = 0
    restart_at: int = -1
    announced: bool = False
    restarting: int = -1
    restarted_at: int = -1
    restarts: int = 0
    stopped_at: int = -1
    loops: int = 0
    expired: dict[str, list[int]] = msgspec.field(default_factory=dict)
    size: int = -1


class GroupState(msgspec.Struct, array_like=True, gc=False):
    """One group. `live` says that the last record was read live, not rebuilt from history.

    `connect` is [config offset, scheduled delay in ms, tasks were revoked] of a Connect group. The fields
    from `target_epoch` on belong to epoch-based groups: `departed`, their `verdicts`, `silences` [silence,
    session, rebalance timeout, cadence, when it went] and `newcomers` collect what came since `stable_epoch`;
    `uncounted`: how many more departed than are kept. `topics` are topic ids in hex there, `names` the
    subscribed names, `aliases` the ids that a name may have, `asked` the partitions committed at `asked_at`,
    from which these are learned. In streams groups `topics` are names and `aliases` the topics that each
    subtopology reads. `rehashed` and `resubscribed` (member ids) say what else changed since then. `held_id`,
    `held_at` and `stuck_id` belong to a barrier that commits suggest, or a convergence that takes too long.
    `unsubscribed`: topic that nobody subscribes to any more -> [last commit, what was told of its offsets].
    `holes`: how many generations it has become Empty by since it last had members, without completing them.
    `migrated`: how many members the group had when it came from the other protocol, until that is reported.
    `subscriptions`: digest of a subscription that members have, or of a pattern -> topics, for `names`.
    `resumed_at`: when a member committed after the whole group had been silent for longer than any of its
    deadlines. `stands_empty`: that it is empty was told live. `takeovers`: instance id -> when others lately
    took its place. `unread_at`: from when on records of it may have been cleaned away unread. `dropped_at`:
    when an offset of it was last removed while it had no members. `counted_at`: from when on all members of
    an epoch-based group are known, -1 before an epoch was read (`baselines.py`). `visits`: topic -> [last
    commit while there was no member, how many, whether members had it before] (`visits.py`). `beats`, `ways`:
    what its rebalances taught of its heartbeat interval and of how its members depart. `positions`: its
    committed offsets. `stuck_loudly`: that it is stuck was told as critical; `waits_for`: the client ids of
    those that it was said to wait for.
    """

    group_type: str = ""
    status: str = Status.DEAD
    protocol_type: str = ""
    protocol: str = ""
    generation: int = -1
    leader: str = ""
    cst: int = -1
    ts: int = -1
    offset: int = -1
    live: bool = False
    started_at: int = -1
    members: list[Member] = msgspec.field(default_factory=list)
    topics: list[str] = msgspec.field(default_factory=list)
    totals: list[int] = msgspec.field(default_factory=list)
    idle_families: list[str] = msgspec.field(default_factory=list)
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
    skew_id: str = ""
    last_summary: int = 0
    dirty: bool = False
    target_epoch: int = -1
    stable_epoch: int = -1
    bumped_at: int = -1
    bumps: int = 0
    names: list[str] = msgspec.field(default_factory=list)
    departed: list[Member] = msgspec.field(default_factory=list)
    verdicts: list[list[list[str | float]]] = msgspec.field(default_factory=list)
    silences: list[list[int]] = msgspec.field(default_factory=list)
    newcomers: list[str] = msgspec.field(default_factory=list)
    metadata_hash: int = 0
    rehashed: bool = False
    resubscribed: list[str] = msgspec.field(default_factory=list)
    aliases: dict[str, list[str]] = msgspec.field(default_factory=dict)
    asked: list[list[str | int]] = msgspec.field(default_factory=list)
    asked_at: int = -1
    held_id: str = ""
    held_at: int = -1
    stuck_id: str = ""
    wake: int = 0
    unsubscribed: dict[str, list[int | str]] = msgspec.field(default_factory=dict)
    holes: int = 0
    migrated: int = -1
    subscriptions: dict[str, list[str]] = msgspec.field(default_factory=dict)
    resumed_at: int = -1
    stands_empty: bool = False
    takeovers: dict[str, list[int]] = msgspec.field(default_factory=dict)
    uncounted: int = 0
    unread_at: int = -1
    dropped_at: int = -1
    counted_at: int = -1
    visits: dict[str, list[int]] = msgspec.field(default_factory=dict)
    unassigned_id: str = ""
    beats: list[float] = msgspec.field(default_factory=list)
    ways: list[float] = msgspec.field(default_factory=list)
    positions: Positions = msgspec.field(default_factory=Positions)
    stuck_loudly: bool = False
    waits_for: str = ""


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
