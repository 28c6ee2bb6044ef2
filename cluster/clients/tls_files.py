"""Whether the PEM files of a configuration are what the clients need, and if not, which file and why.

OpenSSL's words name neither the file nor the cure, and it asks the terminal for the password of a key. Java
reads keys in the form of PKCS#8 only (KIP-651), the other clients any.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CA, CERTIFICATE, KEY, KEY_PASSWORD = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
# What else sets a file, for the sentence.
SETS = {CA: "ssl.truststore.location", CERTIFICATE: "ssl.keystore.location", KEY: "ssl.keystore.location"}
PKCS8 = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")
CONVERT = "convert it: openssl pkcs8 -topk8 -in key.pem"


def require_usable(plain: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Raise ConfigError unless the files of `plain` (portable properties) can be used.

    `given`: the properties as configured; errors name the files by these.
    """
    problems = list(_problems(plain, given)) or list(_unfit_pair(plain))
    if problems:
        raise ConfigError.of(problems)


def _problems(plain: Mapping[str, str], given: Mapping[str, str]) -> Iterator[str]:
    texts: dict[str, str] = {}
    for name in (CA, CERTIFICATE, KEY):
        if name not in plain:
            continue
        who = f"the property `kafka: {name if name in given else SETS[name]}` names {plain[name]}"
        try:
            texts[name] = Path(plain[name]).read_text(encoding="latin-1")
        except OSError as error:
            if name != KEY or plain[KEY] != plain.get(CERTIFICATE):
                yield f"{who}, which cannot be read: {error.strerror}"
            continue
        wrong = _wrong(name, plain[name], texts[name], plain.get(KEY_PASSWORD))
        if wrong:
            yield f"{who}, {wrong}"


def _wrong(name: str, path: str, text: str, password: str | None) -> str:
    if name == CA:
        return (
            ""
            if _loads(lambda context: context.load_verify_locations(path))
            else "which holds no certificate in PEM form"
        )
    if name == CERTIFICATE:
        return "" if "-----BEGIN CERTIFICATE-----" in text else "which holds no certificate in PEM form"
    return _wrong_key(text, password)


def _wrong_key(text: str, password: str | None) -> str:
    if "PRIVATE KEY-----" not in text:
        return "which holds no private key in PEM form"
    if not any(form in text for form in PKCS8):
        return f"whose private key is not in the form of PKCS#8, which Spark's client needs: {CONVERT}"
    if PKCS8[1] in text and not password:
        return f"whose private key is encrypted, and `{KEY_PASSWORD}` is not set"
    return ""


def _unfit_pair(plain: Mapping[str, str]) -> Iterator[str]:
    if CERTIFICATE not in plain or KEY not in plain:
        return
    password = plain.get(KEY_PASSWORD, "")
    if not _loads(lambda context: context.load_cert_chain(plain[CERTIFICATE], plain[KEY], lambda: password)):
        yield (
            f"the private key in {plain[KEY]} does not fit the first certificate in {plain[CERTIFICATE]}"
            + (f", or `{KEY_PASSWORD}` is wrong" if password else "")
        )


def _loads(load: Callable[[ssl.SSLContext], None]) -> bool:
    try:
        load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    except (OSError, ValueError):
        return False
    return True
