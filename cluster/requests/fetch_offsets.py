"""OffsetFetch for many groups by kafka-python, with an outcome for each (KIP-709).

The library's own call fails as a whole where one group may not be described or its coordinator has moved. It
is not asked for stable offsets only (KIP-447): then the answer for a partition with a pending commit would be
UNSTABLE_OFFSET_COMMIT. Without that a pending commit just never appears in it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.requests.list_offsets import UNREACHED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SEVERAL = 8
"""Version from which one request may name several groups (Kafka 3.0)."""

ALL_TOPICS = 2
A_REQUEST = 100
NONE = -1

Committed = dict[str, dict[int, int]]
"""topic -> partition -> committed offset"""


def fetch_offsets(client: Any, groups: Sequence[str]) -> dict[str, Committed | str]:  # noqa: ANN401 - the library has no types
    """Give the committed offsets of each group, or Kafka's name of why they are unknown.

    Raises KafkaError, OSError if the coordinators of the groups cannot be found.
    """
    manager = client._manager  # noqa: SLF001 - as its own requests
    by_coordinator: dict[int, list[str]] = defaultdict(list)
    for group, broker in manager.run(client._find_coordinator_ids, list(groups)).items():  # noqa: SLF001
        by_coordinator[broker].append(group)
    found: dict[str, Committed | str] = {}
    for broker, asked in by_coordinator.items():
        found |= _of_coordinator(client, broker, asked)
    return found


def _of_coordinator(client: Any, broker: int, groups: Sequence[str]) -> Mapping[str, Committed | str]:  # noqa: ANN401
    from kafka.errors import KafkaError  # noqa: PLC0415 - slow to import

    found: dict[str, Committed | str] = {}
    for first in range(0, len(groups), A_REQUEST):
        asked = groups[first : first + A_REQUEST]
        try:
            found |= client._manager.run(_ask, client, broker, asked)  # noqa: SLF001 - as above
        except (KafkaError, OSError):
            found |= dict.fromkeys(asked, UNREACHED)
    return found


async def _ask(client: Any, broker: int, groups: Sequence[str]) -> dict[str, Committed | str]:  # noqa: ANN401
    from kafka.protocol.consumer import OffsetFetchRequest  # noqa: PLC0415 - as above

    manager = client._manager  # noqa: SLF001 - as above
    if manager.broker_version_data.api_version(OffsetFetchRequest) >= SEVERAL:
        of_group = OffsetFetchRequest.OffsetFetchRequestGroup
        request = OffsetFetchRequest(
            groups=[of_group(group_id=group, topics=None) for group in groups],
            require_stable=False,
            min_version=SEVERAL,
            max_version=SEVERAL,
        )
        answer = await manager.send(request, node_id=broker)
        return {one.group_id: _outcome(one) for one in answer.groups}
    found = {}
    for group in groups:
        single = OffsetFetchRequest(
            group_id=group,
            topics=None,
            require_stable=False,
            min_version=ALL_TOPICS,
            max_version=SEVERAL - 1,
        )
        found[group] = _outcome(await manager.send(single, node_id=broker))
    return found


def _outcome(answer: Any) -> Committed | str:  # noqa: ANN401
    from kafka.errors import for_code  # noqa: PLC0415 - as above

    if answer.error_code:
        return str(for_code(answer.error_code).message)
    found: Committed = {}
    for topic in answer.topics:
        for one in topic.partitions:
            if not one.error_code and one.committed_offset != NONE:
                found.setdefault(topic.name, {})[one.partition_index] = one.committed_offset
    return found
