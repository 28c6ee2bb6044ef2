"""What a job does to files of a path, tried at its start: a file system that refuses it is found out then.

FUSE mounts (Databricks' volumes among them) and some network file systems take whole files and moves, but no
appends, no locks or no fsync. A job would write there for hours before its first append. Such a folder is
named as a URI (`file:///…`), under which only whole files are written (remote.py).
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from rebalance_monitor.checkpoints.errors import FolderError, NoRoomError, is_full

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TextIO


def require_fit(folder: Path, trial: Path) -> None:
    """Raise FolderError where `folder` refuses what a job does there; `trial` is a file of ours in it."""
    moved = trial.with_name(f"{trial.name}.moved")
    try:
        for what, step in TRIED.items():
            try:
                step(trial, moved)
            except OSError as error:
                raise refused(folder, what, error) from error
    finally:
        for file in (trial, moved):
            file.unlink(missing_ok=True)


def lock(folder: Path, file: TextIO) -> bool:
    """Lock the file; false where another process has it locked. Raises FolderError."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise refused(folder, "a lock (flock)", error) from error
    return True


def refused(folder: Path, what: str, error: OSError) -> Exception:
    """Return the error to raise for a folder whose file system refuses `what`."""
    if is_full(error):
        return NoRoomError(folder)
    return FolderError(
        f"{folder} is on a file system that refuses {what}: {error.strerror or error}. Name it as a URI, "
        f"storage.path: {folder.absolute().as_uri()}, under which only whole files are written, or take "
        "another folder."
    )


def _write(trial: Path, _moved: Path) -> None:
    trial.write_bytes(b"wrong")


def _cut(trial: Path, _moved: Path) -> None:
    with trial.open("ab") as file:
        file.truncate(0)


def _append(trial: Path, _moved: Path) -> None:
    with trial.open("ab") as file:
        file.write(b"right")
    if trial.read_bytes() != b"right":
        raise OSError("appended data could not be read back")


def _sync(trial: Path, _moved: Path) -> None:
    for name in (trial, trial.parent):
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _move(trial: Path, moved: Path) -> None:
    moved.write_bytes(b"old")
    trial.replace(moved)


TRIED: dict[str, Callable[[Path, Path], None]] = {
    "a new file": _write,
    "to cut a file": _cut,
    "an append": _append,
    "an fsync": _sync,
    "to move a file onto another": _move,
}
