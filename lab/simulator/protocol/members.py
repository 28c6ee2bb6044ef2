"""What a coordinator knows: a group's state, its members, its join phase, and what it asks of processes.

`Process` is what `client.py` implements; the coordinators know no more of a client than this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rebalance_monitor.lab.simulator.plans.families import Family
    from rebalance_monitor.lab.simulator.plans.plan import ClientPlan, GroupPlan
    from rebalance_monitor.lab.simulator.protocol.beats import Beats
    from rebalance_monitor.lab.simulator.protocol.feed import Owned


class State(Enum):
    """States of a group, in the broker's words."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    RECONCILING = "Reconciling"


class Process(Protocol):
    """A client as a coordinator sees it. `member`: the member id that it has, "" for none."""

    plan: ClientPlan
    number: int
    family: Family
    member: str
    fault: str
    stalled: bool
    identity: tuple[str, str]
    beats: Beats | None
    last_poll: float

    @property
    def reaches(self) -> bool:
        """Whether its requests and answers arrive."""
        ...

    @property
    def beating(self) -> bool:
        """Whether its heartbeats arrive."""
        ...

    @property
    def owned(self) -> Owned:
        """The partitions that it was assigned last."""
        ...

    def syncs(self, member_id: str) -> bool:
        """Whether it sends a SyncGroup as that member."""
        ...

    def new_id(self) -> str:
        """Take a new member id, and return it."""
        ...

    def subscription(self, group: GroupPlan) -> bytes:
        """Return the subscription that it joins with."""
        ...

    def record(self, member: Member) -> bytes:
        """Return its entry in the group's record."""
        ...

    def own(self, owned: Owned) -> None:
        """Take an assignment."""

    def on_joined(self, member: Member, generation: int, *, leads: bool) -> None:
        """Take the answer to its JoinGroup."""

    def on_synced(self, at: float) -> None:
        """Take the answer to its SyncGroup, which arrives `at` (ms)."""

    def on_removed(self, member_id: str) -> None:
        """Learn that this member was removed."""

    def on_load(self, generation: int) -> None:
        """Go on when the coordinator has loaded the group."""

    def hear(self, phase: Phase) -> None:
        """Learn of a join phase with the next heartbeat."""

    def rejoin(self, phase: Phase) -> None:
        """Send a JoinGroup for a join phase."""

    def skip(self, until: float) -> None:
        """Commit nothing until then (ms)."""

    def flush(self, until: float) -> None:
        """Write its commits until then (ms)."""


@dataclass(slots=True, eq=False)
class Member:
    """A member as the coordinator has it. `armed`: its session runs from then; `guard`: which timer counts.

    `joined` and `synced` are the classic protocol's: its JoinGroup or its SyncGroup waits, or was answered.
    """

    id: str
    client: Process
    instance: str | None
    joined: bool = True
    new: bool = True
    synced: bool = False
    seen: bool = False
    armed: float = 0.0
    guard: int = 0
    subscription: bytes = b""
    last_commit: float = -1.0


@dataclass(slots=True, eq=False)
class Phase:
    """A join phase. `initial`: it waits for no member yet; `extended`: by how much (ms) so far.

    `joined`: when (ms since 1970) each member has joined or rejoined.
    """

    began: float
    trigger: str
    member: str
    initial: bool = False
    joined_since: bool = False
    extended: float = 0.0
    joined: dict[str, float] = field(default_factory=dict)
