"""What one connection to the page may cost, and that the health checks are answered whatever the others do.

uvicorn bounds neither the time until a request is there nor the time that a reader takes for its answer, and
counts idle connections among those for which it turns requests away: some hundred that say nothing would
make a liveness probe fail, and the job would be restarted for them. Here a caller that sends nothing is let
go, one that reads nothing is let go, and where there are too many the one that has been idle for longest
makes room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from rebalance_monitor.dashboard.web.http.access import HEALTH_PATHS

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

    from starlette.types import ASGIApp, Receive, Scope, Send

CONNECTIONS = 256
REQUEST_S = 10.0
"""Seconds from the first sign of a client, or of its next request, until the request's headers are there."""
READ_S = 30.0
"""Seconds for which a client may take nothing of what waits for it."""


class Connection(H11Protocol):
    """One client; all run on the server's event loop."""

    _request_by: TimerHandle | None = None
    _read_by: TimerHandle | None = None
    _idle_since = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""
        # There is no cycle before the first request.
        return bool(getattr(self.cycle, "response_complete", True))

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Wait for a request; beyond CONNECTIONS the one that is idle for longest goes."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._await_request()
        if len(self.connections) > CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the timers go."""
        super().connection_lost(exc)
        _cancel(self._request_by)
        _cancel(self._read_by)

    def data_received(self, data: bytes) -> None:
        """Bytes are no request yet: only whole headers end the wait."""
        super().data_received(data)
        if self.is_idle:
            self._await_request()
        else:
            _cancel(self._request_by)
            self._request_by = None

    def on_response_complete(self) -> None:
        """Count as idle from now on."""
        super().on_response_complete()
        self._idle_since = self.loop.time()

    def pause_writing(self) -> None:
        """Give the reader READ_S to take something."""
        super().pause_writing()
        self._read_by = self.loop.call_later(READ_S, self.drop)

    def resume_writing(self) -> None:
        """Go on: the reader has taken something."""
        super().resume_writing()
        _cancel(self._read_by)

    def drop(self) -> None:
        """Cut the connection at once, whatever is still to be sent."""
        self.connections.discard(self)
        self.transport.abort()

    def _make_room(self) -> None:
        others = (other for other in self.connections if isinstance(other, Connection) and other is not self)
        idle = [other for other in others if other.is_idle]
        if idle:
            min(idle, key=lambda other: other._idle_since).drop()  # noqa: SLF001 - of its own kind

    def _await_request(self) -> None:
        if self._request_by is None:
            self._request_by = self.loop.call_later(REQUEST_S, self.drop)


class Bounded:
    """ASGI middleware: at most CONNECTIONS requests at a time, the health checks not counted."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        if self._running >= CONNECTIONS:
            await JSONResponse({"error": "too many requests at a time"}, 503)(scope, receive, send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1


def _cancel(timer: TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
