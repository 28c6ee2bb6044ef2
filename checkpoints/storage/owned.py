"""The folders of this machine that this process has locked, asked before every change below them.

A lock holds the file that was opened, not its name: a folder that is moved, unmounted or replaced under a
running job takes the lock along, and whatever is then made at the old name is another folder, which a second
job may lock. So before each change the name must still lead to the file that is locked; and folders are made
by `make_folder` alone, which makes none where the root has gone.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.errors import FolderGoneError
from rebalance_monitor.checkpoints.storage.places import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from rebalance_monitor.checkpoints.storage.places import Place

LOCK = "lock"
_owned: dict[Path, TextIO] = {}


@contextmanager
def owned(folder: Path, lock: TextIO) -> Iterator[None]:
    """Have every change below `folder` require that its lock is still this open file."""
    root = folder.absolute()
    # The owner of the whole folder may lock a part of it too.
    _owned[root] = lock
    try:
        yield
    finally:
        del _owned[root]


def require_owned(place: Place) -> None:
    """Raise FolderGoneError where `place` lies below a folder of ours that is another one now.

    Raises OSError where that is unknown. On remote storage the lease decides.
    """
    if is_remote(place):
        return
    path = Path(str(place)).absolute()
    for root, lock in list(_owned.items()):
        if path.is_relative_to(root) and not _is_same(root, lock):
            raise FolderGoneError(root)


def make_folder(place: Place) -> None:
    """Make a folder and its missing parents. Raises FolderGoneError, OSError."""
    require_owned(place)
    place.mkdir(parents=True, exist_ok=True)


def _is_same(root: Path, lock: TextIO) -> bool:
    try:
        found = (root / LOCK).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return os.path.samestat(found, os.fstat(lock.fileno()))
