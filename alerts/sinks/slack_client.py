"""Slack's own client, kept at the address that it was given.

Python's urllib follows a redirect and takes the Authorization header along to whatever host it names; the
client of Slack offers no way to forbid that. Slack's Web API redirects nobody, so a redirect is an answer
like any other that is no success: its status is told, its address is not gone to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, build_opener

from slack_sdk import WebClient

if TYPE_CHECKING:
    from urllib.request import Request


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Return nothing to go to: urllib then raises the redirect as an HTTPError."""


class SlackClient(WebClient):
    """A WebClient that sends its token to the host of `base_url` and to no other."""

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        """Return `status`, `headers` and `body` of the answer; HTTPError for anything but a success."""
        if not url.lower().startswith(("http://", "https://")):
            raise ValueError("the address of Slack's Web API is no http address")
        proxies = ProxyHandler(None if self.proxy is None else dict.fromkeys(("http", "https"), self.proxy))
        opener = build_opener(proxies, HTTPSHandler(context=self.ssl), _NoRedirects())
        with opener.open(req, timeout=self.timeout) as answer:
            return {"status": answer.status, "headers": answer.headers, "body": answer.read().decode()}
