"""The owner of a remote folder: a file that the owner renews, for object stores have no locks.

Theory: the owner writes `owner.json` every third of `TERM_S`. A newcomer that finds the file watches it, by
its own clock, for one and a half terms. If it is written meanwhile, the owner is alive and the newcomer is
refused. If not, the owner is dead and the newcomer takes its place.

- On an object store the put has the condition that the version read is still there. On HDFS each version is
  created once. So of two newcomers, or a newcomer and an owner that wakes up, the store refuses one.
  Elsewhere a claim is read back after a pause (owner_file.py).
- An owner whose last success is a term old does not write until it has read that the file is still its own.
  An owner that finds another's name there never writes again.
- So two processes never write at a time, with one exception: a request to another file that hangs in the
  network for more than half a term. No store fences that.
- An owner that ends gives the folder up at once. A killed owner is known to be dead on its own machine.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import structlog

from rebalance_monitor.checkpoints.errors import FolderError, FolderInUseError, TakenError, first_line
from rebalance_monitor.checkpoints.storage.owner_file import owner_file
from rebalance_monitor.checkpoints.storage.sealed import parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.checkpoints.storage.owner_file import Version
    from rebalance_monitor.checkpoints.storage.remote_place import RemotePlace

log = structlog.get_logger()
TERM_S = 30.0
PATIENCE = 1.5
"""Terms after which an owner that has not written is dead."""
SETTLE_S = 1.0
"""How long a claim lies before it is read back."""
NAME = "owner.json"
Owner = dict[str, Any]


def seconds() -> float:
    """Return a clock that never goes back, and goes on while the machine sleeps where the system has one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """The ownership of one folder; use as a context manager. Raises FolderInUseError, FolderError.

    `wait(seconds)` sleeps, `now()` counts seconds and never goes back.
    """

    def __init__(
        self,
        folder: RemotePlace,
        term_s: float | None = None,
        now: Callable[[], float] = seconds,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._file = owner_file(folder / NAME)
        self._version: Version = None
        self._term_s = TERM_S if term_s is None else term_s
        self._now = now
        self._wait = wait
        self._token = secrets.token_hex(8)
        self._renewals = 0
        self._renewed_at = now()
        self._lost = ""
        self._fences = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._take()
        except OSError as error:
            raise FolderError(
                f"{self._folder} cannot be written: {first_line(error)}. Give this machine the right to "
                "read, list, write and delete there, or set storage.path."
            ) from error
        # The owner of the whole folder goes on without a part: the upkeep's lease must not end a job.
        self._fences = not self._folder.remote.fences
        if self._fences:
            self._folder.remote.fences.append(self.require)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._fences:
            self._folder.remote.fences.remove(self.require)
        try:
            if self._is_own():
                self._file.give_up(self._version)
        except OSError as error:
            log.warning(
                "the storage could not be released: the next start waits until the lease expires",
                why=str(error),
            )

    def require(self) -> None:
        """Raise FolderInUseError once another process owns the folder, OSError while that is unknown."""
        if self._lost:
            raise FolderInUseError(self._lost)
        if self._now() - self._renewed_at > self._term_s:
            raise OSError(f"{self._folder}: the lease on the storage could not be renewed")

    def renew(self) -> None:
        """Say that the owner lives, unless another has taken its place."""
        began = self._now()
        owner = self._owner()
        if owner is None or owner.get("token") == self._token:
            if self._write():
                self._renewed_at = began
                return
            owner = self._owner() or {}
        self._lost = _in_use(self._folder, owner)
        log.error("another monitor has taken the storage: nothing more is written", owner=_named(owner))

    def _take(self) -> None:
        owner = self._owner()
        if owner is not None and not _is_dead(owner):
            self._watch(owner)
        began = self._now()
        is_written = self._write()
        if self._file.settles:
            self._wait(min(SETTLE_S, self._term_s / 3))
        if not is_written or (self._file.settles and not self._is_own()):
            raise FolderInUseError(_in_use(self._folder, self._owner() or {}))
        self._renewed_at = began

    def _watch(self, owner: Owner) -> None:
        """Return once the owner must be dead."""
        patience = PATIENCE * max(float(owner.get("term_s", self._term_s)), self._term_s)
        log.warning(
            "waiting to see whether the storage's owner is alive", owner=_named(owner), seconds=patience
        )
        until = self._now() + patience
        while self._now() < until:
            self._wait(min(2.0, patience / 10))
            found = self._owner()
            if found is None:
                return
            if found != owner:
                raise FolderInUseError(_in_use(self._folder, found))

    def _run(self) -> None:
        while not self._stop.wait(self._term_s / 3) and not self._lost:
            try:
                self.renew()
            except OSError as error:
                log.warning("the storage could not be reached", why=first_line(error))

    def _is_own(self) -> bool:
        owner = self._owner()
        return owner is not None and owner.get("token") == self._token

    def _owner(self) -> Owner | None:
        """Read the owner in the file, and remember the version of the file."""
        content, self._version = self._file.read()
        if content is None:
            return None
        try:
            found = parsed(content)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {"token": "", "host": "unknown"}

    def _write(self) -> bool:
        """Replace the version that was read last; false where another has."""
        self._renewals += 1
        body = {"token": self._token, "renewals": self._renewals, "term_s": self._term_s, **_self()}
        try:
            self._version = self._file.write(json.dumps(body).encode(), self._version)
        except TakenError:
            # Perhaps by ourselves: a put that had arrived is made again where its answer is lost.
            return self._is_own()
        return True


def _self() -> Owner:
    """Return the identity of this process: a process id is unique in one boot and one container only."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "space": _space()}


def _space() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _is_dead(owner: Owner) -> bool:
    """Whether the owner was a process of this machine and has ended."""
    if not owner.get("space") or owner["space"] != _space() or owner.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(owner["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, KeyError):
        return False
    return False


def _named(owner: Owner) -> str:
    return f"{owner.get('host', 'unknown')}, process {owner.get('pid', 'unknown')}"


def _in_use(folder: RemotePlace, owner: Owner) -> str:
    return (
        f"{folder} is in use: another monitor ({_named(owner)}) runs on this storage folder. "
        "Stop it, or give this one a storage.path of its own."
    )
