"""Who may read: everybody on this machine, holders of the token, people signed in by a known proxy.

The page's shell (HTML, styles, scripts) is served to everybody, as are the health checks; everything that
names a group is guarded, also where it comes within the page. Without token and proxy only requests that name
this machine are answered, so no foreign web page can read through a visitor's browser (DNS rebinding). Every
answer carries a content security policy under which nothing but the page's own files is loaded or run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from rebalance_monitor.config.web import Web

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
OPEN_PATHS = HEALTH_PATHS | {"/", "/runbooks", "/runbooks/"}
OPEN_PREFIX = "/static/"
NO_WRITERS = "silences are added here only by holders of `web.token`, which is not set: use the command"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read. token: None without. names: hosts that a request without guard must name."""

    token: str | None = None
    proxy_header: str = ""
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    names: frozenset[str] = field(default=LOCAL_NAMES)

    def problem(self, headers: Headers, client: str) -> tuple[int, str] | None:
        """Return why a request is refused (status, sentence), None if it may read."""
        if self._is_signed_in(headers, client) or self._has_token(headers):
            return None
        if self.token is not None:
            return 401, "send the token: `Authorization: Bearer …`"
        if self.proxies:
            return 403, "only requests that the proxy has signed in are answered"
        if _host(headers.get("host", "")) in self.names:
            return None
        return 421, "this address is not served under that name"

    def write_problem(self, headers: Headers) -> tuple[int, str] | None:
        """Return why a request that may read may not change anything (status, sentence), None if it may.

        A caller that may change something has shown the token, or a proxy has signed it in: where neither is
        configured, no caller may. A proxy may know people by a cookie, which browsers send for foreign pages
        too: those cannot send JSON without asking first, and the browser says that they are foreign.
        """
        if self.token is None and not self.proxies:
            return 403, NO_WRITERS
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return 403, "only the monitor's own page may ask for this"
        return None

    def signed_in(self, headers: Headers, client: str) -> str:
        """Return the name of the person that a proxy has signed in, "" without."""
        return headers[self.proxy_header].strip() if self._is_signed_in(headers, client) else ""

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if self.token is None or scheme.lower() != "bearer":
            return False
        # Headers come as Latin-1, whatever their bytes mean.
        return compare_digest(given.strip().encode("latin-1"), self.token.encode())

    def _is_signed_in(self, headers: Headers, client: str) -> bool:
        if not self.proxies or not headers.get(self.proxy_header, "").strip():
            return False
        try:
            address = ip_address(client)
        except ValueError:
            return False
        # A socket of both families knows 10.1.2.3 as ::ffff:10.1.2.3.
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self.proxies)


def access_of(web: Web) -> Access:
    """Return the access that is configured. Raises ConfigError for a token that cannot be read."""
    try:
        token = web.secret()
    except ValueError as error:
        raise ConfigError(str(error)) from error
    named = urlsplit(web.url).hostname
    return Access(
        token=token,
        proxy_header=web.proxy_header,
        proxies=tuple(ip_network(proxy) for proxy in web.proxies),
        names=LOCAL_NAMES | {_host(web.host)} | ({named} if named else set()),
    )


class Guard:
    """ASGI middleware: refuses readers without access, and puts the security headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        problem = None if _is_open(scope["path"]) else refusal(self._access, scope)
        if problem is None:
            await self._app(scope, receive, guarded)
            return
        status, why = problem
        refused = JSONResponse({"error": why}, status)
        if status == 401:  # noqa: PLR2004 - HTTP's own number
            refused.headers["www-authenticate"] = "Bearer"
        await refused(scope, receive, guarded)


def refusal(access: Access, scope: Scope) -> tuple[int, str] | None:
    """Return why the request may not read what is guarded (status, sentence), None if it may."""
    client = scope.get("client")
    return access.problem(Headers(scope=scope), client[0] if client else "")


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


def _host(text: str) -> str:
    """Return the host of a Host header, without its port, in small letters."""
    name, colon, port = text.lower().rpartition(":")
    return name if colon and port.isdigit() and not name.endswith(":") else text.lower()
