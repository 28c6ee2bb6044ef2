"""Rebalances among the same members that follow from the generation before.

- A coordinator that converts a KIP-848 group to a classic one, because the last member of the new protocol
  left, rebalances it at once.
- A cooperative assignor assigns in a second generation what the first one withheld.
- Kafka Streams writes into its assignments when its leader rejoins to probe (KIP-441). The join phase that
  begins then ends when the last thread has polled: within the longest rebalance timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.state import membership

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.rebalance.group_metadata import Membership
    from rebalance_monitor.coordinator.state.group_state import GroupState

_FOLLOW_UP_MS = 60_000
_SLACK_MS = 5_000
_ON_TIME, _LATEST = 0.9, 0.6
_SAME = frozenset({Cause.COOPERATIVE_FOLLOW_UP, Cause.LEADER_REJOINED, Cause.COORDINATOR_MOVED})


def probing(state: GroupState, cst: int) -> float:
    """Return how surely a generation whose join phase ended at `cst` (ms) is the announced one; 0 if not.

    The longer the join phase took, the less likely.
    """
    late, longest = cst - state.probing_at - _SLACK_MS, _longest(state)
    if state.probing_at <= 0 or not -2 * _SLACK_MS <= late <= max(0, longest - _SLACK_MS):
        return 0.0
    return round(_ON_TIME - (_ON_TIME - _LATEST) * max(0, late) / max(longest, 1), 2)


def is_migrated(state: GroupState, cst: int) -> bool:
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
