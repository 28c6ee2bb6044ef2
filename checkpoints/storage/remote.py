"""File systems elsewhere, by pyarrow or Hadoop: object stores, HDFS, mounts without locks (`file://`).

Files are small and written whole. A put to S3 or GCS appears at once or not at all, so that is how they are
written there. Azure shows an empty file until a write is done, so a draft is written there, which the service
itself copies, where pyarrow reaches it. HDFS moves a draft onto a file in one step, where Hadoop reaches it.
Elsewhere a draft moves onto nothing: the new file waits under a name of its own while the old one goes, and a
reader that finds no file takes the one that waits. So a file is the old or the new one, whatever kills the
process, and one that is there is never missing in between. Refuses to write once a lease is lost (lease.py).
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow.fs as pafs

from rebalance_monitor.checkpoints.errors import StoreError, first_line

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
PAUSES_S = (0.2, 0.6, 1.8)
"""Pauses before an operation is tried again: what passes within seconds must not fail a batch."""
NO_FSYNC = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
DRAFT, NEXT, FOLDER = ".draft", ".next", ".folder"


class Replacing(StrEnum):
    """How a file system replaces a file as a whole.

    whole: what is written appears at once, when it is closed. copied: the service itself copies a draft.
    over: a draft moves onto the file. aside: a draft moves onto nothing only.
    """

    WHOLE = "whole"
    COPIED = "copied"
    OVER = "over"
    ASIDE = "aside"


@dataclass(slots=True, eq=False)
class Remote:
    """One file system with how files are written on it. Safe for several threads.

    `uri`: how people name `base`, the folder below which everything lies, without options. `given`: with
    them. `fences`: asked before every change, raise once this process must not write any more.
    """

    filesystem: Any
    base: str
    uri: str
    given: str
    replacing: Replacing
    pause: Callable[[float], None] = time.sleep
    fences: list[Callable[[], None]] = field(default_factory=list)
    _made: set[str] = field(default_factory=set)

    @property
    def whole_puts(self) -> bool:
        """Whether files appear as a whole, and folders are names only."""
        return self.replacing in {Replacing.WHOLE, Replacing.COPIED}

    def tried(self, step: Callable[[], T]) -> T:
        """Do one restartable operation, again if it fails. FileNotFoundError is an answer. StoreError."""
        for pause in (*PAUSES_S, None):
            try:
                return step()
            except FileNotFoundError:
                raise
            except (OSError, NotImplementedError) as error:
                if pause is None or isinstance(error, NotImplementedError):
                    raise StoreError(f"{self.uri}: {first_line(error).rstrip('.')}") from error
                self.pause(pause)
        raise AssertionError("the last try returns or raises")

    def put(self, key: str, content: bytes) -> None:
        """Make `key` hold `content`."""

        def change() -> None:
            self._require()
            self.put_unfenced(key, content)

        self.tried(change)

    def put_unfenced(self, key: str, content: bytes) -> None:
        """Do as `put`, without regard to the owner of the folder."""
        draft = beside(key, DRAFT)
        match self.replacing:
            case Replacing.WHOLE:
                self._write(key, content)
            case Replacing.COPIED:
                self._write(draft, content)
                self.filesystem.copy_file(draft, key)
                self.filesystem.delete_file(draft)
            case Replacing.OVER:
                self.make_folder(key.rpartition("/")[0])
                self._write(draft, content)
                self.filesystem.move(draft, key)
            case Replacing.ASIDE:
                self._move_in(key, content)

    def read(self, key: str) -> bytes:
        """Return a whole file. FileNotFoundError."""
        return self.tried(lambda: self._newest(key))

    def infos(self, keys: list[str]) -> list[Any]:
        """Return what is known of each."""
        found: list[Any] = self.tried(lambda: self.filesystem.get_file_info(keys))
        return found

    def listed(self, folder: str, *, deep: bool) -> list[Any]:
        """Return what lies below a folder; nothing where there is none."""
        selector = pafs.FileSelector(folder, recursive=deep, allow_not_found=True)
        found: list[Any] = self.tried(lambda: self.filesystem.get_file_info(selector))
        return found

    def delete(self, key: str) -> None:
        """Delete a file. FileNotFoundError."""

        def change() -> None:
            self._require()
            if not self.whole_puts:
                with suppress(FileNotFoundError):
                    self.filesystem.delete_file(beside(key, NEXT))
            self.filesystem.delete_file(key)

        self.tried(change)

    def delete_folder(self, key: str) -> None:
        """Delete a folder and all that is in it; there may be none."""
        self._require()
        with suppress(FileNotFoundError):
            self.tried(lambda: self.filesystem.delete_dir(key))
        self._made = {made for made in self._made.copy() if made != key and not made.startswith(f"{key}/")}

    def make_folder(self, key: str) -> None:
        """Make a folder and its parents, once; where folders are names only, by an object in it."""
        if key in self._made:
            return
        if self.whole_puts:
            # pyarrow asks for the bucket, which a client with access to a part of it may not do.
            self.put(f"{key}/{FOLDER}", b"")
        else:
            self.tried(lambda: self.filesystem.create_dir(key, recursive=True))
        self._made.add(key)

    def _require(self) -> None:
        for fence in list(self.fences):
            fence()

    def _newest(self, key: str) -> bytes:
        # The file that waits is asked for only where there is no other, and then the file once more: it may
        # just have been moved.
        for name in (key,) if self.whole_puts else (key, beside(key, NEXT)):
            with suppress(FileNotFoundError):
                return self._whole(name)
        return self._whole(key)

    def _whole(self, key: str) -> bytes:
        # In one request, not in a stream of several: each could meet another version of the file.
        with self.filesystem.open_input_file(key) as file:
            content = bytes(file.read())
        # A service is asked for the size first, and may hold a longer file by the time it is read.
        if self.whole_puts and self.filesystem.get_file_info(key).size != len(content):
            raise OSError(f"{key} was replaced while it was read")
        return content

    def _write(self, key: str, content: bytes) -> None:
        with self.filesystem.open_output_stream(key, compression=None) as stream:
            stream.write(content)

    def _move_in(self, key: str, content: bytes) -> None:
        draft, successor = beside(key, DRAFT), beside(key, NEXT)
        self.make_folder(key.rpartition("/")[0])
        is_there, waits = (found.is_file for found in self.filesystem.get_file_info([key, successor]))
        if waits and is_there:
            self.filesystem.delete_file(successor)
        elif waits:
            self.filesystem.move(successor, key)
        self._write(draft, content)
        self._settle(draft)
        if is_there or waits:
            self.filesystem.move(draft, successor)
            self.filesystem.delete_file(key)
            self.filesystem.move(successor, key)
        else:
            self.filesystem.move(draft, key)

    def _settle(self, key: str) -> None:
        """Let the file survive a power cut; services that are somewhere else see to that themselves.

        So do mounts that know no fsync.
        """
        if self.filesystem.type_name != "local":
            return
        descriptor = os.open(key, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in NO_FSYNC:
                raise
        finally:
            os.close(descriptor)


def beside(key: str, suffix: str) -> str:
    """Return the name of a file's draft or successor: hidden, in the same folder."""
    folder, _, name = key.rpartition("/")
    return f"{folder}/.{name}{suffix}"
