"""Matchers in Alertmanager's syntax: `severity="critical"`, `group=~"orders-.*"`, `team!=""`, `cause!~"…"`.

A regular expression matches the whole value. A label that an alert does not have counts as the empty text.
Refuses what Alertmanager refuses, with the place in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.alerts.routing.labels import Labels

_SYNTAX = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^",{}\s]*)\s*')
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


class Operator(StrEnum):
    """How a matcher compares."""

    EQUAL = "="
    UNEQUAL = "!="
    MATCHES = "=~"
    UNLIKE = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One comparison of one label; raises ValueError for a regular expression that is none."""

    label: str
    operator: Operator
    value: str
    _pattern: re.Pattern[str] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.operator in (Operator.MATCHES, Operator.UNLIKE):
            try:
                pattern = re.compile(self.value)
            except re.error as error:
                raise ValueError(f"matcher {self}: {error}") from error
            object.__setattr__(self, "_pattern", pattern)

    def matches(self, labels: Labels) -> bool:
        """Whether an alert with these labels is meant."""
        value = labels.get(self.label, "")
        if self._pattern is None:
            return (value == self.value) is (self.operator is Operator.EQUAL)
        return (self._pattern.fullmatch(value) is not None) is (self.operator is Operator.MATCHES)

    def __str__(self) -> str:
        quoted = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.label}{self.operator}"{quoted}"'


def parse(text: str) -> tuple[Matcher, ...]:
    """Return the matchers of `a="b", c=~"d"`, with or without braces; raises ValueError naming the place."""
    body = text.strip()
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1]
    found: list[Matcher] = []
    at = 0
    while at < len(body):
        match = _SYNTAX.match(body, at)
        if match is None or (match.end() < len(body) and body[match.end()] != ","):
            place = body[at if match is None else match.end() :]
            raise ValueError(f'matcher {text!r} cannot be read at {place!r}; write label="value"')
        label, operator, value = match.groups()
        found.append(Matcher(label, Operator(operator), _unquote(value)))
        at = match.end() + 1
    if not found:
        raise ValueError(f"matcher {text!r} is empty")
    return tuple(found)


def all_match(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Whether every matcher means this alert; no matchers mean all."""
    return all(matcher.matches(labels) for matcher in matchers)


def _unquote(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), value[1:-1])
