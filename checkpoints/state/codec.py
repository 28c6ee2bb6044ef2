"""State as bytes: the blob of one shard's coordinator, the groups in it, and a lane of such blobs.

Lane: `u8 version | entries`, an entry: `i32 shard | i32 bucket | i64 last batch, ms | u32 length | u32
checksum of these four | blob`. Blob: `u8 version | u32 size | u32 checksum of the rest | zstd(u32 length |
header | u32 length | index | groups)`. Sizes and lengths are in bytes, integers big endian, checksums CRC-32:
damage within one shard's blob costs that shard alone. The header is a JSON array in the order of the
dataclass fields. The index is three arrays: names, next wakes (ms) and lengths of the groups, so that C code
takes thousands of untouched groups apart and together. A group is an array in the order of its struct's
fields. Index and groups are MessagePack: JSON took half of the whole step. What MessagePack cannot encode (a
lone surrogate, a number beyond 64 bits) makes them JSON; the first byte says which. A group is decoded on
first touch only; an untouched one is written back byte for byte. Groups of the version before are all decoded
and upgraded as its blob is read (`upgrade.py`). An unknown version is refused with `StateVersionError`;
corrupt bytes raise `StateCorruptError`.
"""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import accumulate, pairwise
from struct import Struct, error
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec
import pyarrow as pa

from rebalance_monitor.checkpoints.errors import REBUILD
from rebalance_monitor.checkpoints.state.upgrade import FLAT, upgraded
from rebalance_monitor.checkpoints.state.versions import CODEC_VERSION, OLDEST_READ
from rebalance_monitor.coordinator.state.group_state import GroupState
from rebalance_monitor.coordinator.state.shard_state import PendingRemoval, ShardState
from rebalance_monitor.coordinator.state.store import Frozen, GroupStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LANE_VERSION = 2
"""Version of the lane's own layout. The first had no checksums; a lane of it is read and written anew."""

_ENTRY = Struct(">iiqI")
_BLOB = Struct(">BI")
_CHECKSUM = Struct(">I")
_UNSEALED_LANE = 1
_LENGTH = Struct(">I")
# No array of MessagePack begins with this byte.
_JSON = ord("[")
_Index = tuple[list[str], list[int], list[int]]
_packed = msgspec.msgpack.Encoder().encode
_index = msgspec.msgpack.Decoder(_Index).decode
_group = msgspec.msgpack.Decoder(GroupState).decode
_row = msgspec.msgpack.Decoder(list[Any]).decode


class Stored(NamedTuple):
    """What is kept of one coordinator: the timestamp of its last batch (ms) and its state's blob."""

    now: int
    blob: bytes


class StateVersionError(ValueError):
    """State written by another version of the codec; `found` and `known` are version numbers."""

    def __init__(self, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"The checkpoint holds state of version {found}, this release reads version {known}. {REBUILD}"
        )


class StateCorruptError(ValueError):
    """State that no version of the codec wrote."""


def encode_state(state: ShardState) -> bytes:
    """Return the blob of `state`; the state stays usable."""
    frozen, live = state.groups.frozen, state.groups.live
    bodies = [body for _, body in frozen.values()]
    wakes = [wake for wake, _ in frozen.values()]
    for group in live.values():
        bodies.append(encode_group(group))
        wakes.append(group.wake)
    head, index = _text(_header(state)), _bytes(([*frozen, *live], wakes, [*map(len, bodies)]))
    body = b"".join((_LENGTH.pack(len(head)), head, _LENGTH.pack(len(index)), index, *bodies))
    packed: bytes = pa.compress(body, codec="zstd", asbytes=True)
    return _BLOB.pack(CODEC_VERSION, len(body)) + _CHECKSUM.pack(crc32(packed)) + packed


def decode_state(blob: bytes) -> ShardState:
    """Return the state of `blob` with all groups still frozen.

    Raises `StateVersionError` for another version and `StateCorruptError` for what is no state at all.
    """
    if not blob:
        raise StateCorruptError("the state is empty")
    if not OLDEST_READ <= blob[0] <= CODEC_VERSION:
        raise StateVersionError(blob[0], CODEC_VERSION)
    try:
        version, size = _BLOB.unpack_from(blob)
        packed = _unsealed(blob[_BLOB.size :])
        body = pa.decompress(packed, decompressed_size=size, codec="zstd", asbytes=True)
        head, at = _part(body, 0)
        index, at = _part(body, at)
        frozen = _frozen(index, body, at)
        if version == FLAT:
            frozen = {name: (wake, encode_group(_flat(group))) for name, (wake, group) in frozen.items()}
        return _state(json.loads(head), frozen, upgraded if version == FLAT else _nested)
    # Bytes that were changed may still unpack, and be no text, no JSON or no fields of ours after that.
    except (error, ValueError, TypeError, LookupError, AttributeError, OSError, pa.ArrowException) as found:
        raise StateCorruptError(f"the state of {len(blob)} bytes cannot be read: {found}") from found


