"""A message as Slack Block Kit, within its limits.

Everything that may hold a foreign name is a `rich_text` element: Slack shows its text and interprets nothing
in it, so `<!channel>` or a link in a group id stays letters. Only the notification text is mrkdwn; it is
escaped. Limits, in code points: 50 blocks, header 150, 3 000 of text in one rich text section, and about
13 000 of JSON in all (undocumented; `msg_blocks_too_long`). The title stands above the coloured bar as a
header; `text` is what notifications and screen readers get.
"""

from __future__ import annotations

import json
from typing import Any, assert_never

from rebalance_monitor.alerts.messages.blocks import (
    Block,
    Bullets,
    Fields,
    Line,
    Message,
    Paragraph,
    Span,
    Style,
    Tone,
)
from rebalance_monitor.alerts.messages.text import cut
from rebalance_monitor.alerts.render import plain

COLOURS = {Tone.CRITICAL: "#d92d20", Tone.WARNING: "#f79009", Tone.INFO: "#2e90fa", Tone.RESOLVED: "#12b76a"}
MARKS = {Tone.CRITICAL: "🔴", Tone.WARNING: "🟠", Tone.INFO: "🔵", Tone.RESOLVED: "RESOLVED"}
MAX_BLOCKS = 50
MAX_HEADER = 150
MAX_SECTION = 3_000
MAX_ALL = 12_000
MAX_PLAIN = 3_000
_STYLES: dict[Style, dict[str, bool]] = {
    Style.BOLD: {"bold": True},
    Style.CODE: {"code": True},
    Style.FAINT: {"italic": True},
}

Json = dict[str, Any]


def render(message: Message, *, whole: bool = False) -> Json:
    """Return the arguments of `chat.postMessage` and `chat.update` but for channel and thread.

    `whole`: with the details, where no thread takes them.
    """
    title = _title(message)
    header: Json = {"type": "header", "text": {"type": "plain_text", "text": title, "emoji": False}}
    blocks = _fitting((*message.blocks, *(message.details if whole else ())))
    bar: Json = {"color": COLOURS[message.tone], "fallback": escape(title), "blocks": blocks}
    return {
        "text": _notified(message),
        "blocks": [header],
        "attachments": [bar] if blocks else [],
        "unfurl_links": False,
        "unfurl_media": False,
    }


def render_reply(message: Message) -> Json:
    """Return a reply in a thread: title, blocks and details without header and bar."""
    title = _title(message)
    blocks = _fitting((Paragraph((Span(title, Style.BOLD),)), *message.blocks, *message.details))
    return {"text": escape(title), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def render_text(message: Message) -> Json:
    """Return the message without blocks, for where Slack refuses them."""
    said = escape(cut(plain.render(message), MAX_PLAIN))
    return {"text": said, "mrkdwn": False, "blocks": [], "attachments": []}


def _title(message: Message) -> str:
    return cut(f"{MARKS[message.tone]} {message.title}", MAX_HEADER)


def _notified(message: Message) -> str:
    """Return what a phone shows: the title and the line after it."""
    first = next(
        (plain.words(block.line) for block in message.blocks[:1] if isinstance(block, Paragraph)), ""
    )
    return escape("\n".join(filter(None, (_title(message), first))))


def escape(text: str) -> str:
    """Return `text` so that Slack's mrkdwn interprets no mention or link in it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _block(block: Block) -> Json:
    match block:
        case Paragraph(line):
            return _rich(_section(line))
        case Fields(rows):
            return _rich(_list([(Span(f"{label}: ", Style.BOLD), *line) for label, line in rows]))
        case Bullets(items, more):
            tail: list[Line] = [(Span(f"+{more:,} more", Style.FAINT),)] if more > 0 else []
            return _rich(_list([*items, *tail]))
        case _:
            assert_never(block)


def _fitting(blocks: tuple[Block, ...]) -> list[Json]:
    """Render, with the longest lists halved until all is short enough; they say how much was left out."""
    blocks = blocks[: MAX_BLOCKS - 1]
    shown = [_block(block) for block in blocks]
    sizes = {at: _size(shown[at]) for at, block in enumerate(blocks) if _can_shrink(block)}
    if _size(shown) <= MAX_ALL or not sizes:
        return shown
    at = max(sizes, key=sizes.__getitem__)
    return _fitting((*blocks[:at], _halved(blocks[at]), *blocks[at + 1 :]))


def _can_shrink(block: Block) -> bool:
    return isinstance(block, Bullets) and bool(block.items)


def _halved(block: Block) -> Block:
    if not isinstance(block, Bullets):
        return block
    kept = len(block.items) // 2
    return Bullets(block.items[:kept], block.more + len(block.items) - kept)


def _size(blocks: object) -> int:
    return len(json.dumps(blocks, ensure_ascii=False))


def _rich(element: Json) -> Json:
    return {"type": "rich_text", "elements": [element]}


def _list(lines: list[Line]) -> Json:
    return {"type": "rich_text_list", "style": "bullet", "elements": [_section(line) for line in lines]}


def _section(line: Line) -> Json:
    elements: list[Json] = []
    room = MAX_SECTION
    for span in line:
        if room <= 0:
            break
        shown = cut(span.text, room)
        room -= len(shown)
        if shown:
            elements.append(_element(span, shown))
    return {"type": "rich_text_section", "elements": elements}


def _element(span: Span, shown: str) -> Json:
    if span.link:
        return {"type": "link", "url": span.link, "text": shown}
    element: Json = {"type": "text", "text": shown}
    if span.style in _STYLES:
        element["style"] = _STYLES[span.style]
    return element
