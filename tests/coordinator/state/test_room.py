"""What is kept of ten thousand like groups: equal texts once, and lists without spare room."""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.trace import KEPT_GAPS
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from tests.coordinator.support.timeline import Client, Topic

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.state.group_state import GroupState


def group_after(commits: int, name: str) -> GroupState:
    """A group of one member that has committed so often since its generation."""
    topic = Topic(name)
    topic.generation(0, 1, [Client("consumer-1", (0,))])
    for number in range(commits):
        topic.commit(1_000 * (number + 1), {0: number})
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, None), DetectionSettings(), "test")
    for row in topic.rows:
        shard.on_row(row)
    return shard.state.groups[name]


def test_the_groups_of_one_application_share_their_texts() -> None:
    one, other = group_after(0, "one"), group_after(0, "other")
    assert one.protocol is other.protocol
    assert one.protocol_type is other.protocol_type
    assert one.members[0].client_id is other.members[0].client_id
    assert one.members[0].host is other.members[0].host


def test_a_members_last_intervals_have_no_room_for_more() -> None:
    (member,) = group_after(5 * KEPT_GAPS, "one").members
    assert len(member.gaps) == KEPT_GAPS
    assert getsizeof(member.gaps) <= getsizeof([0] * KEPT_GAPS)
