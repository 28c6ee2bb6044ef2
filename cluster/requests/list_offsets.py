"""ListOffsets for many partitions by kafka-python, with an outcome for each (KIP-79, KIP-98).

The library's own call fails as a whole where one partition has moved or may not be described.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.cluster.requests.topology import Topic

LATEST, EARLIEST = -1, -2
NOT_A_BROKER = -1
ANY_EPOCH = -1
NO_LEADER = "LEADER_NOT_AVAILABLE"
UNREACHED = "_UNREACHED"
"""Prefix of the reason if a partition's leader could not be asked: our own reasons begin as librdkafka's."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """stamp: LATEST, EARLIEST or a time (ms). committed: as a consumer of committed records sees it."""

    stamp: int
    committed: bool = False


Outcomes = dict[tuple[str, int], int | str]
"""(topic, partition) -> its offset, or Kafka's name of what is wrong."""


def list_offsets(client: Any, topics: Mapping[str, Topic], what: Wanted) -> Outcomes:  # noqa: ANN401 - the library has no types
    """Ask the leaders of all partitions of topics."""
    found: Outcomes = {}
    wanted: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for name, topic in topics.items():
        for place in topic.leaders:
            if place.broker < 0:
                found[name, place.partition] = NO_LEADER
            else:
                wanted[place.broker][name].append(place.partition)
    for leader, asked in wanted.items():
        found |= _of_leader(client, leader, asked, what)
    return found


def _of_leader(client: Any, leader: int, asked: Mapping[str, list[int]], what: Wanted) -> Outcomes:  # noqa: ANN401
    from kafka.errors import KafkaError, for_code  # noqa: PLC0415 - slow to import

    try:
        answer = client._manager.run(_ask, client, leader, asked, what)  # noqa: SLF001 - as its own requests
    except (KafkaError, OSError):
        return {(name, partition): UNREACHED for name, places in asked.items() for partition in places}
    return {
        (topic.name, one.partition_index): for_code(one.error_code).message if one.error_code else one.offset
        for topic in answer.topics
        for one in topic.partitions
    }


async def _ask(client: Any, leader: int, asked: Mapping[str, list[int]], what: Wanted) -> Any:  # noqa: ANN401
    from kafka.protocol.consumer import ListOffsetsRequest  # noqa: PLC0415 - as above

    of_topic = ListOffsetsRequest.ListOffsetsTopic
    of_partition = of_topic.ListOffsetsPartition
    topics = [
        of_topic(
            name=name,
            partitions=[
                of_partition(partition_index=place, current_leader_epoch=ANY_EPOCH, timestamp=what.stamp)
                for place in places
            ],
        )
        for name, places in asked.items()
    ]
    request = ListOffsetsRequest(
        replica_id=NOT_A_BROKER, isolation_level=int(what.committed), topics=topics, min_version=2
    )
    return await client._manager.send(request, node_id=leader)  # noqa: SLF001 - as above
