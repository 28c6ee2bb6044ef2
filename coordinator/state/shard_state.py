"""What the shadow coordinator remembers of a shard: its groups, its clock, removals not yet decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState
    from rebalance_monitor.coordinator.state.store import GroupStore


@dataclass(slots=True)
class PendingRemoval:
    """A group whose tombstone was read, until the next row shows whether it was removed or migrated."""

    group: str
    offset: int
    ts: int
    history: bool
    state: GroupState


@dataclass(slots=True)
class ShardState:
    """One state key: a shard's bucket.

    `catching_up_until` is the end offset found at start, None once live. `now` is the newest clock (ms, goes
    back only with the driver's), `complete` says that the shard was read from its beginning, `live_since` is
    the clock at which catching up ended: no deadline is counted from before it. `failures` is reason ->
    [count, first offset, newest record time, sample]. `resumed_at`: the clock at which reading went on after
    so long a pause that records from before it may have been cleaned away unread; `hole`: the newest offset
    before which one was missing, or was another bucket's. `orphans`: group without a record of its own so far
    -> its newest commit, while catching up. `unpublished`: group -> clock (ms) from which on its positions
    are to be published. `lone`: group without a record of its own -> its positions as text, the one that
    committed last at the end; `lone_dropped` counts those that had to make room. `reader`: the process that
    positions were published to: a new one knows none of them. `committing`: the group of the last row, if it
    was a commit run; `marked`: groups whose commits had a hole of one offset behind them since they published
    last.
    """

    shard: int
    bucket: int
    catching_up_until: int | None
    groups: GroupStore
    now: int = -1
    live_since: int = -1
    idle_clocks: int = 0
    last_offset: int = -1
    last_ts: int = -1
    rows: int = 0
    commits: int = 0
    records: int = 0
    pending: PendingRemoval | None = None
    failures: dict[str, list[int | str]] = field(default_factory=dict)
    complete: bool = False
    resumed_at: int = -1
    hole: int = -1
    orphans: dict[str, int] = field(default_factory=dict)
    unpublished: dict[str, int] = field(default_factory=dict)
    lone: dict[str, str] = field(default_factory=dict)
    lone_dropped: int = 0
    reader: int = -1
    committing: str = ""
    marked: list[str] = field(default_factory=list)
