"""A file of lines that grows and can be cut back to a length: `findings.jsonl`.

On this machine it is one file. Object stores append nothing, so there it is a folder of parts, each named by
the byte at which it begins: their concatenation in the order of names is the file, readers of folders (Spark,
DuckDB) take it as it is. Cutting deletes whole parts: a length is only ever one that a part ends at.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.owned import make_folder, require_owned
from rebalance_monitor.checkpoints.storage.places import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.checkpoints.storage.places import Place


class Lines(Protocol):
    """See above; functions block for the disk or the network and raise OSError."""

    def cut(self, length: int) -> int:
        """Cut to at most `length` bytes and return the length that is left."""

    def append(self, content: bytes | bytearray, at: int) -> int:
        """Let `content` follow the first `at` bytes, durably, and return the length then.

        Later content is removed. A file that was shortened or moved meanwhile goes on from its end.
        """


class LineFile:
    """One file of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def cut(self, length: int) -> int:
        """Cut to at most `length` bytes; a file that was shortened or moved meanwhile is left as it is."""
        make_folder(self._path.parent)
        with self._path.open("ab") as file:
            left = min(length, file.tell())
            file.truncate(left)
        return left

    def append(self, content: bytes | bytearray, at: int) -> int:
        """Let `content` follow the first `at` bytes, or all where there are fewer."""
        require_owned(self._path)
        with self._path.open("ab") as file:
            # Truncating to more than there is would fill the gap with zeros.
            at = min(at, file.tell())
            file.truncate(at)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return at + len(content)


class LineParts:
    """A folder of parts. Only one process writes it, and it appends at the end it knows."""

    def __init__(self, folder: Place) -> None:
        self._folder = folder

    def cut(self, length: int) -> int:
        """Delete the parts that begin at `length` or later; with an older part gone the end stays there."""
        for part in _parts(self._folder):
            if _begin(part) >= length:
                part.unlink(missing_ok=True)
        return length

    def append(self, content: bytes | bytearray, at: int) -> int:
        """Put the part that begins at `at`."""
        replace_file(self._folder / f"part-{at:020d}.jsonl", bytes(content))
        return at + len(content)

    def end(self) -> int:
        """Return the byte at which the last part ends, 0 where there is none."""
        return max((_begin(part) + part.stat().st_size for part in _parts(self._folder)), default=0)

    def forget(self, before: int) -> None:
        """Delete the parts that begin before `before`."""
        for part in _parts(self._folder):
            if _begin(part) < before:
                part.unlink(missing_ok=True)


def lines_at(path: Place) -> Lines:
    """Return what keeps lines at `path`."""
    return LineParts(path) if is_remote(path) else LineFile(Path(str(path)))


def read_lines(path: Place) -> Iterator[str]:
    """Yield the lines at `path` without their ends; nothing where there is none. Raises OSError."""
    if is_remote(path):
        for part in _parts(path):
            # Not `splitlines`: names of groups may hold what Unicode counts as a line break.
            yield from part.read_text("utf-8").removesuffix("\n").split("\n")
    elif path.exists():
        with open(str(path), encoding="utf-8", newline="\n") as file:  # noqa: PTH123 - a place is not always a path
            for line in file:
                yield line.rstrip("\n")


def read_whole(path: Place) -> bytes:
    """Return all that stands at `path`, a line that was cut short included; nothing where there is none."""
    if is_remote(path):
        return b"".join(part.read_bytes() for part in _parts(path))
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _parts(folder: Place) -> list[Place]:
    return sorted(folder.glob("part-*.jsonl"), key=_begin)


def _begin(part: Place) -> int:
    digits = part.name.removeprefix("part-").removesuffix(".jsonl")
    return int(digits) if digits.isdigit() else -1
