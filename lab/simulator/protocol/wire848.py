"""Bytes of KIP-848 records (types 3 and 5 to 8), as Kafka 4.1 writes them; keys are never flexible."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.protocol.wire import string

if TYPE_CHECKING:
    from collections.abc import Sequence

    Parts = Sequence[tuple[bytes, Sequence[int]]]
    """Partitions by topic id."""

_H, _I, _Q, _B = Struct(">h").pack, Struct(">i").pack, Struct(">q").pack, Struct(">b").pack
_NO_TAGS = b"\0"
GROUP, MEMBER, TARGET, TARGET_MEMBER, CURRENT = 3, 5, 6, 7, 8


def _uvarint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _text(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    data = text.encode()
    return _uvarint(len(data) + 1) + data


def _parts(parts: Parts) -> bytes:
    found = [_uvarint(len(parts) + 1)]
    for topic, numbers in parts:
        found += (topic, _uvarint(len(numbers) + 1), *map(_I, numbers), _NO_TAGS)
    return b"".join(found)


def key(kind: int, group: str, member_id: str | None = None) -> bytes:
    """Write the key of a type; of a member, where the type has one for each."""
    return _H(kind) + string(group) + (b"" if member_id is None else string(member_id))


def group_epoch(epoch: int, metadata_hash: int) -> bytes:
    """Write type 3; the hash is left out where it is 0."""
    tags = _NO_TAGS if not metadata_hash else b"\1\0\x08" + _Q(metadata_hash)
    return _H(0) + _I(epoch) + tags


def member(instance: str | None, client_id: str, host: str, topics: Sequence[str], rebalance: int) -> bytes:
    """Write type 5 of a member that speaks the consumer protocol."""
    listed = _uvarint(len(topics) + 1) + b"".join(map(_text, sorted(topics)))
    head = (_H(0), _text(instance), _text(None), _text(client_id), _text(host), listed, _text(None))
    # Tag 0: no metadata of a classic member.
    return b"".join((*head, _I(rebalance), _text(None), b"\1\0\1\0"))


def target_epoch(epoch: int) -> bytes:
    """Write type 6."""
    return _H(0) + _I(epoch) + _NO_TAGS


def target(parts: Parts) -> bytes:
    """Write type 7."""
    return _H(0) + _parts(parts) + _NO_TAGS


def current(epoch: int, previous: int, state: int, owned: Parts, revoking: Parts) -> bytes:
    """Write type 8."""
    head = (_H(0), _I(epoch), _I(previous), _B(state))
    return b"".join((*head, _parts(owned), _parts(revoking), _NO_TAGS))
