"""The truth of a simulation, as typed values: the broker's log, and each client's own account.

Member ids, generations and causes are the broker's words; `fault` is what the plan did to the client. Times
are ms since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.lab.simulator.plans.plan import ClientPlan


class Removed(StrEnum):
    """Why the coordinator removed a member, in the words of `coordinator.causes`.

    A breach of max.poll.interval is a LeaveGroup on the wire: only the client knows that it was one. The log
    says `session_timeout` of static members too; the product's word for these is `static_member_expired`.
    """

    LEFT = "member_left"
    EXPIRED = "session_timeout"
    POLL = "poll_interval_exceeded"
    JOIN_DEADLINE = "join_deadline_missed"
    SYNC_DEADLINE = "sync_deadline_missed"
    ADMIN = "member_removed_by_admin"


@dataclass(frozen=True, slots=True)
class Removal:
    """One member removed from `group` at `at`, while `generation` was the newest that had completed.

    `fault`: the act of the plan that led there, or "" for none. `triggered`: the removal began the rebalance.
    `held`: the removal ended its join phase, which had waited for this member alone. `seen`: the member was
    in a generation that was written, so that the topic shows its departure. `last_commit`: the member's last
    accepted commit, -1 for none in this generation. `client`: number of the process in the group's plan.
    """

    group: str
    member: str
    generation: int
    at: float
    cause: Removed
    fault: str
    client: int
    plan: ClientPlan
    triggered: bool
    held: bool
    seen: bool
    last_commit: float
    last_poll: float


@dataclass(frozen=True, slots=True)
class JoinPhase:
    """One join phase of `group`: from PreparingRebalance (`began`) to its end; `generation` is the new one.

    `trigger`: `departure`, `join` or `rejoin`, of member `trigger_member`. `ended_by`: `rejoin` (the last
    survivor had rejoined), `removal`, `deadline` or `delay` (the initial one). `held_by`: the member whose
    rejoin or removal ended it. `joined`: when each member had joined or rejoined. Of a KIP-848 group it is
    the time from an epoch to the convergence of all.
    """

    group: str
    generation: int
    began: float
    ended: float
    trigger: str
    trigger_member: str
    ended_by: str
    held_by: str
    members: int
    joined: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Truth:
    """Everything that happened, in order of time; `healthy`: groups whose plan has no fault."""

    removals: list[Removal] = field(default_factory=list)
    phases: list[JoinPhase] = field(default_factory=list)
    healthy: frozenset[str] = frozenset()
