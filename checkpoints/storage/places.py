"""Where files of a job lie: on a path of this machine, or on a file system that a URI names.

`Place` is what may be asked of either: `pathlib.Path` is one by nature, `RemotePlace` the other. Writing is
in `files`, since it differs. Light to import: every verb names a storage folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from rebalance_monitor.checkpoints.storage.mounts import takes_whole_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeGuard

    from rebalance_monitor.checkpoints.storage.remote_place import RemotePlace

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/.*")


class Stat(Protocol):
    """What is known of a file without reading it: bytes, and when it was last written."""

    @property
    def st_size(self) -> int:
        """Bytes."""

    @property
    def st_mtime(self) -> float:
        """Seconds since epoch, as the file system counts them."""

    @property
    def st_mtime_ns(self) -> int:
        """Nanoseconds since epoch; object stores know whole seconds only."""


class Place(Protocol):
    """A file or folder, there or not. Means what `pathlib` means; raises OSError as the file system gives it.

    Blocks for the disk or the network. What is listed may have gone by the time it is read.
    """

    @property
    def name(self) -> str:
        """The last part."""

    @property
    def suffix(self) -> str:
        """The name's end from its last dot on."""

    @property
    def parent(self) -> Self:
        """The folder that it lies in."""

    def __truediv__(self, name: str, /) -> Self:
        """Return what is called `name` below this one."""

    def __hash__(self) -> int:
        """Hash the place, not what lies there."""

    def exists(self) -> bool:
        """Whether there is a file or folder."""

    def is_dir(self) -> bool:
        """Whether there is a folder; an object store has one as long as something lies in it."""

    def is_file(self) -> bool:
        """Whether there is a file."""

    def read_bytes(self) -> bytes:
        """Return a whole file: the one before or after a replacement, never a mixture. FileNotFoundError."""

    def read_text(self, encoding: str) -> str:
        """Return a whole file as text. UnicodeDecodeError."""

    def stat(self) -> Stat:
        """Return size and age. FileNotFoundError."""

    def glob(self, pattern: str, /) -> Iterable[Self]:
        """Return what matches the shell pattern below this folder, in no order; nothing without a folder."""

    def rglob(self, pattern: str, /) -> Iterable[Self]:
        """Return what matches at any depth."""

    def iterdir(self) -> Iterable[Self]:
        """Return what lies in this folder, in no order. FileNotFoundError."""

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as pathlib has it
        """Make the folder."""

    def unlink(self, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as pathlib has it
        """Delete a file. FileNotFoundError unless `missing_ok`."""

    def as_uri(self) -> str:
        """Return the URI under which Spark knows it."""


def is_uri(text: str) -> bool:
    """Whether `text` names a file system by its scheme, as `s3://bucket/monitor` does."""
    return _URI.fullmatch(text) is not None


def is_elsewhere(text: str) -> bool:
    """Whether `text` names another file system than this machine's folders, as `s3://…`, not `file:…`."""
    return is_uri(text) and not text.startswith("file:")


def place_at(text: str | os.PathLike[str]) -> Place:
    """Return the place that a setting names; a path on a mount that takes whole files is taken as a URI.

    Raises FolderError for a URI that cannot be used.
    """
    named = os.fspath(text)
    if takes_whole_files(named):
        named = Path(named).as_uri()
    if not is_uri(named):
        return Path(named)
    from rebalance_monitor.checkpoints.storage.remote_place import remote_at  # noqa: PLC0415 - brings pyarrow's file systems

    return remote_at(named)


def is_remote(place: Place) -> TypeGuard[RemotePlace]:
    """Whether the place is reached by a URI."""
    return not isinstance(place, Path)
