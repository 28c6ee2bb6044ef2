"""Kafka's own client configuration files (`--command-config client.properties`), as its tools take them.

The format is java.util.Properties: `key=value`, `key: value` or `key value`, comments after `#` or `!`, a
line that ends in a backslash goes on. What the monitor sets itself (`group.id`, deserializers) is left out:
the file was written for other clients too. What is wrong is reported with the file's name and the
property's own: whoever wrote it knows neither `kafka.bootstrap_servers` nor a command line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import ValidationError

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.clients import OWNED, Kafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic_core import ErrorDetails

_LINES = re.compile(r"\r\n|\r|\n")
# Nothing goes on behind the end: Java reads a backslash there as it does without the line's end.
_LAST_END = re.compile(r"(?<=\\)[\r\n]\Z")
_BLANKS = " \t\f"
_PAIR = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=: \t\f]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# What an editor may put before the first letter, in UTF-8 and as Java reads it.
_MARK = "\ufeff".encode().decode("latin-1")


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file, without those that the monitor sets. Raises ConfigError."""
    try:
        # Kafka's tools read the bytes as ISO 8859-1, whatever they were meant to be.
        text = path.read_bytes().decode("latin-1")
    except OSError as error:
        raise ConfigError(f"the client properties {path} cannot be read: {error.strerror}") from error
    try:
        found = parse_properties(text)
    except ValueError as error:
        raise ConfigError(f"the client properties {path} cannot be read: {error}") from None
    found = {name: value for name, value in found.items() if name not in OWNED}
    try:
        Kafka.model_validate(found)
    except ValidationError as error:
        said = [f"the client properties {path}: {_said(one)}" for one in error.errors()]
        raise ConfigError.of(said) from None
    return found


def _said(wrong: ErrorDetails) -> str:
    sentence = wrong["msg"].removeprefix("Value error, ")
    # The only field: a sentence about any other property names it.
    return f"`bootstrap.servers` {sentence}" if wrong["loc"] else sentence


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties that `text` sets; the last line of a name counts. Raises ValueError.

    A mark of the byte order is passed over: Java would take it for a part of the first name.
    """
    pairs = (_PAIR.fullmatch(line) for line in _whole_lines(text.removeprefix(_MARK)))
    return {_plain(pair[1]): _plain(pair[2]) for pair in pairs if pair}


def _whole_lines(text: str) -> Iterator[str]:
    """Yield the lines that set something. A comment does not go on, whatever it ends with."""
    lines = iter(_LINES.split(_LAST_END.sub("", text)))
    for first in lines:
        line = first.lstrip(_BLANKS)
        while line == "\\" and (more := next(lines, None)) is not None:
            line = more.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _goes_on(line) and (more := next(lines, None)) is not None:
            line = line[:-1] + more.lstrip(_BLANKS)
        yield line


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _plain(text: str) -> str:
    units = _ESCAPE.sub(lambda found: _letter(found[1]), text)
    try:
        # Two escapes may make one letter.
        return units.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("a `\\u` escape stands for half a letter") from None


def _letter(escaped: str) -> str:
    if escaped == "u":
        raise ValueError("four hexadecimal digits must follow `\\u`: write a backslash as `\\\\`")
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _LETTERS.get(escaped, escaped)
