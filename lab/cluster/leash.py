"""Ends a process group when this process ends, however that happens: even SIGKILL leaves nothing behind.

A shell waits for the end of a pipe that only this process holds. (Linux could do so by itself, but there the
signal comes when the starting thread ends, which need not be the process.)
"""

from __future__ import annotations

import subprocess
from contextlib import suppress

_WATCH = 'read -r _; kill -KILL "-$0"'


class Leash:
    """Watches over the process group of `pid` until released."""

    def __init__(self, pid: int) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """Watch no longer; the process is known to have ended, or may outlive us."""
        self._shell.kill()
        self._shell.wait()
        if self._shell.stdin is not None:
            with suppress(OSError):
                self._shell.stdin.close()
