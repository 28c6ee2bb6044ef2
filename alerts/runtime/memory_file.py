"""The dispatcher's memory on disk: a snapshot with everything, and a log of what has changed since.

`memory.jsonl` is replaced as a whole: its first line is a head, each other line one entry `[key, value]`. The
head has the checksum of all entries. Every save after it appends one line of changed entries, behind its
checksum, to the log that the head names, so that a save costs what changed. Once the log is as long as the
snapshot a new snapshot begins a new log. A torn last line of a log was never acted upon and is passed over.
Findings are entries of their own, because alerts and threads share them. It holds no options of integrations,
so it holds no secret. Another format is refused: a guess would notify twice or never.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.dispatch.plan import Memory
from rebalance_monitor.alerts.runtime.memory_lines import MemoryLines, memory_of
from rebalance_monitor.checkpoints.storage.files import remove_folder, replace_file
from rebalance_monitor.checkpoints.storage.lines import lines_at, read_whole
from rebalance_monitor.checkpoints.storage.places import is_remote
from rebalance_monitor.checkpoints.storage.sealed import CHECKSUM, DamagedError, checksum, parsed
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.storage.lines import Lines
    from rebalance_monitor.checkpoints.storage.places import Place

FORMAT = 3
READ = frozenset({2, FORMAT})
"""Formats that are read. The first has no checksums."""
SMALL_BYTES = 1_000_000
"""A log this short is never worth a new snapshot."""
REMOTE_SAVES = 100
"""Saves in a log where each is a file of its own: a start reads them one by one."""


class MemoryFileError(ConfigError):
    """The file cannot be read; the message says what to do."""


class MemoryFile:
    """Loads and saves the memory at `path`. One process at a time (`checkpoints.storage.files.locked`)."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._lines = MemoryLines()
        self._saved: dict[str, str] = {}
        self._number = 0
        self._log: Lines | None = None
        self._length = self._saves = self._limit = 0

    def load(self) -> Memory:
        """Return what was saved last, an empty memory at the first start. Raises MemoryFileError, OSError."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return Memory()
        try:
            head, _, entries_text = content.decode().partition("\n")
            self._number, is_sealed = _read_head(parsed(head), entries_text)
            lines = entries_text.rstrip("\n").split("\n") if entries_text else []
            changes = _changes(read_whole(self._log_place(self._number)), is_sealed=is_sealed)
            pairs = chain(map(parsed, lines), chain.from_iterable(changes))
            entries = {json.dumps(key, separators=(",", ":")): value for key, value in pairs}
            return memory_of((json.loads(key), value) for key, value in entries.items() if value is not None)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise MemoryFileError(
                f"{self._path} cannot be read ({error}). It was written by another version or is damaged: "
                "restore it from a backup, or move it away; open incidents then notify once more."
            ) from error

    def save(self, memory: Memory) -> None:
        """Make `memory` the last one, durably. Blocks for the disk; raises OSError."""
        lines = self._lines.of(memory)
        full = self._length > self._limit or (is_remote(self._path) and self._saves >= REMOTE_SAVES)
        if self._log is None or full:
            self._begin(lines)
        else:
            self._append(self._log, lines)
        self._saved = lines

    def rewrite(self, memory: Memory) -> None:
        """Do as `save` by a new snapshot: `save` writes nothing where nothing changed. Raises OSError."""
        lines = self._lines.of(memory)
        self._begin(lines)
        self._saved = lines

    def _begin(self, lines: dict[str, str]) -> None:
        """Write a snapshot, and name an empty log that follows it."""
        number = self._number + 1
        log = lines_at(self._log_place(number))
        log.cut(0)
        entries = "".join(f"[{key},{value}]\n" for key, value in lines.items()).encode(errors="replace")
        head = json.dumps({"format": FORMAT, "log": number, CHECKSUM: checksum(entries)}).encode()
        text = head + b"\n" + entries
        replace_file(self._path, text)
        before, self._number, self._log = self._number, number, log
        self._length = self._saves = 0
        self._limit = max(SMALL_BYTES, len(text))
        self._forget(before)

    def _append(self, log: Lines, lines: dict[str, str]) -> None:
        saved = self._saved
        changes = [f"[{key},{value}]" for key, value in lines.items() if saved.get(key) != value]
        changes += [f"[{key},null]" for key in saved.keys() - lines.keys()]
        if not changes:
            return
        saved_now = f"[{','.join(changes)}]".encode(errors="replace")
        line = checksum(saved_now).encode() + b" " + saved_now + b"\n"
        length = self._length + len(line)
        self._length = log.append(line, self._length)
        self._saves += 1
        if self._length != length:
            # The log was shortened by another process: a new snapshot holds what was lost.
            self._begin(lines)

    def _forget(self, number: int) -> None:
        old = self._log_place(number)
        if is_remote(old):
            remove_folder(old)
        else:
            old.unlink(missing_ok=True)

    def _log_place(self, number: int) -> Place:
        return self._path.parent / f"{self._path.name.removesuffix('.jsonl')}.{number}.log"


def _read_head(head: Any, entries: str) -> tuple[int, bool]:  # noqa: ANN401 - whatever JSON it is
    """Return the number of the log, and whether both files have checksums. Raises DamagedError."""
    if head["format"] not in READ:
        raise DamagedError(f"it has the unknown format {head['format']}")
    is_sealed = head["format"] == FORMAT
    if is_sealed and head[CHECKSUM] != checksum(entries.encode()):
        raise DamagedError("its checksum does not match its content")
    return int(head["log"]), is_sealed


def _changes(content: bytes, *, is_sealed: bool) -> list[Any]:
    """Return the saves of a log; a last one that was cut short is none. Raises DamagedError."""
    *lines, _torn = content.split(b"\n")
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(_saved(line) if is_sealed else parsed(line))
        except DamagedError:
            if number < len(lines):
                raise
    return found


def _saved(line: bytes) -> Any:  # noqa: ANN401 - whatever JSON it is
    found, _, text = line.partition(b" ")
    if found.decode(errors="replace") != checksum(text):
        raise DamagedError("the checksum of a save in its log does not match")
    return parsed(text)
