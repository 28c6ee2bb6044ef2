"""Access tokens of OAuth client credentials (RFC 6749, 4.4; KIP-768), fetched once for the whole process.

librdkafka and Java's client fetch their own. kafka-python has a token handed to it, at each connect and each
re-authentication (KIP-368). All clients of one login share a token here; a new one is fetched when most of
its life is over (as Java does, `sasl.login.refresh.window.factor`), and the old one is used for as long as it
holds where the endpoint is away. Refuses, with the endpoint's own words, what is no token.
"""

from __future__ import annotations

import base64
import json
import math
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from rebalance_monitor.cluster.errors import AccessDeniedError, BrokerUnreachableError, DependencyError
from rebalance_monitor.config.kafka.logins import TOKEN_URL, client_credentials, token_trust
from rebalance_monitor.config.secrets import without_login

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TIMEOUT_S = 5.0
REFRESHED = 0.8
"""The part of its life after which a token is fetched anew."""
AGAIN_S = 5.0
"""So long a failure stands before the endpoint is asked again: clients connect anew every second."""
SHOWN = 200
"""Characters of an endpoint's answer that are shown."""
UNKNOWN_LIFE_S = 300.0


class TokenError(DependencyError):
    """No access token could be had."""


class TokenRefusedError(TokenError, AccessDeniedError):
    """The token endpoint refuses our client credentials."""


class TokenEndpointError(TokenError, BrokerUnreachableError):
    """The token endpoint does not answer, or not with a token."""


@dataclass(frozen=True, slots=True)
class Token:
    """text: as it is sent. From `renew_at` on a new one is wanted; it holds until `expires_at` (s)."""

    text: str
    renew_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where tokens are fetched, and for which client. trust: PEM file of authorities, "" for the system's."""

    url: str
    client: str
    secret: str
    scope: str = ""
    trust: str = ""

    def fetch(self) -> Token:
        """Fetch a token. Raises TokenError."""
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        login = base64.b64encode(f"{self.client}:{self.secret}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
        began = time.monotonic()
        try:
            asked = Request(self.url, urlencode(form).encode(), headers)  # noqa: S310 - http and https alone
            with urlopen(asked, timeout=TIMEOUT_S, context=self._context()) as answer:  # noqa: S310 - as above
                return self._token(answer.read(), began)
        except HTTPError as error:
            raise self._refused(error) from None
        except (URLError, HTTPException, OSError) as error:
            why = getattr(error, "reason", None) or error
            raise TokenEndpointError(
                f"The token endpoint {self.name} does not answer: {getattr(why, 'strerror', None) or why}.",
                f"Check `{TOKEN_URL}`, the network, and that the identity provider runs.",
            ) from None

    @property
    def name(self) -> str:
        """The address as it may be shown."""
        return without_login(self.url)

    def _context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.trust or None) if self.url.startswith("https") else None

    def _refused(self, error: HTTPError) -> TokenError:
        words = ""
        with suppress(HTTPException, OSError):
            words = _words(error.read(SHOWN * 4))
        if error.code in {400, 401, 403}:
            why = words or error.reason
            return TokenRefusedError(
                f"The token endpoint {self.name} refuses our client {self.client!r}: {why}.",
                "Correct clientId, clientSecret and scope in `sasl.jaas.config` under `kafka:`.",
            )
        return TokenEndpointError(
            f"The token endpoint {self.name} answers with HTTP {error.code}: {words or error.reason}.",
            f"Check `{TOKEN_URL}` and the identity provider.",
        )

    def _token(self, body: bytes, began: float) -> Token:
        try:
            answer = json.loads(body)
            text, life = str(answer["access_token"]), float(answer.get("expires_in") or 0)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise TokenEndpointError(
                f"What answers at {self.name} gives no access token.", f"Correct `{TOKEN_URL}`."
            ) from None
        claims = _claims(text)
        late_s = time.time() - claims.get("exp", math.inf)
        if late_s >= 0:
            raise TokenEndpointError(
                f"The tokens of {self.name} expired {late_s:.0f} s before they came: a clock is wrong.",
                "Set this machine's clock and the identity provider's by NTP.",
            )
        life = life or claims.get("exp", 0.0) - claims.get("iat", 0.0) or UNKNOWN_LIFE_S
        return Token(text, began + REFRESHED * life, began + life)


def _words(body: bytes) -> str:
    """Return what an endpoint says is wrong (RFC 6749, 5.2), on one line."""
    text = body.decode(errors="replace")
    try:
        answer = json.loads(text)
        text = str(answer.get("error_description") or answer.get("error") or "")
    except (ValueError, AttributeError, RecursionError):
        text = ""
    return " ".join(text.split())[:SHOWN].rstrip(".")


def _claims(token: str) -> dict[str, float]:
    """Return the times (s) that a JWT has (RFC 7519), none where it is another kind of token."""
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return {name: float(claims[name]) for name in ("exp", "iat") if name in claims}
    except (IndexError, ValueError, TypeError, RecursionError):
        return {}


class SharedToken:
    """The current token of one endpoint; safe for several threads."""

    def __init__(self, fetch: Callable[[], Token], clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch, self._clock = fetch, clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._again_at = -math.inf
        self.problem: DependencyError | None = None
        """Why the last fetch failed while no token holds; None after one that did not."""

    def text(self) -> str:
        """Return a token that holds now, fetched where need be. May block for seconds. Raises TokenError."""
        with self._lock:
            now, token = self._clock(), self._token
            if self.problem and now < self._again_at:
                raise self.problem.with_traceback(None)
            if token is None or now >= token.renew_at:
                token = self._token = self._renewed(token, now)
            return token.text

    def _renewed(self, token: Token | None, now: float) -> Token:
        try:
            found = self._fetch()
        except TokenError as error:
            if token is None or now >= token.expires_at:
                self.problem, self._again_at = error, now + AGAIN_S
                raise
            return token
        self.problem = None
        return found

    def require(self) -> None:
        """Have a token that holds. Raises TokenError."""
        self.text()

    def forget(self) -> None:
        """Fetch a new token next time: the brokers refuse this one."""
        with self._lock:
            self._token = None


_shared: dict[Endpoint, SharedToken] = {}
_sharing = threading.Lock()


def endpoint_of(properties: Mapping[str, str]) -> Endpoint:
    """Return where these properties, which log in by client credentials, fetch their tokens."""
    given = client_credentials(properties)
    client, secret = given.get("clientId", ""), given.get("clientSecret", "")
    url, trust = properties.get(TOKEN_URL, ""), token_trust(properties)
    return Endpoint(url, client, secret, given.get("scope", ""), trust)


def shared_token(properties: Mapping[str, str]) -> SharedToken:
    """Return the token that all clients of this login in this process share."""
    endpoint = endpoint_of(properties)
    with _sharing:
        return _shared.setdefault(endpoint, SharedToken(endpoint.fetch))


def token_provider(token: SharedToken) -> Any:  # noqa: ANN401 - the library has no types
    """Return kafka-python's provider of this token."""
    from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415 - slow to import

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # as above
        def token(self) -> str:
            return token.text()

    return Provider()
