"""Kafka's own client configuration files (`--command-config client.properties`), as its tools take them.

The format is java.util.Properties: `key=value`, `key: value` or `key value`, comments after `#` or `!`, a
line that ends in a backslash goes on. What the monitor sets itself (`group.id`, deserializers) is left out:
the file was written for other clients too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.clients import OWNED

if TYPE_CHECKING:
    from pathlib import Path

_CONTINUES = re.compile(r"(?<!\\)(?:\\\\)*\\\n[ \t\f]*")
_PAIR = re.compile(r"((?:[^\\=: \t\f]|\\.)+)[ \t\f]*[=: \t\f]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file, without those that the monitor sets. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"the client properties {path} cannot be read: {why}") from error
    found = parse_properties(text)
    return {name: value for name, value in found.items() if name not in OWNED}


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties that `text` sets; the last line of a name counts."""
    whole = _CONTINUES.sub(lambda found: found[0][: found[0].rindex("\\")], text.replace("\r\n", "\n"))
    lines = [line.lstrip(" \t\f") for line in whole.split("\n")]
    pairs = (_PAIR.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {_plain(pair[1]): _plain(pair[2]) for pair in pairs if pair}


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda found: _letter(found[1]), text)


def _letter(escaped: str) -> str:
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _LETTERS.get(escaped, escaped)
