"""Files that are either the old or the new one, whatever kills the process, and the lock on a job's folder.

Refuses nothing; every function raises OSError as the file system gives it (disk full, read-only, ...).
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


class FolderInUseError(ConfigError):
    """Another process works on this folder."""


def replace_file(path: Path, content: bytes) -> None:
    """Make `path` hold `content`, durably: a reader sees the old bytes or the new ones, never a mixture."""
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("wb") as file:
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
    """Hold `folder` alone; raises FolderInUseError at once where another process holds it.

    The lock belongs to the open file, so it goes with the process, however that ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUseError(
                f"{folder} is in use: another monitor runs on this storage folder. "
                "Stop it, or give this one a storage.path of its own."
            ) from None
        yield
