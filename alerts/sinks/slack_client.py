"""Slack's own client, kept at the address that it was given.

Python's urllib follows a redirect and sends the Authorization header to the host that it names. Slack's
client has no option against that. Slack's Web API does not redirect. So a redirect is a failed answer: its
status is reported, and its address is not requested.
"""

from __future__ import annotations

import socket
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, ProxyHandler, build_opener

from slack_sdk import WebClient

from rebalance_monitor.alerts.sinks.deadline import Deadline, deadline

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from ssl import SSLContext
    from urllib.request import Request

MAX_ANSWER = 8 << 20
"""Bytes of an answer. A page of a channel's history has 200 messages, each of at most 50 blocks."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Return nothing to go to: urllib then raises the redirect as an HTTPError."""


class _Http(HTTPHandler):
    """Plain connections that a deadline ends."""

    def __init__(self, whole: Deadline) -> None:
        super().__init__()
        self._whole = whole

    def http_open(self, req: Request) -> HTTPResponse:
        """Open `req`."""
        return self.do_open(partial(_Connection, self._whole), req)


class _Https(HTTPSHandler):
    """TLS connections that a deadline ends."""

    def __init__(self, whole: Deadline, context: SSLContext | None) -> None:
        super().__init__(context=context)
        self._whole, self._tls = whole, context

    def https_open(self, req: Request) -> HTTPResponse:
        """Open `req`."""
        return self.do_open(partial(_TlsConnection, self._whole), req, context=self._tls)


class _Connection(HTTPConnection):
    def __init__(self, whole: Deadline, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as urllib gives it
        super().__init__(*given, **named)
        self._create_connection = partial(_connect_with_deadline, whole)


class _TlsConnection(HTTPSConnection):
    def __init__(self, whole: Deadline, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as urllib gives it
        super().__init__(*given, **named)
        self._create_connection = partial(_connect_with_deadline, whole)


def _connect_with_deadline(whole: Deadline, *given: Any) -> socket.socket:  # noqa: ANN401 - as http.client gives it
    """Connect, and have the deadline watch the socket before a proxy or TLS says anything on it."""
    found = socket.create_connection(*given)
    whole.watch(found)
    return found


class SlackClient(WebClient):
    """A WebClient that sends its token to the host of `base_url` and to no other."""

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        """Return `status`, `headers` and `body` of the answer; HTTPError for anything but a success."""
        if not url.lower().startswith(("http://", "https://")):
            raise ValueError("the address of Slack's Web API is no http address")
        proxies = ProxyHandler(None if self.proxy is None else dict.fromkeys(("http", "https"), self.proxy))
        with deadline(self.timeout) as whole:
            opener = build_opener(proxies, _Http(whole), _Https(whole, self.ssl), _NoRedirects())
            with opener.open(req, timeout=self.timeout) as answer:
                body = answer.read(MAX_ANSWER + 1)
                if len(body) > MAX_ANSWER:
                    raise ValueError("the answer is too long")
                return {"status": answer.status, "headers": answer.headers, "body": body.decode()}
