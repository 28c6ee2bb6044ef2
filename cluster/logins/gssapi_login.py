"""Logs kafka-python in by Kerberos without Java: the package `gssapi` (extra [kerberos]) on MIT's library.

RFC 4752, without a security layer, as Kafka has it (KIP-12). The login line is Java's: a keytab with its
principal (renewed by the library, from a ticket cache in memory), or the ticket cache that kinit fills.
Realms are those of the system's krb5.conf, or of KRB5_CONFIG.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.login_causes import login_error
from rebalance_monitor.cluster.logins.attempts import AGAIN_S, Attempts
from rebalance_monitor.config.kafka.logins import login_of, service_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rebalance_monitor.cluster.errors import DependencyError

NO_LAYER = b"\x01"
"""Authentication alone; the broker's own largest size of a wrapped message goes back with it."""
EXPIRED = "xpired"


KNOWN_OPTIONS = frozenset(
    {
        *("useKeyTab", "storeKey", "keyTab", "principal", "serviceName"),
        *("useTicketCache", "ticketCache", "renewTGT", "doNotPrompt", "refreshKrb5Config"),
    }
)
"""Options of Java's Krb5LoginModule that are followed, or that say nothing here; with others Java logs in."""


def has_gssapi(properties: Mapping[str, str]) -> bool:
    """Whether the package is installed, and the login line is one that it can follow."""
    login = login_of(properties)
    options = {} if login is None else login.options
    by_file = "keyTab" in options or options.get("useTicketCache", "").lower() == "true"
    return by_file and options.keys() <= KNOWN_OPTIONS and find_spec("gssapi") is not None


class GssapiLogin:
    """One login by the properties that Java's client takes for GSSAPI."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        login = login_of(properties)
        self._options = {} if login is None else login.options
        self._service = "" if login is None else service_of(properties, login)
        self.attempts = Attempts("GSSAPI")
        self._failure: DependencyError | None = None
        self._again_at, self._asked_anew = -math.inf, 0

    @property
    def problem(self) -> DependencyError | None:
        """Why the last exchange, or the login itself, failed; None after one that did not."""
        return self._failure or self.attempts.refusal()

    def require(self) -> None:
        """Get a ticket, unless there is one. Raises DependencyError with the cause."""
        self.call(lambda: self._credentials().lifetime)

    def exchange(self, host: str) -> Exchange:
        """Begin a SASL exchange with a broker. Raises DependencyError with the cause."""
        if self._failure and time.monotonic() < self._again_at:
            raise self._failure.with_traceback(None)
        return Exchange(self, self.call(lambda: self._context(host)), host)

    def call(self, act: Callable[[], Any]) -> Any:  # noqa: ANN401 - the library has no types
        """Log in. Raises DependencyError with the cause of a failure."""
        from gssapi.exceptions import GSSError  # noqa: PLC0415 - an optional dependency

        try:
            found = act()
        except GSSError as error:
            words = str(error)
            if EXPIRED in words and "keyTab" in self._options:
                words = self._why_not_renewed() or words
            self._failure = login_error(words, self._properties)
            raise self._failure from None
        self._failure = None
        return found

    def _why_not_renewed(self) -> str:
        """Ask for a ticket anew: of one that it could not renew the library says only that it expired."""
        from gssapi.exceptions import GSSError  # noqa: PLC0415 - an optional dependency

        self._asked_anew += 1
        try:
            _ = self._credentials(f"-{self._asked_anew}").lifetime
        except GSSError as error:
            self._again_at = time.monotonic() + AGAIN_S
            return str(error)
        return ""

    def _context(self, host: str) -> Any:  # noqa: ANN401 - as above
        import gssapi  # noqa: PLC0415 - as above

        service = gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service)
        kerberos = gssapi.MechType.kerberos
        return gssapi.SecurityContext(
            name=service, creds=self._credentials(), mech=kerberos, usage="initiate"
        )

    def _credentials(self, cache_suffix: str = "") -> Any:  # noqa: ANN401 - as above
        import gssapi  # noqa: PLC0415 - as above

        principal, keytab = self._options.get("principal"), self._options.get("keyTab")
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
        if keytab is None:
            cache = self._options.get("ticketCache")
            store = {"ccache": f"FILE:{cache}"} if cache else None
            return gssapi.Credentials(usage="initiate", name=name, store=store)
        if not os.access(keytab, os.R_OK):
            # The library would say that there is no cache.
            self._failure = login_error(f"no key for it in {keytab}", self._properties)
            raise self._failure
        # One cache in memory for each keytab and principal: MIT's library renews what lies in it.
        cache = f"MEMORY:rebalance-monitor-{hash((keytab, principal))}{cache_suffix}"
        store = {"client_keytab": keytab, "ccache": cache}
        return gssapi.Credentials(usage="initiate", name=name, store=store)


_logins: dict[frozenset[tuple[str, str]], GssapiLogin] = {}


def gssapi_login(properties: Mapping[str, str]) -> GssapiLogin:
    """Return the login of these properties that all clients of this process share."""
    of_login = {name: value for name, value in properties.items() if name.startswith("sasl.")}
    return _logins.setdefault(frozenset(of_login.items()), GssapiLogin(of_login))


@dataclass(slots=True)
class Exchange:
    """The client's half of one SASL exchange, as kafka-python's mechanisms have it."""

    login: GssapiLogin
    context: Any
    host: str
    answer: bytes | None = None
    authenticated: bool = False

    def auth_bytes(self) -> bytes:
        """Give what is sent next."""
        if self.answer is None:
            self.login.attempts.begin(self.host)
            self.answer = self._step(None)
        return self.answer

    def receive(self, challenge: bytes) -> None:
        """Take what the broker sends: a token of Kerberos, then its offer of layers, then nothing."""
        if self.authenticated:
            self.answer = b""
            self.login.attempts.end(self.host)
        elif not self.context.complete:
            self.answer = self._step(challenge)
        else:
            offer: bytes = self.login.call(lambda: self.context.unwrap(challenge).message)
            chosen = NO_LAYER + offer[1:] + str(self.context.initiator_name).encode()
            self.answer = self.login.call(lambda: self.context.wrap(chosen, False).message)  # noqa: FBT003 - the library's signature
            self.authenticated = True

    def is_done(self) -> bool:
        """Whether nothing is to be sent any more."""
        return self.authenticated and not self.answer

    def is_authenticated(self) -> bool:
        """Whether we are logged in."""
        return self.authenticated

    def auth_details(self) -> str:
        """Say it, for the library's log."""
        return "Authenticated by GSSAPI"

    def _step(self, challenge: bytes | None) -> bytes:
        return self.login.call(lambda: self.context.step(challenge)) or b""
