"""A message as plain text: terminals, mail bodies and notifications without markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from rebalance_monitor.alerts.messages.blocks import Block, Bullets, Fields, Line, Message, Paragraph, Tone

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKS = {Tone.CRITICAL: "CRITICAL", Tone.WARNING: "WARNING", Tone.INFO: "INFO", Tone.RESOLVED: "RESOLVED"}


def render(message: Message) -> str:
    """Return the message as lines of text, the last one ended."""
    lines = [f"{MARKS[message.tone]} {message.title}"]
    for block in message.blocks:
        lines += _block(block)
    if message.details:
        lines += ["", "Details"]
    for block in message.details:
        lines += _block(block)
    return "\n".join(lines) + "\n"


def summary(message: Message) -> str:
    """Return the lines between the title and the details, without that of the links."""
    return "\n".join(line for block in message.blocks if not _leads(block) for line in _block(block))


def links(message: Message) -> Iterator[tuple[str, str]]:
    """Yield the words and the address of each link before the details."""
    for block in message.blocks:
        for span in block.line if isinstance(block, Paragraph) else ():
            if span.link:
                yield span.text, span.link


def _leads(block: Block) -> bool:
    return isinstance(block, Paragraph) and any(span.link for span in block.line)


def _block(block: Block) -> list[str]:
    match block:
        case Paragraph(line):
            return [words(line)]
        case Fields(rows):
            width = max((len(label) for label, _ in rows), default=0)
            return [f"  {label:<{width}}  {words(line)}" for label, line in rows]
        case Bullets(items, more):
            tail = [f"  - and {more:,} more"] if more > 0 else []
            return [f"  - {words(item)}" for item in items] + tail
        case _:
            assert_never(block)


def words(line: Line) -> str:
    """Return a line's words without their styles; a link is followed by its address."""
    return "".join(f"{span.text} <{span.link}>" if span.link else span.text for span in line)
