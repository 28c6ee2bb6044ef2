"""A message as Markdown (CommonMark): every character of a span that could act as markup is escaped."""

from __future__ import annotations

import re
from typing import assert_never

from rebalance_monitor.alerts.messages.blocks import (
    Block,
    Bullets,
    Fields,
    Line,
    Message,
    Paragraph,
    Span,
    Style,
)
from rebalance_monitor.alerts.render.plain import MARKS

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>&@:])")


def render(message: Message) -> str:
    """Return the message as Markdown."""
    parts = [f"### {MARKS[message.tone]} {escape(message.title)}"]
    parts += [_block(block) for block in message.blocks]
    parts += ["#### Details", *map(_block, message.details)] if message.details else []
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return `text` so that Markdown shows its letters."""
    return _MARKUP.sub(r"\\\1", text)


def _block(block: Block) -> str:
    match block:
        case Paragraph(line):
            return _line(line)
        case Fields(rows):
            return "\n".join(f"- {label}: {_line(line)}" for label, line in rows)
        case Bullets(items, more):
            tail = [f"- and {more:,} more"] if more > 0 else []
            return "\n".join([f"- {_line(item)}" for item in items] + tail)
        case _:
            assert_never(block)


def _line(line: Line) -> str:
    return "".join(_span(span) for span in line)


def _span(span: Span) -> str:
    if span.link:
        return f"[{escape(span.text)}]({span.link})"
    if span.style is Style.CODE:
        return _code(span.text)
    if span.style is Style.BOLD:
        inner = span.text.strip()
        return span.text.replace(inner, f"**{escape(inner)}**") if inner else span.text
    return escape(span.text)


def _code(text: str) -> str:
    """Fence with one more backtick than the longest run inside, as CommonMark asks."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
