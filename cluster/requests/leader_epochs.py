"""Asking the leaders of a topic where one of their epochs ended: OffsetForLeaderEpoch (KIP-101, KIP-320).

A leader that was elected without the newest records answers with an end below what was read in that epoch,
however long its log has become since. Needs Describe on the topic.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.cluster.requests.topology import Topic

# The first version that a consumer may ask in (Kafka 2.1): before, the answer is for brokers.
MIN_VERSION = 2
NOT_A_BROKER = -1
# The leader answers whatever epoch it has by now.
ANY_EPOCH = -1


def epoch_ends(client: Any, topic: Topic, epochs: Mapping[int, int]) -> dict[int, int]:  # noqa: ANN401 - the library has no types
    """Give, by partition, the first offset after the epoch in `epochs` (partition -> leader epoch).

    Partitions without a leader, whose leader does not know (any more), or gives an error, are left out.
    Raises what the client raises.
    """
    wanted: dict[int, dict[int, int]] = defaultdict(dict)
    for place in topic.leaders:
        if place.partition in epochs and place.broker >= 0:
            wanted[place.broker][place.partition] = epochs[place.partition]
    found: dict[int, int] = {}
    for leader, asked in wanted.items():
        found |= _answered(client._manager.run(_ask, client, topic.name, leader, asked))  # noqa: SLF001 - as its own requests
    return found


async def _ask(client: Any, name: str, leader: int, asked: Mapping[int, int]) -> Any:  # noqa: ANN401
    from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest  # noqa: PLC0415

    of_topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    of_partition = of_topic.OffsetForLeaderPartition
    places = [
        of_partition(partition=partition, current_leader_epoch=ANY_EPOCH, leader_epoch=epoch)
        for partition, epoch in asked.items()
    ]
    request = OffsetForLeaderEpochRequest(
        replica_id=NOT_A_BROKER, topics=[of_topic(topic=name, partitions=places)], min_version=MIN_VERSION
    )
    return await client._manager.send(request, node_id=leader)  # noqa: SLF001 - as its own requests


def _answered(response: Any) -> dict[int, int]:  # noqa: ANN401
    places = [place for topic in response.topics for place in topic.partitions]
    return {p.partition: p.end_offset for p in places if p.error_code == 0 and p.end_offset >= 0}