def encode_lane(stored: Mapping[tuple[int, int], Stored]) -> bytes:
    """Return the bytes of the coordinators of one lane, each under its (shard, bucket)."""
    parts = [bytes((LANE_VERSION,))]
    for (shard, bucket), (now, blob) in stored.items():
        entry = _ENTRY.pack(shard, bucket, now, len(blob))
        parts += (entry, _CHECKSUM.pack(crc32(entry)), blob)
    return b"".join(parts)


def _unsealed(packed: bytes) -> bytes:
    """Return what stands behind its checksum. Raises ValueError where it is not what was written."""
    (found,) = _CHECKSUM.unpack_from(packed)
    rest = packed[_CHECKSUM.size :]
    if found != crc32(rest):
        raise ValueError("its checksum does not match its content")
    return rest


def decode_lane(lane: bytes) -> dict[tuple[int, int], Stored]:
    """Inverse of `encode_lane`; the blobs are not looked into. Raises as `decode_state` does."""
    if not lane:
        raise StateCorruptError("the lane is empty")
    if lane[0] not in {_UNSEALED_LANE, LANE_VERSION}:
        raise StateVersionError(lane[0], LANE_VERSION)
    sealed = _CHECKSUM.size if lane[0] == LANE_VERSION else 0
    found, at = {}, 1
    while at < len(lane):
        if len(lane) - at < _ENTRY.size + sealed:
            raise StateCorruptError(f"the lane of {len(lane)} bytes ends within an entry")
        shard, bucket, now, length = _ENTRY.unpack_from(lane, at)
        start = at + _ENTRY.size + sealed
        if sealed and crc32(lane[at : at + _ENTRY.size]) != _CHECKSUM.unpack_from(lane, at + _ENTRY.size)[0]:
            raise StateCorruptError(f"the lane of {len(lane)} bytes is damaged at byte {at}")
        at = start + length
        if at > len(lane):
            raise StateCorruptError(f"the state of shard {shard} ends after {len(lane) - start} bytes")
        found[shard, bucket] = Stored(now, lane[start:at])
    return found


def encode_group(state: GroupState) -> bytes:
    """Return the bytes of one group."""
    return _bytes(state)


def decode_group(body: bytes) -> GroupState:
    """Inverse of `encode_group`. Raises ValueError for what no version of the codec wrote."""
    return msgspec.convert(json.loads(body), GroupState) if body[0] == _JSON else _group(body)


_FIRST_HEADER = 14
"""How many fields the header of the oldest version that is read has."""

_HEADER = tuple(item.name for item in fields(ShardState) if item.name != "groups")


def _header(state: ShardState) -> list[Any]:
    values = {name: getattr(state, name) for name in _HEADER}
    held = state.pending
    if held is not None:
        values["pending"] = [held.group, held.offset, held.ts, held.history, msgspec.to_builtins(held.state)]
    return list(values.values())


def _flat(body: bytes) -> GroupState:
    """Return a group of the version before."""
    return upgraded(json.loads(body) if body[0] == _JSON else _row(body))


def _nested(values: list[Any]) -> GroupState:
    return msgspec.convert(values, GroupState)


def _state(
    values: list[Any], frozen: dict[str, Frozen], read: Callable[[list[Any]], GroupState]
) -> ShardState:
    if len(values) < _FIRST_HEADER:
        raise ValueError("the header has too few fields")
    # One of before has not the newest fields, which come last and have defaults.
    header = dict(zip(_HEADER[: len(values)], values, strict=True))
    if header["pending"] is not None:
        name, offset, ts, history, group = header["pending"]
        header["pending"] = PendingRemoval(name, offset, ts, history, read(group))
    return ShardState(groups=GroupStore(frozen, decode_group), **header)


def _frozen(index: bytes, body: bytes, at: int) -> dict[str, Frozen]:
    names, wakes, lengths = msgspec.convert(json.loads(index), _Index) if index[0] == _JSON else _index(index)
    ends = list(accumulate(lengths, initial=at))
    if ends[-1] != len(body) or ends != sorted(ends):
        raise ValueError("the groups are longer or shorter than their index says")
    bodies = [body[start:end] for start, end in pairwise(ends)]
    return dict(zip(names, zip(wakes, bodies, strict=True), strict=True))


def _part(body: bytes, at: int) -> tuple[bytes, int]:
    """Return the part that begins with its length, and where it ends."""
    (length,) = _LENGTH.unpack_from(body, at)
    start = at + _LENGTH.size
    return body[start : start + length], start + length


def _bytes(value: GroupState | _Index) -> bytes:
    try:
        return _packed(value)
    except (UnicodeEncodeError, OverflowError):
        return _text(msgspec.to_builtins(value))


def _text(values: list[Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
