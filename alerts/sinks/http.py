"""HTTP for the sinks: one POST, no redirects, bounded answers, errors that name no address.

Addresses, tokens and proxies are secrets here: a webhook's address is all that its caller needs to know. So
errors say which service and which status, never where, and `quiet` turns the client library's log lines off.
"""

from __future__ import annotations

import json
import math
import socket
import ssl
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Self

import httpx

import rebalance_monitor.alerts.sinks.quiet  # noqa: F401 - silences the client's log
from rebalance_monitor.alerts.messages.notification import SinkError
from rebalance_monitor.alerts.sinks.deadline import STEPS, Deadline, deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from pydantic import SecretStr

MAX_ANSWER = 4_096
"""Bytes of an answer that are read; the rest is dropped with the connection."""
LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")
NO_SOCKS = "a SOCKS proxy needs the Python package socksio"
RETRYABLE = frozenset({408, 423, 425, 429})
"""Refusals that pass. Any other status below 500 lasts until the configuration or the service changes."""


@dataclass(frozen=True, slots=True)
class Net:
    """How to reach a service. `ca_file` is a bundle of PEM roots.

    `timeout_s` bounds each step of a call, and three times as long the whole call.
    """

    timeout_s: float = 10.0
    proxy: SecretStr | None = None
    ca_file: str | None = None

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context that trusts `ca_file`, or the system's roots."""
        return _context(self.ca_file)

    def proxy_address(self) -> str | None:
        """Return the proxy's address, None where there is none of our own."""
        return None if self.proxy is None else self.proxy.get_secret_value()


@dataclass(frozen=True, slots=True)
class Response:
    """The status, headers (lower case) and first bytes of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_page(self) -> bool:
        """Whether it is a web page."""
        return is_page(self.headers.get("content-type", ""))


class Poster:
    """Posts to one service, which its errors call `what`. Safe for one thread at a time.

    Raises ValueError for a proxy that cannot be used: that of `net`, or one that the environment names.
    """

    def __init__(self, what: str, net: Net) -> None:
        self._what = what
        self._timeout_s = net.timeout_s
        tls = net.tls()
        try:
            self._client = _client(net, tls)
        except (httpx.InvalidURL, ImportError, ValueError) as error:
            # The library's words for a proxy hold its address, and that its password.
            why = NO_SOCKS if isinstance(error, ImportError) else "its address is malformed"
            named = "`proxy`" if net.proxy is not None else "the proxy that the environment names"
            raise ValueError(f"{named} cannot be used: {why}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], now_ms: int, *, takes_pages: bool = False
    ) -> Response:
        """Return the answer to a POST if its status is 2xx, else raise SinkError by `refusal`.

        A web page is no success: it comes from a proxy or a login page on the way. Only a service with
        unknown answers (`takes_pages`) may return one.
        """
        answer = self.ask(url, body, headers)
        is_success = 200 <= answer.status < 300  # noqa: PLR2004 - as HTTP has it
        if not is_success or (answer.is_page and not takes_pages):
            raise refusal(self._what, answer, now_ms)
        return answer

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def ask(self, url: str, body: bytes, headers: Mapping[str, str]) -> Response:
        """Return the answer to a POST with any status; SinkError if there is no answer."""
        with deadline(self._timeout_s) as whole:
            return self._ask(url, body, headers, whole)

    def _ask(self, url: str, body: bytes, headers: Mapping[str, str], whole: Deadline) -> Response:
        try:
            with self._client.stream(
                "POST",
                url,
                content=body,
                headers=dict(headers),
                extensions={"trace": _trace_connections(whole)},
            ) as answer:
                return Response(answer.status_code, answer.headers, _head(answer, self._timeout_s))
        except (httpx.LocalProtocolError, httpx.InvalidURL, ValueError) as error:
            why = f"the address or a header for {self._what} is malformed: {type(error).__name__}"
            raise SinkError(why, permanent=True) from None
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            if whole.has_passed:
                why = f"did not answer within {STEPS * self._timeout_s:.0f} s"
                raise SinkError(f"{self._what} {why}") from None
            raise unreached(self._what, error) from None


def _client(net: Net, tls: ssl.SSLContext) -> httpx.Client:
    proxy = net.proxy_address()
    return httpx.Client(
        timeout=net.timeout_s,
        # A call has a connection of its own, which its deadline ends.
        limits=httpx.Limits(max_keepalive_connections=0),
        proxy=proxy,
        verify=tls,
        # What the environment says of proxies is not meant for this machine.
        mounts=dict.fromkeys(LOOPBACK) if proxy is None else None,
        follow_redirects=False,
        # Answers are read as they come, so that one of a few bytes cannot become a large one.
        headers={"Accept-Encoding": "identity", "User-Agent": "rebalance-monitor"},
    )


def _trace_connections(whole: Deadline) -> Callable[[str, dict[str, Any]], None]:
    """Return a trace callback that puts each new connection under the deadline."""

    def trace(_event: str, info: dict[str, Any]) -> None:
        stream: Any = info.get("return_value")
        if stream is not None and hasattr(stream, "get_extra_info"):
            whole.watch(stream.get_extra_info("socket"))

    return trace


@lru_cache(maxsize=8)
def _context(ca_file: str | None) -> ssl.SSLContext:
    """Read the roots once for all sinks: that takes longer than a call."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        # An SSLError is one, too: neither names the file.
        why = "it holds no PEM certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(f"`ca_file` names {ca_file}, which cannot be used: {why}") from None


