"""Normalises values of Kafka client properties once, because three clients would each read them differently.

Kafka's Java client (Spark), librdkafka and kafka-python disagree on what is written wrong: kafka-python, for
instance, connects in plain text where it does not know the security protocol. So a value is brought to the
one form that all three read alike, or refused by name (`settled`), and so are properties that contradict each
other (`contradictions`). Nothing here quotes a secret, opens a file or a connection.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.addresses import servers_of
from rebalance_monitor.config.kafka.logins import (
    BY_LIBRDKAFKA,
    JAVA_SASL,
    MECHANISM,
    MECHANISMS,
    PASSWORD,
    PROTOCOL,
    TOKEN_URL,
    USER,
    LoginKind,
    client_credentials,
    login_kind,
    login_of,
    login_problems,
    token_trust,
)
from rebalance_monitor.config.texts import MOST

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
HOST_CHECK = "ssl.endpoint.identification.algorithm"
PEM_SUFFIXES = (".pem", ".crt", ".cer")
SAME_AS = {"sasl.mechanisms": MECHANISM, "metadata.broker.list": "bootstrap.servers"}
# What client credentials are called in librdkafka.
OIDC_NAMES = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
HTTPS_TRUST = "https.ca.location"
NUMBERS = (
    "request.timeout.ms",
    "metadata.max.age.ms",
    "retry.backoff.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "connections.max.idle.ms",
    "socket.connection.setup.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
    "default.api.timeout.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "fetch.min.bytes",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
)
LEAST_MS = {"request.timeout.ms": 100, "connections.max.idle.ms": 1_000}
"""A request that is given up, and a connection that is closed, before a broker can have answered."""

REACH = ("bootstrap.", "security.", "sasl.", "ssl.")
"""How the names begin of the properties that say how a cluster is reached."""
# Java's own spellings: taken apart by `translated`, or of no meaning to PEM files.
JAVA_ONLY = frozenset(
    {
        *JAVA_SASL,
        *(
            f"ssl.{store}.{part}"
            for store in ("truststore", "keystore")
            for part in ("location", "type", "password")
        ),
        "ssl.protocol",
        "ssl.enabled.protocols",
    }
)
# What people mean by a protocol that Kafka does not have.
MEANT = {
    "TLS": "SSL",
    "HTTPS": "SSL",
    "SASL": "SASL_SSL",
    "SASL_TLS": "SASL_SSL",
    "TEXT": "PLAINTEXT",
    "PLAIN": "PLAINTEXT",
}
# Files of these say how the brokers and we know each other: pointless on a connection without TLS.
TLS_FILES = re.compile(r"ssl\.(truststore|keystore|ca|certificate|key)\.location")


def normalise(name: str, value: str) -> str:
    """Return the value as all clients read it alike. Raises ValueError: what is wrong, without the name."""
    settle = SETTLED.get(SAME_AS.get(name, name))
    return value if settle is None else settle(value)


def contradictions(properties: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong between properties: a client would connect otherwise than was meant."""
    protocol = properties.get(PROTOCOL, "PLAINTEXT")
    own = "" if PROTOCOL in properties else ", the default"
    logins = sorted(name for name in properties if name.startswith("sasl."))
    if not protocol.startswith("SASL_") and logins:
        yield (
            f"the property `kafka: {logins[0]}` logs in, and `{PROTOCOL}` is {protocol}{own}, which does "
            "not: set it to SASL_SSL or SASL_PLAINTEXT"
        )
    files = sorted(filter(TLS_FILES.fullmatch, properties))
    if "SSL" not in protocol.split("_") and files:
        yield (
            f"the property `kafka: {files[0]}` is for TLS, and `{PROTOCOL}` is {protocol}{own}, which has "
            f"none: set it to {'SASL_SSL' if protocol.startswith('SASL_') or logins else 'SSL'}"
        )
    if protocol.startswith("SASL_"):
        yield from login_problems(properties)


