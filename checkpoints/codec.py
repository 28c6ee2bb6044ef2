"""State as bytes: the blob of one shard's coordinator, an entry per group in it, and a lane of such blobs.

Lane: `u8 version | entries`, an entry: `i32 shard | i32 bucket | i64 last batch, ms | u32 length | blob`.
Blob: `u8 version | u32 size | zstd(u32 length | header | frames)`; size and length in bytes, integers big
endian. Frame: `u32 length | u16 length, group utf-8 | i64 next wake, ms | u8 version | body`. The header is a
JSON array in the order of the dataclass fields, and so are bodies, in MessagePack: every touched group is
decoded and encoded in every batch, and JSON took half of the whole step. What MessagePack cannot say (a lone
surrogate, a number beyond 64 bits) makes the body JSON; its first byte tells. Frames are decoded on first
touch only; what was not touched is written back byte for byte. An unknown version is refused with
`StateVersionError`; corrupt bytes raise `StateCorruptError`.
"""

from __future__ import annotations

import json
from dataclasses import fields
from operator import attrgetter
from struct import Struct, error
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from rebalance_monitor.coordinator.state import GroupState, Member, PendingRemoval, ShardState, StormState
from rebalance_monitor.coordinator.store import Frozen, GroupStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CODEC_VERSION = 2
"""Version of the blob; goes up with any change to it or to the header's fields."""

FRAME_VERSION = 5
"""Version of a group's body; goes up with any change to the fields of a group, member or storm."""

FRAMES_READ = (3, 4, FRAME_VERSION)
"""What is read: fields that came later take their defaults. A body of version 3 is JSON; a group keeps its
body until it is next touched."""

LANE_VERSION = 1
"""Version of the lane's own layout."""

_ENTRY = Struct(">iiqI")
_BLOB = Struct(">BI")
_LENGTH = Struct(">I")
_NAME = Struct(">H")
_FRAME = Struct(">IH")
_WAKE = Struct(">qB")
# No array of MessagePack begins with this byte.
_JSON = ord("[")
_packed = msgspec.msgpack.Encoder().encode
_unpacked = msgspec.msgpack.Decoder().decode


class Stored(NamedTuple):
    """What is kept of one coordinator: the timestamp of its last batch (ms) and its state's blob."""

    now: int
    blob: bytes


class StateVersionError(ValueError):
    """State written by another version of the codec; `found` and `known` are version numbers."""

    def __init__(self, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"the checkpoint holds state of version {found}, this release reads version {known}: start with "
            "--rebuild-state to rebuild the state from the topic (findings and notifications survive)"
        )


class StateCorruptError(ValueError):
    """State that no version of the codec wrote."""


def encode_state(state: ShardState) -> bytes:
    """Return the blob of `state`; the state stays usable."""
    head = _text(_header(state))
    body = b"".join((_LENGTH.pack(len(head)), head, *_frames(state.groups)))
    packed: bytes = pa.compress(body, codec="zstd", asbytes=True)
    return _BLOB.pack(CODEC_VERSION, len(body)) + packed


def decode_state(blob: bytes) -> ShardState:
    """Return the state of `blob` with all groups still frozen.

    Raises `StateVersionError` for another version and `StateCorruptError` for what is no state at all.
    """
    if not blob:
        raise StateCorruptError("the state is empty")
    if blob[0] != CODEC_VERSION:
        raise StateVersionError(blob[0], CODEC_VERSION)
    try:
        _, size = _BLOB.unpack_from(blob)
        body = pa.decompress(blob[_BLOB.size :], decompressed_size=size, codec="zstd", asbytes=True)
        (length,) = _LENGTH.unpack_from(body)
        end = _LENGTH.size + length
        return _state(json.loads(body[_LENGTH.size : end]), dict(_thawable(body, end)))
    except StateVersionError:
        raise
    # Bytes that were changed may still unpack, and be no text, no JSON or no fields of ours after that.
    except (error, ValueError, TypeError, LookupError, AttributeError, OSError, pa.ArrowException) as found:
        raise StateCorruptError(f"the state of {len(blob)} bytes cannot be read: {found}") from found


def encode_lane(stored: Mapping[tuple[int, int], Stored]) -> bytes:
    """Return the bytes of the coordinators of one lane, each under its (shard, bucket)."""
    parts = [bytes((LANE_VERSION,))]
    for (shard, bucket), (now, blob) in stored.items():
        parts += (_ENTRY.pack(shard, bucket, now, len(blob)), blob)
    return b"".join(parts)


