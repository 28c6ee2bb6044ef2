"""Causes of the first members read of a group: it is new, was migrated, or its history is unknown.

A group that was not known is a new one only where its records were read from the first on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry
from rebalance_monitor.coordinator.findings.wording import seconds
from rebalance_monitor.coordinator.rebalance import visits

if TYPE_CHECKING:
    from collections.abc import Collection

    from rebalance_monitor.coordinator.state.group_state import GroupState


def begun(state: GroupState, members: int, *, new: bool) -> tuple[CauseEntry, ...]:
    """Causes of the first `members` that were read of a group; `new`: the group did not exist."""
    if state.rebalances.migrated > 0:
        why = f"members carried over from the other protocol: {state.rebalances.migrated}"
        return (CauseEntry(Cause.GROUP_MIGRATED, 1.0, why),)
    if not new and state.rebalances.migrated < 0:
        why = f"the first record of this group that the monitor has read; members: {members}"
        return (CauseEntry(Cause.UNKNOWN, 1.0, why),)
    return (CauseEntry(Cause.FIRST_START, 1.0, f"the group had no members before; {members} now"),)


def started(
    state: GroupState, now: GroupState, asked: Collection[str] | None, *, new: bool
) -> tuple[CauseEntry, ...]:
    """Causes of a generation `now` that follows none, or an empty group; `new`: the group did not exist.

    `asked`: the topics that its members subscribe to, None where that could not be read.
    """
    cst = now.cst
    if state.offset < 0:
        is_new = new or now.generation <= 1
        is_first = is_new and state.rebalances.migrated < 0
        ready = visits.before_members(state, cst, asked) if is_first and _has_positions(state) else ()
        return *begun(state, len(now.members), new=is_new), *ready
    why = f"empty for {seconds(cst - state.cst)}" if state.generation else "the group had no members before"
    why = f"{why}; {len(now.members)} now"
    since = visits.causes(state, state.ts, cst, asked) if state.empty.visits else ()
    if not state.generation and not since and _has_positions(state):
        since = visits.before_members(state, cst, asked)
    return CauseEntry(Cause.FIRST_START, 1.0, why), *since


def _has_positions(state: GroupState) -> bool:
    """Whether offsets were committed to the group."""
    return bool(state.positions.runs or state.positions.table)
