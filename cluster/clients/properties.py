"""Kafka client properties, as Java spells them, for the two Python clients.

The `kafka:` section of the configuration goes to Spark as it is. kafka-python (admin, probe) and
confluent-kafka (reading records) spell the same things otherwise; one table says how. Security settings that
a client cannot take are refused with a sentence, for leaving one out would connect another way than asked.
Tuning that only Spark's consumer knows (`fetch.*`, `max.poll.records`, ...) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from rebalance_monitor.cluster.clients.java_stores import with_pem
from rebalance_monitor.cluster.logins.held import has_librdkafka, login_arguments
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.logins import (
    JAAS,
    MECHANISM,
    PASSWORD,
    TOKEN_URL,
    USER,
    jaas_line,
    login_kind,
)
from rebalance_monitor.config.kafka.values import (
    HOST_CHECK,
    HTTPS_TRUST,
    OIDC_NAMES,
    SAME_AS,
    contradictions,
    normalise,
    translated,
)

Convert = Callable[[str], Any]
SECURITY = ("ssl.", "sasl.", "security.")
INLINE = {
    "ssl.truststore.certificates": "ssl.truststore",
    "ssl.keystore.key": "ssl.keystore",
    "ssl.keystore.certificate.chain": "ssl.keystore",
}
"""Properties of Java's client that hold PEM text -> the store whose file may hold it."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the two Python clients spell one property; "" where the client has no such setting."""

    admin: str
    reader: str
    convert: Convert = str


def _checks_host(value: str) -> bool:
    return value.strip().lower() not in {"", "none"}


OIDC_ONLY = ("sasl.oauthbearer.method", TOKEN_URL, HTTPS_TRUST, *OIDC_NAMES.values())
SPELLINGS: dict[str, Spelling] = {
    "bootstrap.servers": Spelling("bootstrap_servers", "bootstrap.servers"),
    "client.id": Spelling("client_id", "client.id"),
    "security.protocol": Spelling("security_protocol", "security.protocol"),
    "sasl.mechanism": Spelling("sasl_mechanism", "sasl.mechanism"),
    "sasl.username": Spelling("sasl_plain_username", "sasl.username"),
    "sasl.password": Spelling("sasl_plain_password", "sasl.password"),
    **{name: Spelling("", name) for name in OIDC_ONLY},
    "ssl.ca.location": Spelling("ssl_cafile", "ssl.ca.location"),
    "ssl.certificate.location": Spelling("ssl_certfile", "ssl.certificate.location"),
    "ssl.key.location": Spelling("ssl_keyfile", "ssl.key.location"),
    "ssl.key.password": Spelling("ssl_password", "ssl.key.password"),
    "ssl.crl.location": Spelling("ssl_crlfile", "ssl.crl.location"),
    "ssl.endpoint.identification.algorithm": Spelling(
        "ssl_check_hostname", "ssl.endpoint.identification.algorithm", _checks_host
    ),
    "request.timeout.ms": Spelling("request_timeout_ms", "", int),
    "metadata.max.age.ms": Spelling("metadata_max_age_ms", "metadata.max.age.ms", int),
    "retry.backoff.ms": Spelling("retry_backoff_ms", "retry.backoff.ms", int),
    "reconnect.backoff.ms": Spelling("reconnect_backoff_ms", "reconnect.backoff.ms", int),
    "reconnect.backoff.max.ms": Spelling("reconnect_backoff_max_ms", "reconnect.backoff.max.ms", int),
    "connections.max.idle.ms": Spelling("connections_max_idle_ms", "connections.max.idle.ms", int),
    "client.dns.lookup": Spelling("client_dns_lookup", "client.dns.lookup"),
}


def admin_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Give the keyword arguments of kafka-python's clients; ConfigError for what cannot be mapped."""
    plain = portable(properties)
    found = {
        spelling.admin: spelling.convert(plain[name])
        for name, spelling in SPELLINGS.items()
        if name in plain and spelling.admin
    }
    return found | login_arguments(properties)


def reader_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Give the configuration of confluent-kafka's clients; ConfigError for what cannot be mapped.

    Of a login that librdkafka does not have too: there kafka-python takes its place (logins/held.py).
    """
    plain = portable(properties)
    if not has_librdkafka(properties):
        raise ConfigError(f"librdkafka does not log in by {login_kind(properties)}")
    found = {
        spelling.reader: plain[name]
        for name, spelling in SPELLINGS.items()
        if name in plain and spelling.reader
    }
    if not _checks_host(found.get("ssl.endpoint.identification.algorithm", "https")):
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def portable(properties: Mapping[str, str]) -> dict[str, str]:
    """Give the properties under the names of `SPELLINGS`: JAAS lines and stores are taken apart.

    Raises ConfigError for values that a client would read otherwise, for properties that contradict each
    other, and for a security setting that has no counterpart.
    """
    problems, known = [], dict[str, str]()
    for name, value in properties.items():
        try:
            known[SAME_AS.get(name, name)] = normalise(name, value)
        except ValueError as error:
            problems.append(f"the property `kafka: {name}` {error}")
    if problems:
        raise ConfigError.of(problems)
    try:
        found = translated(with_pem(known))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    problems = [
        f"the property `kafka: {name}` has no counterpart in the Python clients that the monitor uses beside "
        f"Spark{_instead(name)}"
        for name in sorted(found.keys() - SPELLINGS.keys())
        if name.startswith(SECURITY)
    ]
    problems += contradictions(known)
    if problems:
        raise ConfigError.of(problems)
    return {name: value for name, value in found.items() if name in SPELLINGS}


def _instead(name: str) -> str:
    """Say what to write in place of PEM text; else ask for the property that a misspelt name may mean."""
    if store := INLINE.get(name):
        return f": write the text into a PEM file, and name that by `{store}.location` (`{store}.type`: PEM)"
    close = get_close_matches(name, {*SPELLINGS, *SAME_AS, JAAS}, 1, 0.9)
    return f"; did you mean `{close[0]}`?" if close else ""


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Give the properties as Spark's client, Java's, takes them: a login line, and stores for PEM files.

    Raises ConfigError as `portable`, and for what Java has no counterpart of.
    """
    plain = portable(properties)
    found = {name: value for name, value in properties.items() if name not in C_ONLY}
    found |= {name: plain[name] for name in (MECHANISM, HOST_CHECK) if name in plain}
    if JAAS not in found and USER in plain and MECHANISM in plain:
        found[JAAS] = jaas_line(plain[MECHANISM], plain[USER], plain[PASSWORD])
    if "ssl.ca.location" in properties and "ssl.truststore.location" not in found:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": plain["ssl.ca.location"]}
    if "ssl.certificate.location" in properties and "ssl.keystore.location" not in found:
        if plain["ssl.certificate.location"] != plain.get("ssl.key.location"):
            raise ConfigError(
                "the properties `kafka: ssl.certificate.location` and `kafka: ssl.key.location` must name "
                "one PEM file that holds both: so Spark's client reads them"
            )
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": plain["ssl.key.location"]}
    return found


# librdkafka's own spellings, which Java passes over.
C_ONLY = frozenset(
    {
        USER,
        PASSWORD,
        "sasl.mechanisms",
        "metadata.broker.list",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
    }
)
