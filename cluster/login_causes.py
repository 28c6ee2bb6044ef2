"""Why Java's login failed, by its own words: Kerberos (RFC 4120, 7.5.9), classes that are missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.errors import AccessDeniedError, BrokerUnreachableError, DependencyError
from rebalance_monitor.config.kafka.logins import MECHANISM, SERVICE, login_of

if TYPE_CHECKING:
    from collections.abc import Mapping

DENIED, AWAY, MISSING = AccessDeniedError, BrokerUnreachableError, DependencyError
# In the words of the JDK's Krb5LoginModule and JGSS, and of MIT's library; the first match wins.
CAUSES: tuple[tuple[str, type[DependencyError], str, str], ...] = (
    (
        r"[Cc]lock skew",
        DENIED,
        "This machine's clock and the KDC's, or a broker's, differ by more than Kerberos allows.",
        "Set the clock by NTP.",
    ),
    (
        r"Client not found in Kerberos|CLIENT_NOT_FOUND|Client '.*' not found in Kerberos",
        DENIED,
        "The KDC knows no principal {principal}.",
        "Correct {principal_at}, or have it made.",
    ),
    (
        r"Server not found in Kerberos|SERVER_NOT_FOUND|Server .* not found in Kerberos",
        DENIED,
        "The KDC knows no service {service} of the broker's host.",
        f"Correct `{SERVICE}`, or name the brokers by the hosts of their principals.",
    ),
    (
        r"Pre-?authentication (information was invalid|failed)|Checksum failed|[Ii]ntegrity|PREAUTH_F",
        DENIED,
        "The key in the keytab is not the key of {principal}: it has been changed since.",
        "Export the keytab anew.",
    ),
    (
        r"asked for a password|obtain (password|Principal)|[Nn]o key (to|for)|suitable keys|eytab.*not",
        DENIED,
        "The keytab {keytab} cannot be read, or holds no key of {principal}.",
        "Correct {keytab_at} and {principal_at}.",
    ),
    (
        r"Cannot locate (default )?realm|Cannot locate KDC|Cannot get kdc|Cannot find KDC|No KDC",
        MISSING,
        "No KDC is known for the realm of {principal}.",
        "Name it in krb5.conf (`-Djava.security.krb5.conf=…` in `spark.driver.extraJavaOptions`).",
    ),
    (
        r"Connection refused|timed out|Network is unreachable|Cannot contact any KDC|UnknownHost|No route to",
        AWAY,
        "What the login asks, a KDC or a token endpoint, does not answer: {words}.",
        "Check that it runs, and the network between.",
    ),
    (
        r"([Tt]icket|Credentials).*expired|TKT_EXPIRED|Failed to find any Kerberos|No valid credentials",
        DENIED,
        "There is no valid Kerberos ticket.",
        "Use a keytab, which renews itself, or run kinit and keep the ticket renewed.",
    ),
    (
        r"(No|unable to find) LoginModule|ClassNotFound|could not be found|[Cc]lass .* not found",
        MISSING,
        "Java's client does not find a class of the login: {words}.",
        "Add its jar to `jars:`, or its coordinates to `packages:`, beside Spark's Kafka connector.",
    ),
)


def login_error(words: str, properties: Mapping[str, str], more: str = "") -> DependencyError:
    """Return the error of a login that failed with these words; `more`: what is searched and not shown."""
    login = login_of(properties)
    options = {} if login is None else login.options
    known = {
        "principal": options.get("principal") or "our principal",
        "keytab": options.get("keyTab") or "of the system",
        "service": options.get("serviceName") or properties.get(SERVICE, ""),
        "principal_at": "`principal` in `sasl.jaas.config`",
        "keytab_at": "`keyTab` in `sasl.jaas.config`",
    }
    found = _error(words, more, known)
    return found or AccessDeniedError(
        f"The login by {properties.get(MECHANISM, '')} failed: {words}.", "Correct `sasl.*` under `kafka:`."
    )


def hadoop_login_error(words: str, more: str, keytab: str, principal: str) -> DependencyError:
    """Return the error of Hadoop's login by the keytab of Spark's settings; otherwise as `login_error`."""
    names = "`spark.kerberos.principal`", "`spark.kerberos.keytab`"
    known = {"principal": principal, "keytab": keytab, "principal_at": names[0], "keytab_at": names[1]}
    found = _error(words, more, known)
    return found or AccessDeniedError(
        f"Hadoop's login as {principal} failed: {words}.", f"Correct {' and '.join(names)} under `spark:`."
    )


def _error(words: str, more: str, known: Mapping[str, str]) -> DependencyError | None:
    given = {"service": "", **known, "words": words}
    for pattern, kind, what, remedy in CAUSES:
        if re.search(pattern, f"{words} {more}"):
            return kind(what.format_map(given), remedy.format_map(given))
    return None
