"""A deadline for a whole call: a service that drips bytes never runs into the timeout of one step.

Clients bound each read of a socket. Headers that come byte by byte, `100 Continue` without end, or a greeting
of a mail server in a thousand lines keep every read short and the call going for ever. When the deadline
passes the connection is shut down from another thread, and the read that waits on it ends with an error.

A connection is watched from its first moment on, by a descriptor of our own: a TLS handshake or a proxy's
answer to CONNECT can be dripped as well, and TLS takes the first socket's descriptor away.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 3
"""A whole call may take as long as so many of its steps."""


class Deadline:
    """The connections of one call; each is shut down once the deadline has passed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.has_passed = False

    def watch(self, connection: object) -> None:
        """Let the deadline end this connection; what is no socket, or a closed one, is passed over."""
        if not isinstance(connection, socket.socket) or connection.fileno() < 0:
            return
        own = socket.socket(fileno=os.dup(connection.fileno()))
        with self._lock:
            self._sockets.append(own)
            if self.has_passed:
                _shut(own)

    def end(self) -> None:
        """Let the deadline pass now."""
        with self._lock:
            self.has_passed = True
            for connection in self._sockets:
                _shut(connection)

    def close(self) -> None:
        """Forget the connections; they stay as they are."""
        with self._lock:
            for connection in self._sockets:
                connection.close()
            self._sockets = []


@contextmanager
def deadline(step_s: float) -> Iterator[Deadline]:
    """Give a deadline for a call whose steps take at most `step_s` seconds each."""
    found = Deadline()
    timer = threading.Timer(STEPS * step_s, found.end)
    timer.daemon = True
    timer.start()
    try:
        yield found
    finally:
        timer.cancel()
        found.close()


def _shut(connection: socket.socket) -> None:
    # The other side may have ended it.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
