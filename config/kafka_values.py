"""What values of Kafka client properties mean, settled once before three clients read them each in its way.

Kafka's Java client (Spark), librdkafka and kafka-python disagree on what is written wrong: kafka-python, for
instance, connects in plain text where it does not know the security protocol. So a value is brought to the
one form that all three read alike, or refused by name (`settled`), and so are properties that contradict each
other (`contradictions`). Nothing here quotes a secret, opens a file or a connection.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from rebalance_monitor.config.addresses import servers_of
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.jaas import JaasError, Login, parse

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
LOGINS = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}
MODULES = {
    "PlainLoginModule": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "ScramLoginModule": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
JAAS, USER, PASSWORD = "sasl.jaas.config", "sasl.username", "sasl.password"
PROTOCOL, MECHANISM, HOST_CHECK = (
    "security.protocol",
    "sasl.mechanism",
    "ssl.endpoint.identification.algorithm",
)
PEM_SUFFIXES = (".pem", ".crt", ".cer")
SAME_AS = {"sasl.mechanisms": MECHANISM, "metadata.broker.list": "bootstrap.servers"}
NUMBERS = (
    "request.timeout.ms",
    "metadata.max.age.ms",
    "retry.backoff.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "connections.max.idle.ms",
)
REACH = ("bootstrap.", "security.", "sasl.", "ssl.")
"""How the names begin of the properties that say how a cluster is reached."""
# Java's own spellings: taken apart by `translated`, or of no meaning to PEM files.
JAVA_ONLY = frozenset(
    {
        JAAS,
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


def settled(name: str, value: str) -> str:
    """Return the value as all clients read it alike. Raises ValueError: what is wrong, without the name."""
    settle = SETTLED.get(SAME_AS.get(name, name))
    return value if settle is None else settle(value)


def login_of(properties: Mapping[str, str]) -> Login | None:
    """Return the login of `sasl.jaas.config`, None without one. Raises ValueError, without quoting it."""
    line = properties.get(JAAS)
    if line is None:
        return None
    try:
        login = parse(line)
    except JaasError as error:
        raise ValueError(f"the property `kafka: {JAAS}` cannot be read: {error}") from None
    if login.name not in MODULES or not {"username", "password"} <= login.options.keys():
        raise ValueError(
            f"the property `kafka: {JAAS}` must name PlainLoginModule or ScramLoginModule with "
            'username="…" and password="…": other logins have no counterpart in the Python clients'
        )
    return login


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
        yield from _login_problems(properties)


def _login_problems(properties: Mapping[str, str]) -> Iterator[str]:
    mechanism, login = properties.get(MECHANISM), login_of(properties)
    if mechanism is None:
        yield f"the property `kafka: {MECHANISM}` is missing: set one of {', '.join(MECHANISMS)}"
    if login is None:
        missing = [name for name in (USER, PASSWORD) if not properties.get(name)]
        if missing:
            yield f"the login is missing: set `kafka: {JAAS}`, or `{USER}` and `{PASSWORD}`"
        return
    if mechanism in LOGINS and LOGINS[mechanism] != login.name:
        fits = LOGINS[mechanism]
        yield f"the property `kafka: {JAAS}` names {login.name}, and {mechanism} logs in with {fits}"
    for name, option in ((USER, "username"), (PASSWORD, "password")):
        if name in properties and properties[name] != login.options[option]:
            yield f"`kafka: {name}` and `kafka: {JAAS}` differ in the {option}: keep one of them"


def translated(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with librdkafka's names beside Java's: user and password, and PEM files.

    Raises ConfigError with every problem.
    """
    found, problems = {SAME_AS.get(name, name): value for name, value in properties.items()}, []
    for translate in (_login, _trust, _key):
        try:
            found |= translate(found)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError.of(problems)
    return found


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a client of librdkafka's, without what only Java understands."""
    found = translated(properties)
    if found.get(HOST_CHECK) == "":
        found[HOST_CHECK] = "none"
    return {name: value for name, value in found.items() if name not in JAVA_ONLY}


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    login = login_of(properties)
    return {} if login is None else {USER: login.options["username"], PASSWORD: login.options["password"]}


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
    kind = properties.get(f"ssl.{store}.type", "").strip()
    if kind.upper() == "PEM" or (not kind and location.lower().endswith(PEM_SUFFIXES)):
        return location
    raise ValueError(
        f"the property `kafka: ssl.{store}.location` names a {kind or 'JKS'} store, which the Python clients "
        f"cannot read: use a PEM file (`ssl.{store}.type: PEM`), or add `{replaced}` with one"
    )


def jaas_line(mechanism: str, user: str, password: str) -> str:
    """Return the line of `sasl.jaas.config` for a user."""
    name, word = _quoted(user), _quoted(password)
    return f"{MODULES[LOGINS[mechanism]]} required username={name} password={word};"


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{plain}"'


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
    return text


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
}
