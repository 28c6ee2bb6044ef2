"""Silences from the page: the only requests that change anything.

They need the token (or a proxy's sign-in) and JSON: no foreign page can send that without asking first, and
no answer allows it to. What is asked for is checked where the command line's is (alerts/runtime/silences.py).
"""

from __future__ import annotations

import json
from asyncio import timeout
from typing import TYPE_CHECKING, Any

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.dashboard.web.api import parameters
from rebalance_monitor.dashboard.web.api.parameters import BadRequest
from rebalance_monitor.dashboard.web.views.alerting_shapes import SilenceWanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from rebalance_monitor.dashboard.web.api.alerting import Alerting
    from rebalance_monitor.dashboard.web.http.access import Access

log = structlog.get_logger()
MAX_BODY = 16_384
MAX_TEXT = 2_000
BODY_S = 10.0
JSON_TYPE = "application/json"


class Silencing:
    """Adds and ends silences for callers that may."""

    def __init__(self, alerting: Alerting, access: Access) -> None:
        self._alerting = alerting
        self._access = access

    async def add(self, request: Request) -> Response:
        """Answer `POST /silences`."""
        if problem := self._access.write_problem(request.headers):
            return _refused(*problem)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
            return _refused(415, f"send {JSON_TYPE}")
        try:
            wanted = wanted_of(await _body(request))
        except BadRequest as error:
            return _refused(400, str(error))
        client = request.client.host if request.client else ""
        person = self._access.signed_in(request.headers, client)
        wanted = {**wanted, "created_by": person or wanted["created_by"] or "the page"}
        return await self._done(lambda: self._alerting.add(wanted), 201)

    async def expire(self, request: Request) -> Response:
        """Answer `DELETE /silences`."""
        if problem := self._access.write_problem(request.headers):
            return _refused(*problem)
        try:
            values = parameters.read(parameters.SILENCE, request.query_params)
        except BadRequest as error:
            return _refused(400, str(error))
        return await self._done(lambda: self._alerting.expire(values["id"]), 200)

    async def _done(self, step: Callable[[], Any], status: int) -> Response:
        if self._alerting.refused:
            return _refused(403, self._alerting.refused)
        try:
            row = await run_in_threadpool(step)
        except ConfigError as error:
            return _refused(400, str(error))
        except OSError as error:
            log.warning("a silence could not be kept", why=str(error))
            return _refused(503, "the silences cannot be kept just now")
        log.info("a silence was changed", id=row["id"], matchers=row["matchers"], by=row["created_by"])
        return JSONResponse(row, status)


def wanted_of(body: bytes) -> SilenceWanted:
    """Return what the body asks for. Raises BadRequest."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("the body is no JSON") from None
    names = SilenceWanted.__required_keys__
    if not isinstance(given, dict) or given.keys() != names:
        raise BadRequest(f"the body must be an object of {', '.join(sorted(names))}")
    for name, value in given.items():
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise BadRequest(f"`{name}` must be a text of {MAX_TEXT} characters at most")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadRequest(f"`{name}` must be Unicode") from None
    return SilenceWanted(
        matchers=given["matchers"],
        lasts=given["lasts"],
        comment=given["comment"],
        created_by=given["created_by"],
    )


async def _body(request: Request) -> bytes:
    found = b""
    try:
        async with timeout(BODY_S):
            async for chunk in request.stream():
                found += chunk
                if len(found) > MAX_BODY:
                    raise BadRequest("the body is too long")
    except (TimeoutError, ClientDisconnect):
        # Nothing can be said to a client that has left; it is no failure of the monitor.
        raise BadRequest("the body did not arrive") from None
    return found


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status)
