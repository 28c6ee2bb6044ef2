"""The web server in a thread of the monitor's process.

The port is taken before the thread starts, so that a port in use is an OSError here and not a silent page.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import uvicorn

from rebalance_monitor.dashboard.web.http.connection import Bounded, Connection

if TYPE_CHECKING:
    from rebalance_monitor.dashboard.web.http.stream import Stream

STOPS_S = 5.0
TICK_S = 1.0
BACKLOG = 128
"""Clients that may wait to be taken in; so many descriptors at most are opened in one go."""


class _Calm(uvicorn.Server):
    """Wakes once a second, not ten times: that was an eighth of what an idle monitor costs."""

    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        """Wait until the server is to end."""
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), TICK_S)

    def end(self) -> None:
        """End soon; any thread may ask."""
        self.should_exit = True
        if self._loop is not None:
            # Closed where it has ended by itself.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._over.set)


class Server:
    """Serves `app` at host and port (0: a free one); use as a context manager. Raises OSError."""

    def __init__(self, app: Any, stream: Stream, host: str, port: int) -> None:  # noqa: ANN401 - an ASGI app
        self._stream = stream
        self._socket = _listen(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._server = _Calm(
            uvicorn.Config(
                Bounded(app),
                http=Connection,
                ws="none",
                backlog=BACKLOG,
                log_config=None,
                # A caller that sends rubbish, or too much, does not fill the log.
                log_level="error",
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=2,
                # A proxy's own headers are judged by access.py alone.
                proxy_headers=False,
            )
        )
        self._thread = threading.Thread(target=self._run, name="rebalance-monitor-web", daemon=True)

    @property
    def url(self) -> str:
        """Where it can be reached from this machine."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._server.end()
        self._thread.join(STOPS_S)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    return found
