"""Where the batch of records ends that holds an offset: its header alone says so, unpacked or not.

A client that is to begin behind a record must begin behind its batch: whoever asks for an offset within a
batch is given the whole of it, and unpacks it. Needs Read on the topic.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rebalance_monitor.cluster.requests.topology import Topic

# The last version that names topics by their names (KIP-516), and the first of today's brokers (KIP-896).
FIRST_VERSION, LAST_VERSION = 4, 12
# Base offset, length, leader epoch, magic, checksum, attributes, last offset less the base.
HEADER = struct.Struct(">qiibIhi")
MAGIC = 2
WAIT_MS = 500


def batch_end(client: Any, topic: Topic, partition: int, offset: int) -> int | None:  # noqa: ANN401 - the library has no types
    """Return the last offset of the batch that holds `offset`; None where the leader does not say.

    Raises what the client raises.
    """
    leaders = {place.partition: place.broker for place in topic.leaders}
    if (leader := leaders.get(partition, -1)) < 0:
        return None
    answer = client._manager.run(_ask, client, topic.name, leader, partition, offset)  # noqa: SLF001 - as its own requests
    places = [place for one in answer.responses for place in one.partitions]
    return _last(bytes(places[0].records or b""), offset) if places and not places[0].error_code else None


async def _ask(client: Any, name: str, leader: int, partition: int, offset: int) -> Any:  # noqa: ANN401
    from kafka.protocol.consumer import FetchRequest  # noqa: PLC0415 - slow to import

    of_topic = FetchRequest.FetchTopic
    # One byte: the leader gives the first batch whole, and no other (KIP-74).
    place = of_topic.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=1,
        session_epoch=-1,
        topics=[of_topic(topic=name, partitions=[place])],
        min_version=FIRST_VERSION,
        max_version=LAST_VERSION,
    )
    return await client._manager.send(request, node_id=leader)  # noqa: SLF001 - as above


def _last(records: bytes, offset: int) -> int | None:
    """Return the last offset of the first of `records`, which are batches; None for an older form."""
    if len(records) < HEADER.size:
        return None
    base, _, _, magic, _, _, delta = HEADER.unpack_from(records)
    return max(base + delta, offset) if magic == MAGIC else None
