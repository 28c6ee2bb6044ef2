"""Which free-form properties are secret, and how values that came from files are read.

A key is secret by its name (Kafka's and Spark's own names for credentials). Such values are kept as
`SecretStr`, so that no log line, error message or printed configuration can show them by accident. Any
property `x` may be given as `x_file`: the value is then the content of that file without its line end.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

WORDS_OF_SECRETS = (
    r"password|passphrase|secret|token|jaas|credential|private|keytab\.content|keystore\.key|basic\.auth"
    r"|account\.?key|access\.?key|encryption\.key|\bsas\b|signature"
)
"""Both Python and Java, for Spark's own redaction, read this pattern alike; letters of either case."""
SECRET_NAME = re.compile(WORDS_OF_SECRETS, re.IGNORECASE)
# In a value such as `-Djavax.net.ssl.trustStorePassword=…`.
SECRET_INSIDE = re.compile(rf"({WORDS_OF_SECRETS})[\w.-]*=\S", re.IGNORECASE)
HIDDEN = "**********"
LOGIN = re.compile(r"(?<=//)[^/\s]*@")

Value = str | SecretStr


def is_secret(key: str) -> bool:
    """Say whether the property's value must never be shown (`sasl.jaas.config`, `ssl.key.password`…)."""
    return SECRET_NAME.search(key) is not None


def as_value(key: str, value: object) -> Value:
    """Return the property's value as text, wrapped if its name, or a name in it, says that it is a secret.

    Booleans are written as Java properties write them. Raises `ValueError` for anything that is not a scalar.
    """
    if isinstance(value, SecretStr):
        return value
    if isinstance(value, Mapping) and value:
        # A name with dots, written in levels: in the environment by `__`.
        raise ValueError(f"`{key}` is no property: write its whole name, as `{key}.{next(iter(value))}: …`")
    if isinstance(value, bool) and is_secret(key):
        raise ValueError(f"`{key}` is read as a truth value: put quotes around it")
    if not isinstance(value, str | int | float | bool):
        # pydantic turns a ValueError, and only that, into a validation problem.
        raise ValueError(f"`{key}` must be a text, a number or a boolean")  # noqa: TRY004
    text = _whole(key, str(value).lower() if isinstance(value, bool) else str(value))
    return SecretStr(text) if is_secret(key) or SECRET_INSIDE.search(text) else text


def read_secret(key: str, path: object) -> SecretStr:
    """Return what the file of a `<key>_file` holds, without its line end; `ValueError` if unreadable."""
    try:
        text = Path(str(path)).expanduser().read_text(encoding="utf-8-sig").rstrip("\r\n")
        return SecretStr(_whole(f"{key}_file", text))
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        utf_8 = "it is not in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        reason = getattr(error, "strerror", None) or utf_8
        raise ValueError(f"`{key}_file` names {path}, which cannot be read: {reason}") from error


def _whole(key: str, text: str) -> str:
    """Return the text. Raises ValueError where librdkafka would read a part of it, or no client any of it."""
    if "\0" in text:
        raise ValueError(f"`{key}` holds the character NUL: write it as text in UTF-8")
    if any("\ud800" <= one <= "\udfff" for one in text):
        raise ValueError(f"`{key}` holds bytes that are no letters: write it as text in UTF-8")
    return text


def without_login(text: str) -> str:
    """Return a text whose addresses (`http://user:password@host`) have no user and no password."""
    return LOGIN.sub("", text)


def revealed(value: Value) -> str:
    """Return the plain text of a value, for the client that needs it and nobody else."""
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def shown(value: Value) -> str:
    """Return the value as it may be printed."""
    return HIDDEN if isinstance(value, SecretStr) else without_login(value)
