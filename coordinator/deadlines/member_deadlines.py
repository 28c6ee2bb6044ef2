"""Deadlines of single members: by when each should have shown life, and by which of its timeouts.

A deadline is counted only for members whose silence is evidence:

- members that commit when idle
- members with steady traffic on several partitions, while siblings move offsets of the same topics
  (`moving`). Without that condition a stopped producer would make a member silent too.

Deadlines of a member:

- *Session*: the last sign of life, one cadence and the session timeout. Under traffic the timeout is at least
  ten cadences, so that no lull counts. A member that passes it may be dead, or its heartbeats go on while the
  application no longer polls.
- *Poll*: follows if the client enforces max.poll.interval.
- *Rebalance*: a member of an epoch-based group that has to give up partitions or tasks has its rebalance
  timeout for that, from its unrevoked state on. It need not be silent.

While a KIP-848 group reconciles, its members go on committing, so their deadlines count then too. Members of
the classic protocol rejoin instead. All deadlines begin anew when the monitor starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.commits.client_families import FAMILIES
from rebalance_monitor.coordinator.commits.trace import STEADY_COMMITS, commits_when_idle, goes_on, is_steady
from rebalance_monitor.coordinator.rebalance import baselines
from rebalance_monitor.coordinator.state.group_state import OF_MEMBER
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_SILENT_TYPES = frozenset({"classic", "consumer"})
_UNREVOKED = 1
AWAY = -2
"""Epoch of a static member that announced its departure."""
# One partition may fall idle while its topic goes on, several hardly do at once.
_PARTITIONS = 2
_CADENCES = 10


class Deadline(NamedTuple):
    """When a member's next deadline passes (ms), and which: session, poll or rebalance.

    `basis`: what makes the silence mean something: idle (it commits when idle), traffic, or unrevoked.
    """

    at: int
    name: str
    basis: str = "idle"


def upcoming(state: GroupState, member: Member, live_since: int) -> Deadline | None:
    """Return the member's next deadline that is not reported yet, None where its silence means nothing."""
    if not baselines.knows_epochs(state) or not baselines.is_described(state, member):
        return None
    if owes(member):
        since = max(member.acked_at, live_since)
        hidden = member.silent_id or member.rebalance_timeout < 0
        return None if hidden else Deadline(since + member.rebalance_timeout, "rebalance", "unrevoked")
    works = member.commits and member.offsets
    if state.group_type not in _SILENT_TYPES or _may_rejoin(state, member) or not works:
        return None
    idle = commits_when_idle(state, member)
    if not idle and not under_traffic(member):
        return None
    usual = life(state, member, live_since) + max(member.cadence, 0)
    timeout = member.session_timeout if idle else max(member.session_timeout, _CADENCES * member.cadence)
    session = Deadline(usual + timeout, "session", "idle" if idle else "traffic")
    if not member.silent_id:
        return session
    # A member behind the target has no heartbeats either, or it would have acknowledged the epoch.
    return _poll(member, usual, session) if baselines.is_at_target(state, member) else None


def owes(member: Member) -> bool:
    """Whether it has partitions or tasks to give up: for that its commits are no sign of life."""
    return member.epoch_state == _UNREVOKED


def _may_rejoin(state: GroupState, member: Member) -> bool:
    """Whether it may have stopped because the group rebalances."""
    return state.status != Status.STABLE and (state.group_type == "classic" or member.version == OF_MEMBER)


def under_traffic(member: Member) -> bool:
    """Whether it commits steadily, and for several partitions."""
    return is_steady(member, STEADY_COMMITS) and sum(offset >= 0 for offset in member.offsets) >= _PARTITIONS


def moving(state: GroupState, now: int) -> set[int]:
    """Return the places in the group's topics at which offsets of a member moved until `now` (ms)."""
    return {
        topic
        for member in state.members
        if member.commits >= STEADY_COMMITS
        and goes_on(member, now)
        and (member.moved or member.fresh or not commits_when_idle(state, member))
        for topic, *_ in member.assigned
    }


def life(state: GroupState, member: Member, live_since: int) -> int:
    """When the member last showed life, or the generation or the monitor began (ms).

    A silence of the whole group is no member's fault, so its end counts as a sign of life of each member.
    """
    return max(last_sign(state, member), live_since, state.resumed_at)


def last_sign(state: GroupState, member: Member) -> int:
    """When the member last committed or acknowledged an epoch, or the generation began (ms)."""
    return max(member.last_commit, member.acked_at, state.cst)


def _poll(member: Member, usual: int, session: Deadline) -> Deadline | None:
    family = FAMILIES[member.family]
    at = usual + member.rebalance_timeout + family.poll_late(member.session_timeout)
    published = member.silent_count > 1 or member.silent_at > session.at
    hidden = published or family.enforces_poll is False or at <= session.at
    return None if hidden else Deadline(at, "poll", session.basis)


def is_assumed(state: GroupState, member: Member, scene: Scene) -> bool:
    """Whether the member's session timeout is unknown: records hold those of the classic protocol only."""
    epochs = state.group_type != "classic" and member.version != OF_MEMBER
    return epochs and scene.settings.session_timeout(scene.group, state.group_type)[1]
