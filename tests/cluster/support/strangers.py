"""Servers that answer as they like, on a port of this machine."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Serve = Callable[[socket.socket], Any]

# The body of a broker's answer to the request for its API versions.
BROKER = struct.pack(">hBhhhBiB", 0, 2, 18, 0, 4, 0, 0, 0)


def says(*parts: bytes) -> Serve:
    """A server that says so at once, whatever it is asked."""

    def serve(link: socket.socket) -> None:
        for part in parts:
            link.sendall(part)
        link.recv(1_024)
        time.sleep(1)

    return serve


def without_end(part: bytes) -> Serve:
    def serve(link: socket.socket) -> None:
        while True:
            link.sendall(part)

    return serve


def answers(body: bytes, size: int | None = None) -> Serve:
    """A server that gives each request this body, as long as it likes to say."""

    def serve(link: socket.socket) -> None:
        while len(asked := link.recv(1_024)) > 11:
            length = 4 + len(body) if size is None else size
            link.sendall(struct.pack(">i", length) + asked[8:12] + body)

    return serve


def echoes(link: socket.socket) -> None:
    while asked := link.recv(1_024):
        link.sendall(asked)


@contextmanager
def server(serve: Serve, address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[str]:
    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    def one(link: socket.socket) -> None:
        with suppress(OSError), link:
            serve(link)

    with socket.create_server(address) as listener:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            # The thread that accepts holds the port otherwise.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
