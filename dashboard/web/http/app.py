"""The web application: page, API, events, health checks and metrics behind one guard.

Answers are computed in threads, never on the event loop, so a slow question delays no other. The ones that
read the retained history take few threads at a time: however many wait for a disk or a store, what is
answered from memory, and the health checks, are not among them.
"""

from __future__ import annotations

import json
from asyncio import Semaphore
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import structlog
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rebalance_monitor.dashboard.web.api import openapi, parameters
from rebalance_monitor.dashboard.web.api.api import NotFound
from rebalance_monitor.dashboard.web.api.parameters import BadRequest
from rebalance_monitor.dashboard.web.http.access import Guard, refusal
from rebalance_monitor.dashboard.web.http.shell import Shell, load_files
from rebalance_monitor.dashboard.web.http.silencing import Silencing
from rebalance_monitor.dashboard.web.http.stream import PING_S, Stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from rebalance_monitor.dashboard.web.api.api import Api
    from rebalance_monitor.dashboard.web.http.access import Access

    Handler = Callable[[Request], Response]
    Waited = Callable[[Request], Awaitable[Response]]

log = structlog.get_logger()
Exposition = tuple[bytes, str]
HISTORY_AT_ONCE = 8


class Json(JSONResponse):
    """JSON as small as it can be; what is no text of Unicode (a lone surrogate) is escaped."""

    def render(self, content: Any) -> bytes:  # noqa: ANN401 - anything JSON
        """Return the bytes of `content`."""
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "backslashreplace")


def make_app(
    api: Api,
    access: Access,
    expose: Callable[[str, Collection[str]], Exposition] | None = None,
    held_up: Callable[[], str] = str,
) -> tuple[Any, Stream]:
    """Return the ASGI application and the stream that is to be closed before it.

    `expose` gives the metrics and their content type for an Accept header and the names that are asked for.
    `held_up` says what else keeps the monitor from being ready, "" where nothing does.
    """
    stream = Stream(api.snapshot, api.board_of, api.overview)
    files = load_files()
    history = Semaphore(HISTORY_AT_ONCE)
    silencing = Silencing(api.alerting, access)
    shell = Shell(api, files, lambda request: refusal(access, request.scope) is None, history)
    routes = [
        Route("/", shell.serve),
        Route("/healthz", _healthz),
        Route("/readyz", _readyz(api, held_up)),
        Route(f"{openapi.PREFIX}/openapi.json", _document),
        Route(f"{openapi.PREFIX}{openapi.EVENTS}", _events(stream)),
        *(Route(openapi.PREFIX + path.path, _answer(api, path, history)) for path in openapi.PATHS),
        Route(f"{openapi.PREFIX}{openapi.SILENCES}", silencing.add, methods=["POST"]),
        Route(f"{openapi.PREFIX}{openapi.SILENCES}", silencing.expire, methods=["DELETE"]),
        Route("/static/{path:path}", files.serve),
        Route("/runbooks", files.runbooks),
        Route("/runbooks/", files.runbooks),
    ]
    if expose is not None:
        routes.append(Route("/metrics", _metrics(expose)))
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={404: _unknown, 405: _unknown, 500: _failed},
    )
    return app, stream


async def _healthz(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


def _readyz(api: Api, held_up: Callable[[], str]) -> Waited:
    async def readyz(_request: Request) -> Response:
        health = api.snapshot.known.health
        if why := held_up():
            return PlainTextResponse(f"not ready: {why}\n", 503)
        if health.is_ready:
            return PlainTextResponse("ready\n")
        left = f"{len(health.catching_up)} of {len(health.shards)} partitions still read history"
        return PlainTextResponse(f"not ready: {left if health.shards else 'no batch yet'}\n", 503)

    return readyz


@cache
def _text_of_document() -> bytes:
    return bytes(Json(openapi.document()).body)


def _document(_request: Request) -> Response:
    return Response(_text_of_document(), media_type="application/json")


def _answer(api: Api, path: openapi.Path, history: Semaphore) -> Waited:
    async def answer(request: Request) -> Response:
        given = request.query_params
        # The newest incidents are in memory; whether this one is must be looked up.
        is_past = "at" in given or path.path in openapi.FROM_DISK
        async with history if is_past else nullcontext():
            return await run_in_threadpool(_answered, api, path, given)

    return answer


def _answered(api: Api, path: openapi.Path, given: Mapping[str, str]) -> Response:
    try:
        return Json(path.answer(api, parameters.read(path.parameters, given)))
    except BadRequest as error:
        return Json({"error": str(error)}, 400)
    except NotFound as error:
        return Json({"error": str(error)}, 404)
    except OSError as error:
        log.warning("the history could not be read", why=str(error))
        return Json({"error": "the history cannot be read just now"}, 503)


class _Seated(Response):
    """The stream of events; its seat is taken when the answer begins: a burst of readers finds no gap."""

    def __init__(self, stream: Stream, since: int) -> None:
        self._stream = stream
        self._since = since

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        with self._stream.seat() as is_free:
            events = self._stream.events(self._since)
            full = Json({"error": "too many readers"}, 503)
            answer = EventSourceResponse(events, ping=int(PING_S)) if is_free else full
            await answer(scope, receive, send)


def _events(stream: Stream) -> Waited:
    async def events(request: Request) -> Response:
        try:
            values = parameters.read(parameters.EVENTS, request.query_params)
        except BadRequest as error:
            return Json({"error": str(error)}, 400)
        return _Seated(stream, values["since"])

    return events


def _metrics(expose: Callable[[str, Collection[str]], Exposition]) -> Handler:
    def metrics(request: Request) -> Response:
        # As exporters that are made with Prometheus' own library for Python take it.
        body, kind = expose(request.headers.get("accept", ""), request.query_params.getlist("name[]"))
        return Response(body, headers={"content-type": kind})

    return metrics


def _unknown(_request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    gone = status == 404  # noqa: PLR2004 - HTTP's own
    return Json({"error": "there is no such page" if gone else "this method is not allowed here"}, status)


def _failed(_request: Request, error: Exception) -> Response:
    log.error("a request failed", why=repr(error))
    return Json({"error": "the monitor could not answer; its log says why"}, 500)