def unreached(what: str, error: BaseException) -> SinkError:
    """Return the error of a call that got no answer, by what stands behind the library's error.

    The library's text may hold an address, so the error has a text of its own. An untrusted certificate is
    permanent; an unknown name or a closed port may pass.
    """
    behind = list(_behind(error))
    if untrusted := next((one for one in behind if isinstance(one, ssl.SSLCertVerificationError)), None):
        if "mismatch" in untrusted.verify_message:
            return SinkError(f"{what} has a certificate for another name than its address", permanent=True)
        if "expired" in untrusted.verify_message:
            # Whose it is renews it.
            return SinkError(f"{what} has a certificate that has expired")
        why = f"{what} has a certificate that no authority trusted here has signed: set `ca_file`"
        return SinkError(why, permanent=True)
    for kind, why in UNREACHED:
        if any(isinstance(one, kind) for one in behind):
            return SinkError(f"{what} cannot be reached: {why}")
    if any(isinstance(one, NO_HTTP) for one in behind):
        return SinkError(f"{what} {NO_ANSWER}")
    return SinkError(f"{what} cannot be reached: {type(error).__name__}")


def _behind(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        reason = getattr(seen, "reason", None)
        seen = seen.__cause__ or seen.__context__ or (reason if isinstance(reason, BaseException) else None)


# The first that fits an error or what stands behind it.
UNREACHED: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "its name cannot be resolved"),
    (ConnectionRefusedError, "the connection is refused"),
    (httpx.ProxyError, "the proxy refuses"),
    (
        ssl.SSLError,
        "the TLS handshake fails: check whether the address must begin with https:// or http://",
    ),
    (TimeoutError, "no answer in time"),
    (httpx.TimeoutException, "no answer in time"),
    (ConnectionResetError, "the connection is reset"),
)


NO_HTTP = (httpx.RemoteProtocolError, httpx.DecodingError, HTTPException)
NO_ANSWER = "does not speak HTTP, or breaks off its answer: is it the right port, and does it want https://?"


def refusal(what: str, answer: Response, now_ms: int, said: str = "") -> SinkError:
    """Return the error for an answer that is no success: 429, 5xx and a few others may be tried again."""
    # A page in place of an answer may be gone once a proxy on the way is mended.
    is_refused = 300 <= answer.status < 500  # noqa: PLR2004 - as HTTP has it: not done, and not the server's fault
    permanent = is_refused and answer.status not in RETRYABLE
    advice = HINTS.get(answer.status, "") if permanent else ""
    if answer.is_page:
        advice = WEB_PAGE
    why = f"{what} answered {answer.status}" + (f": {said}" if said else f", {advice}" if advice else "")
    wait = retry_after(answer.headers.get("retry-after") or _asked_wait(answer.body), now_ms)
    return SinkError(why, permanent=permanent, retry_after_s=None if permanent else wait)


def _asked_wait(body: bytes) -> str | None:
    """Return the seconds that a JSON answer asks to wait, as Telegram and Discord do; None without them."""
    try:
        said = json.loads(body)
        return str(said.get("retry_after", (said.get("parameters") or {}).get("retry_after", ""))) or None
    except (ValueError, AttributeError, RecursionError):
        return None


WEB_PAGE = "with a web page: does the address lead to a proxy or a login?"


def is_page(content_type: str) -> bool:
    """Whether an answer of this content type is a web page."""
    return "text/html" in content_type.lower()


def retry_after(value: str | None, now_ms: int) -> float | None:
    """Return the seconds that Retry-After (number or date) asks for, None if unreadable or endless.

    How many of them are waited is up to `alerts/dispatch/retry.py`.
    """
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now_ms / 1000
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


REDIRECT = "a redirect, which is not followed: give the address behind it"
# What a refusal mostly means.
HINTS = {
    **dict.fromkeys(
        (301, 302, 303, 307, 308), "a redirect, which is not followed: give the address behind it"
    ),
    401: "the token or password is wrong or has expired",
    403: "the token does not have the permission for it",
    404: "not found: the path of the address is wrong, or its target was removed",
    405: "POST is not allowed there: the path of the address is wrong",
    407: "the proxy requires a login: put it into `proxy`",
    410: "the target of the address was removed",
}


def _head(answer: httpx.Response, within_s: float) -> bytes:
    """Read what comes first; a service that drips bytes for ever is not waited for."""
    body, end = b"", time.monotonic() + within_s
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) >= MAX_ANSWER or time.monotonic() > end:
            break
    return body[:MAX_ANSWER]
