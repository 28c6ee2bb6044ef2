"""The embedded engine's state on disk: one changelog file, one durable write a batch.

Before a batch is applied, its offsets and its time are written: a batch that was begun runs again as the same
batch. State follows every few seconds: the shards that changed, then a commit. It becomes durable with the
next batch's write. A state that is lost costs batches that run again; the ledger knows which are published.

File: `magic | frames`. Frame: `u8 kind | u32 length | u32 crc32 of kind and content | content`.
`H` {query, topic}, `S` a lane of shards (codec), `C` {batch, now, ends, still}, `B` {batch, now, limited,
until, still}. A file begins with H, the S of all shards, and C. What follows the first frame that is damaged,
or was cut short by the death of the process, is not read. A file that has grown enough is followed by a new
one; `KEPT` stay, so that a damaged one costs the batches since the one before. Integers are big endian.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any

from rebalance_monitor.checkpoints.errors import REBUILD
from rebalance_monitor.checkpoints.state.codec import (
    StateCorruptError,
    StateVersionError,
    Stored,
    decode_lane,
    encode_lane,
)
from rebalance_monitor.checkpoints.storage.files import remove_folder, sync_folder
from rebalance_monitor.checkpoints.storage.lines import lines_at, read_whole
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rebalance_monitor.checkpoints.storage.places import Place

MAGIC = b"RMCL\x01"
KEPT = 3
LEAST_BYTES, GROWTH = 16 << 20, 4
"""A file is followed by a new one from so many bytes on, and so many times its first state."""

_FRAME = Struct(">BII")
_NAME = re.compile(r"changelog-(\d{20})")


class ChangelogError(ConfigError):
    """No file of the changelog can be read, by anybody or by this release."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch as it was begun. now: its timestamp (ms). until: partition -> next offset after it.

    still: shards that its time did not reach, beside those that it did not read.
    """

    batch: int
    now: int
    limited: bool
    until: dict[int, int]
    still: tuple[int, ...] = ()


@dataclass(slots=True)
class Recovered:
    """What a changelog says. batch, now, ends: of the last commit, -1 and nothing before the first.

    stored: shard -> state. still: shards that this time did not reach. begun: batches after that commit,
    oldest first. length: bytes that can be read.
    """

    query: str = ""
    topic: str = ""
    batch: int = -1
    now: int = -1
    ends: dict[int, int] = field(default_factory=dict)
    stored: dict[int, Stored] = field(default_factory=dict)
    still: frozenset[int] = frozenset()
    begun: list[Begun] = field(default_factory=list)
    length: int = 0
    is_whole: bool = False

    @property
    def newest(self) -> int:
        """The newest batch that was begun."""
        return self.begun[-1].batch if self.begun else self.batch


class Changelog:
    """The changelog in `folder`, open for one process. Raises ChangelogError, OSError."""

    def __init__(self, folder: Place, topic: str = "") -> None:
        self._folder = folder
        self._waiting = bytearray()
        found = newest_file(folder)
        self.recovered = found[1] if found else Recovered(str(uuid.uuid4()), topic)
        self._stored, self._ends = dict(self.recovered.stored), self.recovered.ends
        if found:
            self._number = _number(found[0])
            self._at = self.recovered.length
            self._first = self._at
            for later in _files(folder):
                if _number(later) > self._number:
                    # Its head cannot be read: numbers must go on from the file that can.
                    _remove(later)
        else:
            self._roll(0, b"")

    @property
    def query(self) -> str:
        """The name of the query, as long as this state lives."""
        return self.recovered.query

    def begin(self, begun: Begun) -> None:
        """Make a batch durable before it is applied, and with it the state committed before. Blocks."""
        body = {name: getattr(begun, name) for name in Begun.__slots__}
        self._waiting += _frame(b"B", _json(body))
        self._write()

    def commit(
        self,
        batch: int,
        now: int,
        ends: Mapping[int, int],
        changed: Mapping[int, Stored],
        unkept: Collection[int] = (),
        still: Collection[int] = (),
    ) -> None:
        """Let the next write have the state after `batch`: the shards that `changed`. May block.

        `unkept`: shards whose state is the one before, so they are to be read again from where that ends.
        Shards that are not in `ends` have not been read and stay as they were; their clock, and that of those
        that are `still`, is the one of their state.
        """
        self._stored |= changed
        behind = sorted({*still, *(self._ends.keys() - ends.keys())})
        self._ends = ends = {
            **self._ends,
            **ends,
            **{shard: self._ends.get(shard, 0) for shard in unkept},
        }
        body = _json({"batch": batch, "now": now, "ends": ends, "still": behind})
        frames = _frame(b"S", _lane(changed)) + _frame(b"C", body)
        if self._at + len(self._waiting) + len(frames) > max(LEAST_BYTES, GROWTH * self._first):
            self._roll(batch + 1, body)
        else:
            self._waiting += frames

    def close(self) -> None:
        """Write what was committed. Blocks."""
        if self._waiting:
            self._write()

    def _write(self) -> None:
        path = self._folder / _name(self._number)
        self._at = lines_at(path).append(self._waiting, self._at)
        self._waiting.clear()

    def _roll(self, number: int, commit: bytes) -> None:
        """Begin a new file with all of the state; the old ones are complete without it."""
        head = commit or _json({"batch": -1, "now": -1, "ends": {}})
        content = MAGIC + _frame(b"H", _json({"query": self.query, "topic": self.recovered.topic}))
        content += _frame(b"S", _lane(self._stored)) + _frame(b"C", head)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._first = lines_at(self._folder / _name(number)).append(content, 0)
        sync_folder(self._folder)
        self._number, self._at = number, self._first
        self._waiting.clear()
        for old in _files(self._folder)[:-KEPT]:
            _remove(old)


def newest_file(folder: Place) -> tuple[Place, Recovered] | None:
    """Return the newest file of which at least the first state can be read; None without any file.

    Raises ChangelogError where there are files and none can be read, or the newest is of another version.
    """
    files, why = _files(folder), "it is damaged"
    for path in reversed(files):
        content = read_whole(path)
        try:
            found = recover(content)
        except StateVersionError as error:
            raise ChangelogError(
                f"The changelog in {folder} {_version(error.found, error.known)}.", REBUILD
            ) from error
        if found.is_whole:
            return path, found
        if content.startswith(MAGIC[:-1]) and content[len(MAGIC) - 1 :][:1] not in {b"", MAGIC[-1:]}:
            why = f"it {_version(content[len(MAGIC) - 1], MAGIC[-1])}"
    if files:
        raise ChangelogError(f"No file of the changelog in {folder} can be read: {why}.", REBUILD)
    return None


def _version(found: int, known: int) -> str:
    return f"is of version {found}, this release reads version {known}"


def recover(content: bytes) -> Recovered:
    """Return what a file says, up to its first frame that is damaged or cut short. StateVersionError."""
    found = Recovered()
    changed: dict[int, Stored] = {}
    for kind, body, end in _frames(content):
        try:
            _take(found, kind, body, changed)
        except StateVersionError:
            raise
        except (StateCorruptError, ValueError, KeyError, TypeError, AttributeError):
            # The checksum is right, so another version wrote it, or something else did.
            break
        found.length = end
    return found


def _take(found: Recovered, kind: bytes, body: bytes, changed: dict[int, Stored]) -> None:
    match kind:
        case b"H":
            entry = json.loads(body)
            found.query, found.topic = str(entry["query"]), str(entry["topic"])
        case b"S":
            changed |= {shard: stored for (shard, _), stored in decode_lane(body).items()}
        case b"C":
            entry = json.loads(body)
            found.batch, found.now = int(entry["batch"]), int(entry["now"])
            found.ends = _offsets(entry["ends"])
            found.still = frozenset(map(int, entry.get("still", ())))
            found.stored |= changed
            found.begun, found.is_whole = [], True
            changed.clear()
        case b"B":
            entry = json.loads(body)
            until, still = _offsets(entry.pop("until")), tuple(map(int, entry.pop("still", ())))
            found.begun.append(Begun(**entry, until=until, still=still))
        case _:
            raise ValueError(f"unknown frame {kind!r}")


def _frames(content: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield the kind and content of each frame that is whole, and where it ends."""
    at = len(MAGIC)
    if not content.startswith(MAGIC):
        return
    while at + _FRAME.size <= len(content):
        kind, length, checksum = _FRAME.unpack_from(content, at)
        start = at + _FRAME.size
        body, at = content[start : start + length], start + length
        if len(body) < length or _checksum(bytes((kind,)), body) != checksum:
            return
        yield bytes((kind,)), body, at


def _frame(kind: bytes, body: bytes) -> bytes:
    return _FRAME.pack(kind[0], len(body), _checksum(kind, body)) + body


def _checksum(kind: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(kind))


def _lane(stored: Mapping[int, Stored]) -> bytes:
    return encode_lane({(shard, 0): one for shard, one in stored.items()})


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _offsets(ends: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in ends.items()}


def _name(number: int) -> str:
    return f"changelog-{number:020d}"


def _number(path: Place) -> int:
    return int(path.name.removeprefix("changelog-"))


def _files(folder: Place) -> list[Place]:
    return sorted((path for path in folder.glob("changelog-*") if _NAME.fullmatch(path.name)), key=_number)


def _remove(path: Place) -> None:
    remove_folder(path) if path.is_dir() else path.unlink(missing_ok=True)
