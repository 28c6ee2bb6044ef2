"""The protocols embedded in group metadata: our reading of each, in the shape the Java program prints."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

from rebalance_monitor.decoders import Failure
from rebalance_monitor.decoders.embedded import connect, consumer, sticky, streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Values = dict[str, Any]
# What Kafka's generated JSON leaves out of an older version.
_SUBSCRIPTION_SINCE = {"ownedPartitions": 1, "generationId": 2, "rackId": 3}


def read(kind: str, data: bytes) -> object:
    """Read `data` as the structure `kind` with our decoder."""
    return _READERS[kind][0](data)


def ours(kind: str, data: bytes) -> Values | Failure:
    """Give our reading of `data` in the shape in which the Java program prints it."""
    found = read(kind, data)
    return found if isinstance(found, Failure) else _READERS[kind][1](found)


def differing(lines: Iterable[Values]) -> list[str]:
    """Give the kind and label of every line that we read otherwise than Kafka."""
    return [
        f"{line['kind']} {line['label']}"
        for line in lines
        if _sorted(ours(line["kind"], base64.b64decode(line["bytes"]))) != _sorted(line["kafka"])
    ]


def _sorted(values: object) -> object:
    # Assignors and Connect keep partitions and tasks in sets: no order is promised.
    if not isinstance(values, dict):
        return values
    unordered = ("partitions", "connectors", "tasks", "revoked_connectors", "revoked_tasks")
    return {k: sorted(v) if k in unordered else _sorted(v) for k, v in values.items()}


def _subscription(found: consumer.Subscription) -> Values:
    data = {
        "topics": list(found.topics),
        "userData": _text(found.user_data),
        "ownedPartitions": _named(found.owned_partitions),
        "generationId": found.generation_id,
        "rackId": found.rack_id,
    }
    known = {name: value for name, value in data.items() if _SUBSCRIPTION_SINCE.get(name, 0) <= found.version}
    return {"version": found.version, "data": known}


def _assignment(found: consumer.Assignment) -> Values:
    data = {"assignedPartitions": _named(found.partitions), "userData": _text(found.user_data)}
    return {"version": found.version, "data": data}


def _sticky(found: sticky.StickyUserData) -> Values:
    pairs = [[topic, number] for topic, numbers in found.previous_assignment for number in numbers]
    return {"generation": found.generation, "partitions": pairs}


def _connect_metadata(found: connect.ConnectMetadata) -> Values:
    head = {"version": found.version, "url": found.url, "offset": found.config_offset}
    if not found.version:
        return head
    allocation = None if found.allocation is None else _connect_assignment(found.allocation)
    return {**head, "allocation": allocation}


def _connect_assignment(found: connect.ConnectAssignment) -> Values:
    head = {
        "version": found.version,
        "error": found.error,
        "leader": found.leader,
        "leader_url": found.leader_url,
        "offset": found.config_offset,
        **_connectors_and_tasks("", found.assignment),
    }
    if not found.version:
        return head
    return {**head, **_connectors_and_tasks("revoked_", found.revoked), "delay": found.delay}


def _connectors_and_tasks(prefix: str, assigned: Iterable[connect.ConnectorTasks]) -> Values:
    # Task -1 stands for the connector itself.
    tasks = [(a.connector, task) for a in assigned for task in a.tasks]
    return {
        f"{prefix}connectors": [name for name, task in tasks if task < 0],
        f"{prefix}tasks": [[name, task] for name, task in tasks if task >= 0],
    }


def _streams_subscription(found: streams.StreamsSubscription) -> Values:
    return {
        "version": found.version,
        "latest_supported_version": found.latest_supported_version,
        "process_id": str(uuid.UUID(bytes=found.process_id)),
        "user_end_point": found.user_end_point.decode() or None,
        "error_code": found.error_code,
        "client_tags": {tag.key.decode(): tag.value.decode() for tag in found.client_tags},
    }


def _streams_assignment(found: streams.StreamsAssignment) -> Values:
    names = ("version", "commonly_supported_version", "error_code", "next_rebalance_ms")
    return {name: getattr(found, name) for name in names}


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _named(partitions: Iterable[tuple[str, tuple[int, ...]]]) -> list[Values]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions]


_READERS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], Values]]] = {
    "subscription": (consumer.decode_subscription, _subscription),
    "assignment": (consumer.decode_assignment, _assignment),
    "sticky": (sticky.decode_sticky, _sticky),
    "cooperative_sticky": (sticky.decode_cooperative_sticky, _sticky),
    "connect_metadata": (connect.decode_connect_metadata, _connect_metadata),
    "connect_assignment": (connect.decode_connect_assignment, _connect_assignment),
    "streams_subscription": (streams.decode_streams_subscription, _streams_subscription),
    "streams_assignment": (streams.decode_streams_assignment, _streams_assignment),
}
KINDS = tuple(_READERS)
