"""Files that are either the old or the new one, even if the process is killed, and the ownership of a folder.

On a path of this machine: a draft, fsync and rename, and a lock that goes with the process. On a file system
that pyarrow reaches: see `remote` and `lease`. Functions raise OSError as the file system gives it (disk
full, ...), ownership a ConfigError.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.errors import (
    FolderError,
    FolderInUseError,
    NoRoomError,
    first_line,
    is_full,
)
from rebalance_monitor.checkpoints.storage.fitness import lock, require_fit
from rebalance_monitor.checkpoints.storage.owned import LOCK, owned, require_owned
from rebalance_monitor.checkpoints.storage.places import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO, TextIO

    from rebalance_monitor.checkpoints.storage.places import Place


DRAFT, STATES = ".draft", "state"
_TOKEN = secrets.token_hex(4)


def replace_file(path: Place, content: bytes, mode: int = 0o644) -> None:
    """Make `path` hold `content`, durably: a reader sees the old bytes or the new ones, never a mixture.

    `mode`: its permissions, where the file system has them.
    """
    if is_remote(path):
        path.put(content)
    else:
        _replace_local(Path(str(path)), content, mode)


def sync_folder(folder: Place) -> None:
    """Make renames and new names in `folder` durable; elsewhere they are."""
    if is_remote(folder):
        return
    descriptor = os.open(str(folder), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(folder: Place) -> None:
    """Delete a folder and all that is in it."""
    if is_remote(folder):
        folder.clear()
    else:
        shutil.rmtree(str(folder))


@contextmanager
def locked(folder: Place) -> Iterator[None]:
    """Hold `folder` alone.

    Raises FolderInUseError where another process holds it, FolderError where it cannot be written or its file
    system refuses what a job does there (fitness.py), NoRoomError for a full disk. At once
    on this machine: the lock belongs to the open file, so it goes with the process, however that ends.
    Elsewhere it may take a minute to find out that an owner is dead.
    """
    if is_remote(folder):
        from rebalance_monitor.checkpoints.storage.lease import Lease  # noqa: PLC0415 - for those who need it

        with Lease(folder):
            yield
        return
    path = Path(str(folder))
    with _lock_file(path) as file:
        if not lock(path, file):
            raise FolderInUseError(
                f"{folder} is in use: another monitor runs on this storage folder. "
                "Stop it, or give this one a storage.path of its own."
            )
        _forget_drafts(path)
        require_fit(path, path / f".trial.{_process()}{DRAFT}")
        with owned(path, file):
            yield


@contextmanager
def usable(folder: Place) -> Iterator[None]:
    """Raise an OSError of the start as an error about the folder: the operator must give it to this process.

    Raises FolderError; NoRoomError for a full disk, where starting again later helps.
    """
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise NoRoomError(folder) from error
        raise FolderError(
            f"{folder} cannot be used: {first_line(error)}. Give this process the right "
            "to read and write everything in it, or set storage.path."
        ) from error


def _replace_local(path: Path, content: bytes, mode: int) -> None:
    require_owned(path)
    # Another process must not rename what this one has begun to write.
    draft = path.with_name(f".{path.name}.{_process()}{DRAFT}")
    with _created(draft, mode) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def _created(draft: Path, mode: int) -> BinaryIO:
    """Open a file that is new; one that an earlier try has left is deleted."""

    def opened() -> BinaryIO:
        return open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode))

    try:
        return opened()
    except FileExistsError:
        draft.unlink()
        return opened()


def _process() -> str:
    """Name this process. Its number alone is not enough: each container has a process 1."""
    return f"{os.getpid()}-{_TOKEN}"


def _forget_drafts(folder: Path) -> None:
    """Delete what processes that were killed have left half written; Spark's own folder is Spark's."""
    for path, folders, names in os.walk(folder):
        if path == str(folder) and STATES in folders:
            folders.remove(STATES)
        for name in names:
            if name.startswith(".") and name.endswith(DRAFT):
                Path(path, name).unlink(missing_ok=True)


def _lock_file(folder: Path) -> TextIO:
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
            # The folder holds names of clients and machines: no other user may read them.
            folder.chmod(0o700)
        return (folder / LOCK).open("a")
    except OSError as error:
        if is_full(error):
            raise NoRoomError(folder) from error
        raise FolderError(
            f"{folder} cannot be written: {error.strerror}. Make it a writable folder, or set storage.path."
        ) from error
