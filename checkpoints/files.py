"""Files that are either the old or the new one, whatever kills the process, and the lock on a job's folder.

Refuses nothing; functions raise OSError as the file system gives it (disk full, ...), the lock a ConfigError.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO


class FolderInUseError(ConfigError):
    """Another process works on this folder."""


class FolderError(ConfigError):
    """The folder cannot be made or written."""


def replace_file(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Make `path` hold `content`, durably: a reader sees the old bytes or the new ones, never a mixture."""
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder` alone; raises FolderInUseError at once where another process holds it, or FolderError.

    The lock belongs to the open file, so it goes with the process, however that ends.
    """
    with _lock_file(folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUseError(
                f"{folder} is in use: another monitor runs on this storage folder. "
                "Stop it, or give this one a storage.path of its own."
            ) from None
        yield


def _lock_file(folder: Path) -> TextIO:
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
            # Names of clients and machines lie here: they are nobody else's business.
            folder.chmod(0o700)
        return (folder / "lock").open("a")
    except OSError as error:
        raise FolderError(
            f"{folder} cannot be written: {error.strerror}. Make it a writable folder, or set storage.path."
        ) from error
