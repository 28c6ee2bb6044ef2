"""Causes of a rebalance in which no member joined or departed, and no subscription or assignor changed.

Some follow from the generation before:

- A coordinator that converts a KIP-848 group to a classic one, because the last member of the new protocol
  left, rebalances it at once.
- A cooperative assignor assigns in a second generation what the first one withheld.
- Kafka Streams writes into its assignments when its leader rejoins to probe (KIP-441). The join phase that
  begins then ends when the last thread has polled: within the longest rebalance timeout.

Any other was asked for by a member, or its coordinator was reloaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.state import membership
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.rebalance.group_metadata import Membership
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

_FOLLOW_UP_MS, _AGAIN_MS = 60_000, 60_000
_SLACK_MS = 5_000
_ON_TIME, _LATEST = 0.9, 0.6
_SAME = frozenset({Cause.COOPERATIVE_FOLLOW_UP, Cause.LEADER_REJOINED, Cause.COORDINATOR_MOVED})


def causes(state: GroupState, after: Membership, cst: int, aborted: int) -> list[CauseEntry]:
    """Causes of the generation that follows `state` and `aborted` ones; its join phase ended at `cst`."""
    apart = cst - state.ts
    if announced := _probing(state, cst):
        late = seconds(cst - state.probing_at)
        why = f"{late} after the time that the last assignment announced; a join phase may take as long"
        return [CauseEntry(Cause.STREAMS_PROBING, announced, why)]
    if _is_migrated(state, cst):
        why = f"{seconds(apart)} after its migration, which the coordinator follows with a rebalance"
        return [CauseEntry(Cause.GROUP_MIGRATED, 0.9, why)]
    if is_follow_up(state, after, cst):
        why = f"{seconds(apart)} after a cooperative generation that left partitions unassigned"
        return [CauseEntry(Cause.COOPERATIVE_FOLLOW_UP, 0.9, why)]
    return _requested(state, after, apart, aborted)


def _requested(state: GroupState, after: Membership, apart: int, aborted: int) -> list[CauseEntry]:
    """Causes of a rebalance `apart` ms after the last one, of which no record shows the reason."""
    given = sum(len(member.offsets) for member in after.members)
    why = f"same members, topics and partitions: {len(after.members)}, {len(after.topics)} and {given}"
    leader = _leader(state, after)
    # In a Stable group a follower that sends its subscription again is given the current generation.
    who_asked = (
        "; its leader asked for it: without a new subscription only a leader's request starts a rebalance"
        if leader
        else "; a member asked for it, perhaps the leader"
    )
    rejoined = CauseEntry(Cause.LEADER_REJOINED, 0.45, why + who_asked)
    if leader:
        rejoined = CauseEntry.of(leader, rejoined.cause, rejoined.confidence, rejoined.why)
    # A client that rejoins again and again does so by itself: no coordinator moves that often.
    again = apart <= _AGAIN_MS and any(cause == Cause.LEADER_REJOINED for cause, _ in state.rebalances.causes)
    if aborted:
        lost = "1 generation has" if aborted == 1 else f"{aborted} generations have"
        unread = f"{lost} no record on the topic: members that joined or left then are not known"
        found = [CauseEntry(Cause.UNKNOWN, 0.55, unread), replace(rejoined, confidence=0.2)]
        return found if again else [*found, CauseEntry(Cause.COORDINATOR_MOVED, 0.2, why)]
    if again:
        last = f"{why}, {seconds(apart)} after the last time{who_asked}"
        return [replace(rejoined, confidence=0.55, why=last)]
    reloaded = why + "; some clients rejoin when their coordinator reloads"
    return [rejoined, CauseEntry(Cause.COORDINATOR_MOVED, 0.25, reloaded)]


def _leader(state: GroupState, after: Membership) -> Member | None:
    """Return the leader, if no other member can have asked for the rebalance."""
    led = (member for member in after.members if member.member_id == state.leader)
    return next(led, None) if after.unvarying else None


def _probing(state: GroupState, cst: int) -> float:
    """Return how surely a generation whose join phase ended at `cst` (ms) is the announced one; 0 if not.

    The longer the join phase took, the less likely.
    """
    late, longest = cst - state.probing_at - _SLACK_MS, _longest(state)
    if state.probing_at <= 0 or not -2 * _SLACK_MS <= late <= max(0, longest - _SLACK_MS):
        return 0.0
    return round(_ON_TIME - (_ON_TIME - _LATEST) * max(0, late) / max(longest, 1), 2)


def _is_migrated(state: GroupState, cst: int) -> bool:
    """Whether it is the first generation after a migration; `cst` (ms) is the end of its join phase."""
    began = [cause for cause, share in state.rebalances.causes if float(share) >= 1]
    return began == [Cause.GROUP_MIGRATED] and cst - state.ts <= _longest(state) + _SLACK_MS


def is_follow_up(state: GroupState, after: Membership, cst: int) -> bool:
    """Second phase of a cooperative rebalance: partitions that were withheld are handed on.

    Kafka Streams may withhold what no record shows, but hardly where nothing had changed before.
    """
    if state.protocol not in membership.COOPERATIVE:
        return False
    apart = cst - state.ts
    if state.protocol == "stream":
        return apart <= _FOLLOW_UP_MS and all(cause not in _SAME for cause, _ in state.rebalances.causes[:1])
    before = sum(len(member.offsets) for member in state.members)
    # Later only where it is known that some were withheld.
    if apart > _FOLLOW_UP_MS and (apart > _longest(state) or before >= sum(state.totals)):
        return False
    return before < sum(len(member.offsets) for member in after.members)


def _longest(state: GroupState) -> int:
    """Return the longest rebalance timeout (ms): no join phase takes longer."""
    return max((member.rebalance_timeout for member in state.members), default=0)
