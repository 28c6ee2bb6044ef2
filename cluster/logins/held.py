"""Which client logs in by what, and what kafka-python needs for it.

librdkafka has passwords, certificates and OAuth client credentials of its own. kafka-python has passwords
and certificates, is handed tokens (tokens.py), and has others speak the SASL exchanges of all else: the
package gssapi where it is installed (gssapi_login.py), or Java (java_login.py).
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from rebalance_monitor.cluster.logins.gssapi_login import GssapiLogin, gssapi_login, has_gssapi
from rebalance_monitor.cluster.logins.java_login import JavaLogin, java_login
from rebalance_monitor.cluster.logins.tokens import SharedToken, shared_token, token_provider
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.logins import (
    BY_LIBRDKAFKA,
    MECHANISM,
    MECHANISMS,
    LoginKind,
    login_kind,
    login_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.cluster.errors import DependencyError


class HeldLogin(Protocol):
    """A login that is made once for all clients of this process, and renewed."""

    @property
    def problem(self) -> DependencyError | None:
        """Why it, or the last exchange with a broker, failed; None after one that did not."""

    def require(self) -> None:
        """Log in as far as no broker has a part in it. Raises DependencyError with the cause."""


def has_librdkafka(properties: Mapping[str, str]) -> bool:
    """Whether librdkafka can log in with these (valid) properties."""
    return login_kind(properties) in BY_LIBRDKAFKA


def shared_login(properties: Mapping[str, str]) -> HeldLogin | None:
    """Return the login of these properties; None where each client has it of its own."""
    kind = login_kind(properties)
    if kind in {LoginKind.NONE, LoginKind.PASSWORD}:
        return None
    if kind is LoginKind.OIDC:
        return shared_token(properties)
    if kind is LoginKind.KERBEROS and has_gssapi(properties):
        return gssapi_login(properties)
    return java_login(properties)


def require_login(properties: Mapping[str, str]) -> None:
    """Log in as far as no broker has a part in it. Raises DependencyError with the cause, ConfigError."""
    if login := shared_login(properties):
        login.require()


def require_keytab(properties: Mapping[str, str]) -> None:
    """Raise ConfigError where the login names a keytab that cannot be read here."""
    login = login_of(properties) if login_kind(properties) is LoginKind.KERBEROS else None
    keytab = login.options.get("keyTab", "").removeprefix("file:") if login else ""
    if keytab and not os.access(keytab, os.R_OK):
        raise ConfigError(f"`keyTab` in `kafka: sasl.jaas.config` names {keytab}, which cannot be read")


def login_problem(properties: Mapping[str, str]) -> DependencyError | None:
    """Return why the last login of this process with these (valid) properties failed, None if it did not."""
    login = shared_login(properties)
    return login.problem if login else None


def served(properties: Mapping[str, str]) -> str:
    """Say which client serves what under the login of these properties."""
    login, kind = shared_login(properties), login_kind(properties)
    if kind is LoginKind.NONE:
        return "none, or by certificate: every client has that of its own"
    if isinstance(login, JavaLogin | GssapiLogin):
        by = "Java" if isinstance(login, JavaLogin) else "the package gssapi"
        words = (
            f"Spark's source has it; {by} logs kafka-python in, by which admin, probe, ends and reading go"
        )
    else:
        words = (
            "Spark's source, librdkafka (ends, reading) and kafka-python (admin, probe) have it of their own"
        )
    return f"{kind.value} ({properties[MECHANISM]}): {words}"


def login_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return kafka-python's arguments for a login that is more than a user and a password."""
    login = shared_login(properties)
    if login is None:
        return {}
    _register_exchanges()
    provider = token_provider(login) if isinstance(login, SharedToken) else login
    return {"sasl_mechanism": properties[MECHANISM], "sasl_oauth_token_provider": provider}


@cache
def _register_exchanges() -> None:
    """Have kafka-python begin an exchange of a login of ours where its argument for token providers is one.

    It makes a mechanism by name alone, with its own arguments: this is the one that may be any object.
    """
    from kafka.net.sasl import get_sasl_mechanism, register_sasl_mechanism  # noqa: PLC0415 - slow to import

    def either(own: Any) -> Any:  # noqa: ANN401 - the library has no types
        def made(host: str, **config: Any) -> Any:  # noqa: ANN401 - as above
            login = config.get("sasl_oauth_token_provider")
            return (
                login.exchange(host)
                if isinstance(login, JavaLogin | GssapiLogin)
                else own(host=host, **config)
            )

        return made

    for mechanism in MECHANISMS:
        register_sasl_mechanism(mechanism, either(get_sasl_mechanism(mechanism)), overwrite=True)
