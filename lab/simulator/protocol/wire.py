"""Bytes as coordinators and clients write them: GroupMetadata v3, and the embedded consumer protocol.

Each family's subscription has its own shape (version, user data, owned partitions, generation): the monitor
reads the family from it. The decoders read these bytes back; tests hold that.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Owned = Sequence[tuple[str, Sequence[int]]]
    """Partitions by topic."""

_H, _I, _Q = Struct(">h").pack, Struct(">i").pack, Struct(">q").pack
_NULL = _I(-1)
_NO_RACK = _H(-1)


def string(text: str) -> bytes:
    """Write a STRING."""
    data = text.encode()
    return _H(len(data)) + data


def nullable(text: str | None) -> bytes:
    """Write a NULLABLE_STRING."""
    return _H(-1) if text is None else string(text)


def data(content: bytes | None) -> bytes:
    """Write NULLABLE_BYTES."""
    return _NULL if content is None else _I(len(content)) + content


def _strings(texts: Sequence[str]) -> bytes:
    return _I(len(texts)) + b"".join(map(string, texts))


def owned(partitions: Owned) -> bytes:
    """Write an array of topics with their partitions."""
    parts = [_I(len(partitions))]
    for topic, numbers in partitions:
        parts += (string(topic), _I(len(numbers)), *map(_I, numbers))
    return b"".join(parts)


def subscription(family: str, topics: Sequence[str], has: Owned, generation: int, *, sticky: bool) -> bytes:
    """Write what a member of `family` subscribes with; `sticky`: cooperative-sticky is offered.

    `has`: what it owned when it joined, `generation` the one it came from (-1: new).
    """
    joined = Joined(_strings(sorted(topics)), has, generation, sticky)
    return _SUBSCRIPTIONS.get(family.removesuffix("-cooperative"), _sarama)(joined)


@dataclass(frozen=True, slots=True)
class Joined:
    """The subscription in a JoinGroup: topics (bytes), owned partitions, generation, whether it is sticky."""

    names: bytes
    has: Owned
    generation: int
    sticky: bool


def _java(one: Joined) -> bytes:
    user = _I(one.generation) if one.sticky else None
    kept = owned(one.has if one.sticky else ())
    return b"".join((_H(3), one.names, data(user), kept, _I(one.generation), _NO_RACK))


def _librdkafka(one: Joined) -> bytes:
    # cooperative-sticky: user data from its second generation on.
    sends_owned = one.sticky and one.generation >= 0
    user = owned(one.has) + _I(one.generation) if sends_owned else b""
    kept = owned(one.has if one.sticky else ())
    generation, rack = _I(one.generation if one.sticky else -1), string("")
    return b"".join((_H(3), one.names, data(user), kept, generation, rack))


def _kafka_go(one: Joined) -> bytes:
    # It writes version 1 without owned partitions.
    return b"".join((_H(1), one.names, data(None)))


def _plain(one: Joined) -> bytes:
    return b"".join((_H(0), one.names, data(b"")))


def _franz_go(one: Joined) -> bytes:
    # cooperative-sticky: without a generation before its first one.
    user = owned(one.has) + (_I(one.generation) if one.generation >= 0 else b"") if one.sticky else None
    kept = owned(one.has if one.sticky else ())
    return b"".join((_H(3), one.names, data(user), kept, _I(one.generation), _NO_RACK))


def _streams(one: Joined) -> bytes:
    user = _I(11) + _I(11) + b"\1" * 16
    return b"".join((_H(3), one.names, data(user), owned(one.has), _I(one.generation), _NO_RACK))


def _connect(one: Joined) -> bytes:
    del one
    return b"".join((_H(1), string("http://worker:8083/"), _Q(12), data(b"")))


def _sarama(one: Joined) -> bytes:
    return b"".join((_H(0), one.names, data(None)))


_SUBSCRIPTIONS: dict[str, Callable[[Joined], bytes]] = {
    "java": _java,
    "librdkafka": _librdkafka,
    "kafka-python": _plain,
    "aiokafka": _plain,
    "kafkajs": _plain,
    "kafka-go": _kafka_go,
    "franz-go": _franz_go,
    "streams": _streams,
    "connect": _connect,
    "sarama": _sarama,
}


def assignment(has: Owned) -> bytes:
    """Write an assignment."""
    return b"".join((_H(0), owned(has), _NULL))


def group_key(group: str) -> bytes:
    """Write the key of type 2."""
    return _H(2) + string(group)


def member(
    member_id: str,
    instance: str | None,
    client_id: str,
    host: str,
    rebalance: int,
    session: int,
    subscribed: bytes,
    assigned: bytes,
) -> bytes:
    """Write one member of a classic group."""
    return b"".join(
        (
            string(member_id),
            nullable(instance),
            string(client_id),
            string(host),
            _I(rebalance),
            _I(session),
            data(subscribed),
            data(assigned),
        )
    )


def group_value(
    kind: str, generation: int, protocol: str | None, leader: str | None, at: int, members: Iterable[bytes]
) -> bytes:
    """Write the value of type 2, version 3; `at` is currentStateTimestamp."""
    listed = list(members)
    head = (_H(3), string(kind), _I(generation), nullable(protocol), nullable(leader), _Q(at))
    return b"".join((*head, _I(len(listed)), *listed))
