"""Reads YAML and JSON as they are written: numbers and dates stay texts, and no key stands twice.

YAML 1.1 makes numbers of `0123` (83), `12:30:45` (45045) and `1_000`: a password would not be the one that
stands in the file. Fields that hold numbers read them from texts, as they do from the environment.
"""

import json
from collections.abc import Hashable, Iterator

import yaml
from pydantic import BaseModel, SecretStr

# A bare `yes` or `off` stays a truth value, and nothing stays nothing.
BARE_WORDS = frozenset({f"tag:yaml.org,2002:{name}" for name in ("bool", "null", "merge")})

# What PyYAML raises: the last ones for a tag like `!!bool` on a text of another kind, and deep nesting.
UNREADABLE = (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, RecursionError)

# How YAML's words begin that go on with a part of the text, and ours in their place.
QUOTING = {
    "but found another document": "a second document begins, and one is read,",
    "found undefined alias": "a value begins with `*`; put quotes around it,",
    "could not determine a constructor": "a value begins with `!`; put quotes around it,",
    "second occurrence": "a name after `&` stands twice; put quotes around a value that begins with `&`,",
    "found undefined tag handle": "a value begins with `!`; put quotes around it,",
    "found unhashable key": "a list or a map stands in the place of a key",
}
LONGEST = 10_000
"""Characters of one text; a token is the longest."""
QUOTED = 200
"""Characters of a text that a sentence quotes."""
MOST = 2**31 - 1
"""The largest number that every client takes."""
NO_HEADER = "must be letters, digits and signs of ASCII, without blanks around: it goes into a header of HTTP"


class AsWritten(yaml.SafeLoader):
    """Reads every bare word but truth values as a text, and refuses a key that stands twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute
        first: [resolver for resolver in resolvers if resolver[0] in BARE_WORDS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:  # noqa: FBT001, FBT002 - the signature is YAML's
        """Return the mapping of a node. Raises ConstructorError."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                twice = f"the key {key.value!r} stands twice, the second time"
                raise yaml.constructor.ConstructorError(None, None, twice, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


def from_yaml(text: str) -> object:
    """Return what a YAML text holds. Raises ValueError: what is wrong and where, without a value."""
    try:
        return yaml.load(text, Loader=AsWritten)  # noqa: S506 - a safe loader
    except UNREADABLE as error:
        # YAML's own error holds the lines around, in which a secret may stand.
        raise ValueError(_place(error, text)) from None


def from_json(text: str) -> object:
    """Return what a JSON text holds. Raises ValueError: what is wrong, without a value."""
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _place(error: Exception, text: str) -> str:
    """Say what YAML found wrong, and where. Its words that quote a value are replaced: it may be a secret."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return f"the character U+{ord(text[error.position]):04X} may not stand in YAML, in line {line}"
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or "a value cannot be read; put quotes around it")
    problem = next((ours for start, ours in QUOTING.items() if problem.startswith(start)), problem)
    return f"{problem} in line {mark.line + 1}" if mark else problem


def require_plain(section: BaseModel) -> None:
    """Check texts and numbers of a section, where a client, a header or a terminal would meet them.

    Raises ValueError: a text has a line break or another character that nobody sees, or is too long; a number
    is too large. Quotes no text, as it may be a secret.
    """
    for name in type(section).model_fields:
        for value in _values(getattr(section, name)):
            if isinstance(value, str) and not value.isprintable():
                raise ValueError(f"`{name}` holds {_unseen(value)}: write one line of visible characters")
            if isinstance(value, str) and len(value) > LONGEST:
                raise ValueError(f"`{name}` has {len(value)} characters, and may have {LONGEST}")
            if isinstance(value, int) and value > MOST:
                raise ValueError(f"`{name}` must be a number up to {MOST}")


def shortened(text: str) -> str:
    """Return a text as a sentence quotes it: a long one is cut."""
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"


def fits_header(text: str) -> bool:
    """Whether a header of HTTP carries the text as it is."""
    return text.isascii() and text.isprintable() and text == text.strip()


def _values(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        yield from value
    else:
        yield value.get_secret_value() if isinstance(value, SecretStr) else value


def _unseen(text: str) -> str:
    """Name the first character that is not printable."""
    wrong = next(one for one in text if not one.isprintable())
    return "a line break" if wrong in "\r\n" else f"the character U+{ord(wrong):04X}"
