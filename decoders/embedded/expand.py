"""Opens what clients embed in group records, as JSON-able data: the `expanded` part of `decode --expand`.

Type 2 with protocol type "consumer" or "connect": each member's subscription and assignment, and the
assignor's own user data where it is known (sticky, cooperative-sticky, stream). Type 5: the protocols that a
classic member offers. What cannot be read is given as `{"error": {...}}` in its place, never raised.
"""

import base64
import dataclasses
from collections.abc import Callable

from rebalance_monitor.decoders.embedded import connect, consumer, sticky, streams
from rebalance_monitor.decoders.layouts.schema import camel
from rebalance_monitor.decoders.record import Decoded, Failure
from rebalance_monitor.decoders.records.classic import GroupMetadataValue
from rebalance_monitor.decoders.records.consumer import ConsumerGroupMemberMetadataValue

_Decode = Callable[[bytes], object]
# Assignor -> readers of the user data in a subscription and in an assignment.
_USER_DATA: dict[str, tuple[_Decode | None, _Decode | None]] = {
    "sticky": (sticky.decode_sticky, None),
    "cooperative-sticky": (sticky.decode_cooperative_sticky, None),
    "stream": (streams.decode_streams_subscription, streams.decode_streams_assignment),
}


def expand(found: Decoded) -> dict[str, object] | None:
    """Return what is embedded in a record, or None where nothing is."""
    match found.value:
        case GroupMetadataValue(protocol_type="consumer"):
            return {"members": _consumers(found.value)}
        case GroupMetadataValue(protocol_type="connect"):
            return {"members": _workers(found.value)}
        case ConsumerGroupMemberMetadataValue(classic_member_metadata=classic) if classic is not None:
            offers = [
                {"name": p.name, "subscription": _subscription(p.metadata, p.name)}
                for p in classic.supported_protocols
            ]
            return {"supportedProtocols": offers}
        case _:
            return None


def _consumers(group: GroupMetadataValue) -> list[dict[str, object]]:
    assignor = group.protocol or ""
    return [
        {
            "memberId": member.member_id,
            "subscription": _subscription(member.subscription, assignor),
            "assignment": _assignment(member.assignment, assignor),
        }
        for member in group.members
    ]


def _workers(group: GroupMetadataValue) -> list[dict[str, object]]:
    return [
        {
            "memberId": member.member_id,
            "metadata": plain(connect.decode_connect_metadata(member.subscription)),
            "assignment": plain(connect.decode_connect_assignment(member.assignment)),
        }
        for member in group.members
    ]


def _subscription(data: bytes, assignor: str) -> object:
    found = consumer.decode_subscription(data)
    if isinstance(found, Failure):
        return plain(found)
    return _with_user_data(found, found.user_data, _USER_DATA.get(assignor, (None, None))[0])


def _assignment(data: bytes, assignor: str) -> object:
    found = consumer.decode_assignment(data)
    if isinstance(found, Failure):
        return plain(found)
    return _with_user_data(found, found.user_data, _USER_DATA.get(assignor, (None, None))[1])


def _with_user_data(found: object, data: bytes | None, decode: _Decode | None) -> object:
    form = plain(found)
    if isinstance(form, dict) and data and decode is not None:
        form["userDataExpanded"] = plain(decode(data))
    return form


def plain(found: object) -> object:
    """Return dataclasses as objects with Kafka's names, bytes as base64, (topic, partitions) as an object."""
    match found:
        case Failure():
            return {"error": {"reason": found.reason, "at": found.at, "field": found.field}}
        case bytes():
            return base64.b64encode(found).decode()
        case (str() as topic, tuple() as partitions):
            return {"topic": topic, "partitions": list(partitions)}
        case tuple():
            return [plain(item) for item in found]
        case _ if dataclasses.is_dataclass(found):
            return _object(found)
        case _:
            return found


def _object(found: object) -> dict[str, object]:
    pairs = ((f.name, getattr(found, f.name)) for f in dataclasses.fields(found))  # type: ignore[arg-type] # asked before
    return {camel(name): plain(value) for name, value in pairs if name != "notes" or value}