def decode_lane(lane: bytes) -> dict[tuple[int, int], Stored]:
    """Inverse of `encode_lane`; the blobs are not looked into. Raises as `decode_state` does."""
    if lane[:1] != bytes((LANE_VERSION,)):
        if not lane:
            raise StateCorruptError("the lane is empty")
        raise StateVersionError(lane[0], LANE_VERSION)
    found, at = {}, 1
    while at < len(lane):
        if len(lane) - at < _ENTRY.size:
            raise StateCorruptError(f"the lane of {len(lane)} bytes ends within an entry")
        shard, bucket, now, length = _ENTRY.unpack_from(lane, at)
        start = at + _ENTRY.size
        at = start + length
        if at > len(lane):
            raise StateCorruptError(f"the state of shard {shard} ends after {len(lane) - start} bytes")
        found[shard, bucket] = Stored(now, lane[start:at])
    return found


def encode_group(state: GroupState) -> bytes:
    """Return the body of one group's frame."""
    values = _plain(state)
    try:
        return _packed(values)
    except (UnicodeEncodeError, OverflowError):
        return _text(values)


def decode_group(body: bytes) -> GroupState:
    """Inverse of `encode_group`."""
    return _group(json.loads(body) if body[0] == _JSON else _unpacked(body))


_HEADER = tuple(item.name for item in fields(ShardState) if item.name != "groups")
_GROUP = tuple(item.name for item in fields(GroupState))
_MEMBERS = _GROUP.index("members")
_DEPARTED = _GROUP.index("departed")
_STORM = _GROUP.index("storm")
_member = attrgetter(*(item.name for item in fields(Member)))
_storm = attrgetter(*(item.name for item in fields(StormState)))
_group_fields = attrgetter(*_GROUP)


def _plain(state: GroupState) -> list[Any]:
    values = list(_group_fields(state))
    values[_MEMBERS] = [_member(member) for member in state.members]
    values[_DEPARTED] = [_member(member) for member in state.departed]
    values[_STORM] = _storm(state.storm)
    return values


def _group(values: list[Any]) -> GroupState:
    values[_MEMBERS] = [Member(*member) for member in values[_MEMBERS]]
    values[_DEPARTED] = [Member(*member) for member in values[_DEPARTED]]
    values[_STORM] = StormState(*values[_STORM])
    return GroupState(*values)


def _header(state: ShardState) -> list[Any]:
    values = {name: getattr(state, name) for name in _HEADER}
    held = state.pending
    if held is not None:
        values["pending"] = [held.group, held.offset, held.ts, held.history, _plain(held.state)]
    return list(values.values())


def _state(values: list[Any], frozen: dict[str, Frozen]) -> ShardState:
    header = dict(zip(_HEADER, values, strict=True))
    if header["pending"] is not None:
        name, offset, ts, history, group = header["pending"]
        header["pending"] = PendingRemoval(name, offset, ts, history, _group(group))
    return ShardState(groups=GroupStore(frozen, decode_group), **header)


def _frames(groups: GroupStore) -> Iterator[bytes]:
    for _, frame, _ in groups.frozen.values():
        yield frame
    for group, state in groups.live.items():
        yield _frame(group, state.wake, encode_group(state))


def _frame(group: str, wake: int, body: bytes) -> bytes:
    name = group.encode(errors="surrogatepass")
    length = _NAME.size + len(name) + _WAKE.size + len(body)
    return b"".join(
        (_LENGTH.pack(length), _NAME.pack(len(name)), name, _WAKE.pack(wake, FRAME_VERSION), body)
    )


def _thawable(body: bytes, at: int) -> Iterable[tuple[str, Frozen]]:
    while at < len(body):
        length, size = _FRAME.unpack_from(body, at)
        end, name = at + _LENGTH.size + length, at + _FRAME.size
        start = name + size + _WAKE.size
        wake, version = _WAKE.unpack_from(body, name + size)
        if version not in FRAMES_READ:
            raise StateVersionError(version, FRAME_VERSION)
        yield body[name : name + size].decode(errors="surrogatepass"), (wake, body[at:end], start - at)
        at = end


def _text(values: list[Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
