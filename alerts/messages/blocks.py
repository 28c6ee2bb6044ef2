"""The algebra of a message: a few blocks of marked words, the same for every medium.

A message is data; renderers in `render` turn it into Slack blocks, HTML, Markdown or plain text. The text of
a span is shown, never interpreted: markup in it stays letters in every medium.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Style(StrEnum):
    """The style of a span."""

    PLAIN = "plain"
    BOLD = "bold"
    CODE = "code"
    FAINT = "faint"


class Tone(StrEnum):
    """What the message means at a glance: the colour of its bar."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Span:
    """Words of one style; `link` is an http(s) address of our own configuration, never of a record."""

    text: str
    style: Style = Style.PLAIN
    link: str | None = None


Line: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One line of words."""

    line: Line


@dataclass(frozen=True, slots=True)
class Fields:
    """Labelled values, shown as a small table or list."""

    rows: tuple[tuple[str, Line], ...]


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; `more` is how many further items were left out."""

    items: tuple[Line, ...]
    more: int = 0


Block: TypeAlias = Paragraph | Fields | Bullets


@dataclass(frozen=True, slots=True)
class Message:
    """One message: a title that stands alone, a few lines that answer what is asked first, then details.

    `details` are folded where the medium can: in Slack they are the first reply of the thread.
    """

    tone: Tone
    title: str
    blocks: tuple[Block, ...]
    details: tuple[Block, ...] = ()


def plain(text: str) -> Span:
    """Leave words without style."""
    return Span(text)


def bold(text: str) -> Span:
    """Mark words that stand out."""
    return Span(text, Style.BOLD)


def code(text: str) -> Span:
    """Mark a name or value to copy."""
    return Span(text, Style.CODE)


def faint(text: str) -> Span:
    """Mark words of less weight."""
    return Span(text, Style.FAINT)


def link(text: str, address: str) -> Span:
    """Let words lead to `address`."""
    return Span(text, Style.PLAIN, address)
