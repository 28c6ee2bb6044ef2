"""What has been read of an epoch-based group so far: its epochs, its members, and what describes them.

A record of a KIP-848, share or streams group holds one thing: the group's epoch, the target's epoch, or one
member. A job that begins with `source.starting: latest`, a capture from the latest offsets, and a topic with
an unreadable record miss some of them. So:

- Nothing is compared with an epoch that was not read.
- A member without a record of its own has no deadline: its timeouts are in that record.
- A group is not empty because no member was read. Each live member acknowledges a bumped epoch within its
  session, so all are known one session after the first bump.

The record of a classic group is complete by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.context import Scene
    from rebalance_monitor.coordinator.state.group_state import GroupState, Member

CLASSIC = "classic"
_FIRST_EPOCH = 1


def knows_epochs(state: GroupState) -> bool:
    """Whether members can be compared with the group's target: the epochs of both were read."""
    return state.group_type == CLASSIC or (state.generation >= 0 and state.epochs.target >= 0)


def is_described(state: GroupState, member: Member) -> bool:
    """Whether the record was read that holds the member's client, host, subscription and timeouts."""
    return state.group_type == CLASSIC or bool(member.subscribed)


def is_at_target(state: GroupState, member: Member) -> bool:
    """Whether the member has acknowledged the newest target; a classic group's record is its target."""
    return state.group_type == CLASSIC or (knows_epochs(state) and member.epoch == state.epochs.target)


def knows_members(state: GroupState, at: int) -> bool:
    """Whether at `at` (ms) all members are known: a member without a record by then does not exist."""
    return state.group_type == CLASSIC or 0 <= state.epochs.counted_at <= at


def count_members(state: GroupState, scene: Scene, session: int) -> None:
    """Take a bump of the epoch: from one `session` (ms) after the first one on all members are known.

    They are known already where the group's first epoch was read, or came from the classic protocol.
    """
    if state.epochs.counted_at >= 0:
        return
    begun = scene.complete or state.generation <= _FIRST_EPOCH or state.rebalances.migrated >= 0
    longest = max([session, *(member.session_timeout for member in state.members)])
    state.epochs.counted_at = 0 if begun else scene.ts + longest
