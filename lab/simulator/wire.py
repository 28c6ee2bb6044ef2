"""Bytes as coordinators and clients write them: GroupMetadata v3, and the embedded consumer protocol.

Each family's subscription has its own shape (version, user data, owned partitions, generation): the monitor
reads the family from it. The decoders read these bytes back; tests hold that.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    names = _strings(sorted(topics))
    match family.partition("-")[0]:
        case "java":
            user = _I(generation) if sticky else None
            kept = owned(has if sticky else ())
            return b"".join((_H(3), names, data(user), kept, _I(generation), _NO_RACK))
        case "librdkafka":
            # cooperative-sticky: user data from its second generation on.
            user = b"" if not sticky or generation < 0 else owned(has) + _I(generation)
            kept = owned(has if sticky else ())
            return b"".join((_H(3), names, data(user), kept, _I(generation if sticky else -1), _NO_RACK))
        case "kafka" if family == "kafka-go":
            return b"".join((_H(1), names, data(None)))
        case "kafka" | "aiokafka" | "kafkajs":
            return b"".join((_H(0), names, data(b"")))
        case "franz":
            user = owned(has) + _I(generation) if sticky else None
            return b"".join((_H(2), names, data(user), owned(has if sticky else ()), _I(generation)))
        case "streams":
            user = _I(11) + _I(11) + b"\1" * 16
            return b"".join((_H(3), names, data(user), owned(has), _I(generation), _NO_RACK))
        case "connect":
            return b"".join((_H(1), string("http://worker:8083/"), _Q(12), data(b"")))
        case _:
            return b"".join((_H(1), names, data(None), owned(())))


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
