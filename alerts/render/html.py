"""A message as a fragment of HTML with inline styles, for mail and previews; every text is escaped."""

from __future__ import annotations

from html import escape
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
    Tone,
)
from rebalance_monitor.alerts.render.plain import MARKS

COLOURS = {Tone.CRITICAL: "#b42318", Tone.WARNING: "#b54708", Tone.INFO: "#175cd3", Tone.RESOLVED: "#067647"}
_ELEMENTS = {
    Style.PLAIN: "{}",
    Style.BOLD: "<strong>{}</strong>",
    Style.CODE: "<code>{}</code>",
    Style.FAINT: '<span style="color:#667085">{}</span>',
}


def render(message: Message) -> str:
    """Return the message as one `div`."""
    colour = COLOURS[message.tone]
    head = f'<h3 style="color:{colour}">{MARKS[message.tone]} {escape(message.title)}</h3>'
    body = "".join(_block(block) for block in message.blocks)
    if message.details:
        body += "<h4>Details</h4>" + "".join(_block(block) for block in message.details)
    return f'<div style="border-left:4px solid {colour};padding-left:12px">{head}{body}</div>\n'


def _block(block: Block) -> str:
    match block:
        case Paragraph(line):
            return f"<p>{_line(line)}</p>"
        case Fields(rows):
            cells = "".join(
                f"<tr><th>{escape(label)}</th><td>{_line(line)}</td></tr>" for label, line in rows
            )
            return f'<table style="text-align:left">{cells}</table>'
        case Bullets(items, more):
            tail = f"<li>and {more:,} more</li>" if more > 0 else ""
            return "<ul>" + "".join(f"<li>{_line(item)}</li>" for item in items) + tail + "</ul>"
        case _:
            assert_never(block)


def _line(line: Line) -> str:
    return "".join(_span(span) for span in line)


def _span(span: Span) -> str:
    shown = _ELEMENTS[span.style].format(escape(span.text))
    return f'<a href="{escape(span.link)}">{shown}</a>' if span.link else shown