def translated(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties by librdkafka's names, without what only Java understands: login and PEM files.

    A login that librdkafka does not have is left out. Raises ConfigError with every problem.
    """
    given = {SAME_AS.get(name, name): value for name, value in properties.items()}
    found, problems = {name: value for name, value in given.items() if name not in JAVA_ONLY}, []
    for translate in (_login, _trust, _key):
        try:
            found |= translate(given)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError.of(problems)
    return found


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a client of librdkafka's. Raises ConfigError for a login it lacks."""
    found = translated(properties)
    if (kind := login_kind(properties)) not in BY_LIBRDKAFKA:
        raise ConfigError(
            f"librdkafka, which writes here, does not log in by {kind.value}: give `properties` with a login "
            "that it has (docs: Logins)"
        )
    if found.get(HOST_CHECK) == "":
        found[HOST_CHECK] = "none"
    return found


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    login, kind = login_of(properties), login_kind(properties)
    if kind is LoginKind.OIDC:
        given = client_credentials(properties)
        # librdkafka fetches tokens by itself (KIP-768), and a new one before the last one expires.
        return {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": properties.get(TOKEN_URL, ""),
            **{name: given[key] for key, name in OIDC_NAMES.items() if key in given},
            **({HTTPS_TRUST: trust} if (trust := token_trust(properties)) else {}),
        }
    if login is None or not {"username", "password"} <= login.options.keys():
        return {}
    return {USER: login.options["username"], PASSWORD: login.options["password"]}


def _trust(properties: Mapping[str, str]) -> dict[str, str]:
    trust = _pem(properties, "truststore", "ssl.ca.location")
    return {} if trust is None else {"ssl.ca.location": trust}


def _key(properties: Mapping[str, str]) -> dict[str, str]:
    key = _pem(properties, "keystore", "ssl.certificate.location")
    return {} if key is None else {"ssl.certificate.location": key, "ssl.key.location": key}


def _pem(properties: Mapping[str, str], store: str, replaced: str) -> str | None:
    """Return the PEM file of a Java store, None where there is none or the Python clients have their own."""
    location = properties.get(f"ssl.{store}.location")
    if location is None or replaced in properties:
        return None
    if is_pem(properties, store):
        return location
    kind = properties.get(f"ssl.{store}.type", "").strip()
    raise ValueError(
        f"the property `kafka: ssl.{store}.location` names a {kind or 'JKS'} store, which librdkafka cannot "
        f"read: use a PEM file (`ssl.{store}.type: PEM`), or add `{replaced}` with one"
    )


def is_pem(properties: Mapping[str, str], store: str) -> bool:
    """Whether a store of Java's client (`truststore`, `keystore`) is a PEM file, by its type or its name."""
    kind = properties.get(f"ssl.{store}.type", "").strip()
    return kind.upper() == "PEM" or (
        not kind and properties[f"ssl.{store}.location"].lower().endswith(PEM_SUFFIXES)
    )


def _choice(
    known: tuple[str, ...], change: Callable[[str], str], meant: Mapping[str, str] | None = None
) -> Callable[[str], str]:
    def settle(value: str) -> str:
        text = change(value.strip())
        if text in known:
            return text
        words = text.replace("-", "_") if "_" in "".join(known) else text
        close = (meant or {}).get(words) or next(iter(get_close_matches(words, known, 1, 0.6)), None)
        hint = f": did you mean {close}?" if close else ""
        raise ValueError(f"must be one of {', '.join(known)}, not {value!r}{hint}")

    return settle


def _number(value: str) -> str:
    text = value.strip()
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"must be a whole number, not {value!r}")
    if int(text) > MOST:
        raise ValueError(f"must be a whole number up to {MOST}, not {value!r}")
    return text


def _at_least(ms: int) -> Callable[[str], str]:
    def settle(value: str) -> str:
        text = _number(value)
        if int(text) < ms:
            raise ValueError(f"must be {ms} or more, not {value!r}: with less no broker seems to answer")
        return text

    return settle


def _host_check(value: str) -> str:
    text = value.strip().lower()
    if text not in {"", "none", "https"}:
        raise ValueError(f"must be https, or empty for no check of host names, not {value!r}")
    # Java knows an empty text alone for it.
    return "" if text == "none" else text


SETTLED: dict[str, Callable[[str], str]] = {
    "bootstrap.servers": servers_of,
    PROTOCOL: _choice(PROTOCOLS, str.upper, MEANT),
    MECHANISM: _choice(MECHANISMS, str.upper),
    "client.dns.lookup": _choice(LOOKUPS, str.lower),
    HOST_CHECK: _host_check,
    **dict.fromkeys(NUMBERS, _number),
    **{name: _at_least(ms) for name, ms in LEAST_MS.items()},
}
