"""Kafka client properties, as Java spells them, for the two Python clients.

The `kafka:` section of the configuration goes to Spark as it is. kafka-python (admin, probe) and
confluent-kafka (reading records) spell the same things otherwise; one table says how. Security settings that
a client cannot take are refused with a sentence, for leaving one out would connect another way than asked.
Tuning that only Spark's consumer knows (`fetch.*`, `max.poll.records`, ...) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_monitor.config.errors import ConfigError

Convert = Callable[[str], Any]
SECURITY = ("ssl.", "sasl.", "security.")
PEM_SUFFIXES = (".pem", ".crt", ".cer")
_JAAS_USER = re.compile(r'username\s*=\s*"((?:[^"\\]|\\.)*)"')
_JAAS_PASSWORD = re.compile(r'password\s*=\s*"((?:[^"\\]|\\.)*)"')
_JAAS_LOGINS = ("PlainLoginModule", "ScramLoginModule")


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the two Python clients spell one property; "" where the client has no such setting."""

    admin: str
    reader: str
    convert: Convert = str


def _checks_host(value: str) -> bool:
    return value.strip().lower() not in {"", "none"}


SPELLINGS: dict[str, Spelling] = {
    "bootstrap.servers": Spelling("bootstrap_servers", "bootstrap.servers"),
    "client.id": Spelling("client_id", "client.id"),
    "security.protocol": Spelling("security_protocol", "security.protocol"),
    "sasl.mechanism": Spelling("sasl_mechanism", "sasl.mechanism"),
    "sasl.username": Spelling("sasl_plain_username", "sasl.username"),
    "sasl.password": Spelling("sasl_plain_password", "sasl.password"),
    "sasl.kerberos.service.name": Spelling("sasl_kerberos_service_name", "sasl.kerberos.service.name"),
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
SAME_AS = {"sasl.mechanisms": "sasl.mechanism", "metadata.broker.list": "bootstrap.servers"}


def admin_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Give the keyword arguments of kafka-python's clients; ConfigError for what cannot be mapped."""
    plain = portable(properties)
    return {
        spelling.admin: _converted(name, spelling.convert, plain[name])
        for name, spelling in SPELLINGS.items()
        if name in plain and spelling.admin
    }


def reader_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Give the configuration of confluent-kafka's clients; ConfigError for what cannot be mapped."""
    plain = portable(properties)
    found = {
        spelling.reader: plain[name]
        for name, spelling in SPELLINGS.items()
        if name in plain and spelling.reader
    }
    if not _checks_host(found.get("ssl.endpoint.identification.algorithm", "https")):
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def portable(properties: Mapping[str, str]) -> dict[str, str]:
    """Give the properties under the names of `SPELLINGS`: JAAS lines and PEM stores are taken apart.

    Raises ConfigError for a security setting that has no counterpart.
    """
    found = {SAME_AS.get(name, name): value for name, value in properties.items()}
    found.update(_login(found))
    found.update(_stores(found))
    unknown = [name for name in found if name.startswith(SECURITY) and name not in SPELLINGS]
    problems = [
        f"the property `kafka: {name}` has no counterpart in the Python clients that the monitor uses beside "
        "Spark; use PEM files and sasl.jaas.config with a user name and a password"
        for name in sorted(set(unknown) - _UNDERSTOOD)
    ]
    if problems:
        raise ConfigError.of(problems)
    return {name: value for name, value in found.items() if name in SPELLINGS}


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    """Take user name and password out of `sasl.jaas.config`."""
    line = properties.get("sasl.jaas.config")
    if line is None:
        return {}
    user, password = _JAAS_USER.search(line), _JAAS_PASSWORD.search(line)
    if not any(module in line for module in _JAAS_LOGINS) or user is None or password is None:
        raise ConfigError(
            "the property `kafka: sasl.jaas.config` must name PlainLoginModule or ScramLoginModule with "
            'username="…" and password="…": other logins have no counterpart in the Python clients'
        )
    return {"sasl.username": _unquoted(user[1]), "sasl.password": _unquoted(password[1])}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _stores(properties: Mapping[str, str]) -> dict[str, str]:
    """Turn Java's PEM trust and key stores into the files that the Python clients take."""
    found: dict[str, str] = {}
    if trust := _pem(properties, "truststore"):
        found["ssl.ca.location"] = trust
    if key := _pem(properties, "keystore"):
        found |= {"ssl.certificate.location": key, "ssl.key.location": key}
    return found


def _pem(properties: Mapping[str, str], store: str) -> str | None:
    location = properties.get(f"ssl.{store}.location")
    replaced = "ssl.ca.location" if store == "truststore" else "ssl.certificate.location"
    if location is None or replaced in properties:
        return None
    kind = properties.get(f"ssl.{store}.type", "")
    if kind.upper() == "PEM" or (not kind and location.lower().endswith(PEM_SUFFIXES)):
        return location
    raise ConfigError(
        f"the property `kafka: ssl.{store}.location` names a {kind or 'JKS'} store, which the Python clients "
        f"cannot read: use a PEM file (`ssl.{store}.type: PEM`), or add `{replaced}` with one"
    )


# Java's own spellings, already taken apart above or of no meaning to PEM files.
_UNDERSTOOD = {
    "sasl.jaas.config",
    *(f"ssl.{store}.{part}" for store in ("truststore", "keystore") for part in ("location", "type")),
    "ssl.truststore.password",
    "ssl.keystore.password",
    "ssl.protocol",
    "ssl.enabled.protocols",
}


def _converted(name: str, convert: Convert, value: str) -> object:
    try:
        return convert(value)
    except ValueError:
        raise ConfigError(f"the property `kafka: {name}` must be a whole number, not {value!r}") from None
