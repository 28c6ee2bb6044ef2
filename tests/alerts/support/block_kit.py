"""What Slack refuses in a message: the documented limits of Block Kit, checked as the service does.

Lengths count code points. Only the blocks, elements and styles that Slack documents are known.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TEXT = 40_000
MAX_ALL_BLOCKS = 13_200
"""Undocumented: beyond about this many characters of blocks Slack answers `msg_blocks_too_long`."""
MAX_METADATA = 8_000
_STYLES = {"bold", "italic", "strike", "code", "underline", "highlight", "client_highlight", "unlink"}


def refusal(message: dict[str, Any]) -> str | None:
    """Return Slack's error code for this message, None where it takes it."""
    blocks, attachments = message.get("blocks") or [], message.get("attachments") or []
    inner = [problem for attachment in attachments for problem in _attachment(attachment)]
    checks = {
        "no_text": not (message.get("text") or blocks or attachments),
        "msg_too_long": len(message.get("text") or "") > MAX_TEXT,
        "too_many_attachments": len(attachments) > 100,
        "invalid_blocks": bool(list(_problems(blocks))),
        "invalid_attachments": bool(inner),
        "msg_blocks_too_long": _size([blocks, attachments]) > MAX_ALL_BLOCKS,
    }
    wrong = next((code for code, holds in checks.items() if holds), None)
    return wrong or _metadata(message.get("metadata"))


def _attachment(attachment: dict[str, Any]) -> Iterator[str]:
    legacy = set(attachment) - {"blocks", "color", "fallback"}
    if legacy:
        yield f"blocks beside the older fields {sorted(legacy)}"
    yield from _problems(attachment.get("blocks") or [])


def _size(blocks: object) -> int:
    return len(json.dumps(blocks, ensure_ascii=False))


def problems(message: dict[str, Any]) -> list[str]:
    """Return in words what is wrong with the blocks of a message."""
    found = list(_problems(message.get("blocks") or []))
    for attachment in message.get("attachments") or []:
        found += _attachment(attachment)
    return found


def _metadata(metadata: dict[str, Any] | None) -> str | None:
    if metadata is None:
        return None
    if set(metadata) != {"event_type", "event_payload"} or not isinstance(metadata["event_payload"], dict):
        return "invalid_metadata_format"
    return "metadata_too_large" if len(json.dumps(metadata)) > MAX_METADATA else None


def _problems(blocks: list[dict[str, Any]]) -> Iterator[str]:
    if len(blocks) > 50:
        yield "more than 50 blocks"
    for block in blocks:
        if len(block.get("block_id", "")) > 255:
            yield "block_id too long"
        match block.get("type"):
            case "header":
                yield from _text(block["text"], 150, {"plain_text"})
            case "section":
                yield from _section(block)
            case "context":
                yield from _context(block)
            case "divider":
                pass
            case "rich_text":
                yield from _rich(block)
            case unknown:
                yield f"unknown block {unknown}"


def _text(text: dict[str, Any], limit: int, kinds: set[str]) -> Iterator[str]:
    if text.get("type") not in kinds:
        yield f"text of type {text.get('type')}"
    if not 1 <= len(text.get("text", "")) <= limit:
        yield f"text of {len(text.get('text', ''))} characters, limit {limit}"


def _section(block: dict[str, Any]) -> Iterator[str]:
    kinds = {"plain_text", "mrkdwn"}
    if "text" in block:
        yield from _text(block["text"], 3_000, kinds)
    if len(block.get("fields", [])) > 10 or not ("text" in block or block.get("fields")):
        yield "section without text or with more than 10 fields"
    for each in block.get("fields", []):
        yield from _text(each, 2_000, kinds)


def _context(block: dict[str, Any]) -> Iterator[str]:
    if not 1 <= len(block["elements"]) <= 10:
        yield "context without elements or with more than 10"
    for each in block["elements"]:
        yield from _text(each, 3_000, {"plain_text", "mrkdwn"})


def _rich(block: dict[str, Any]) -> Iterator[str]:
    if not block.get("elements"):
        yield "rich text without elements"
    for element in block.get("elements", []):
        match element.get("type"):
            case "rich_text_section" | "rich_text_quote" | "rich_text_preformatted":
                yield from _rich_section(element)
            case "rich_text_list":
                yield from _rich_list(element)
            case unknown:
                yield f"unknown rich text element {unknown}"


def _rich_list(element: dict[str, Any]) -> Iterator[str]:
    if element.get("style") not in {"bullet", "ordered"}:
        yield "list without style"
    if not element.get("elements"):
        yield "empty list"
    for each in element.get("elements", []):
        yield from _rich_section(each)


def _rich_section(section: dict[str, Any]) -> Iterator[str]:
    elements = section.get("elements", [])
    if not elements:
        yield "empty rich text section"
    if sum(len(each.get("text", "")) for each in elements) > 3_000:
        yield "rich text section over 3,000 characters"
    for each in elements:
        yield from _leaf(each)


def _leaf(leaf: dict[str, Any]) -> Iterator[str]:
    if not set(leaf.get("style", {})) <= _STYLES:
        yield "unknown style"
    match leaf.get("type"):
        case "text":
            if not leaf.get("text"):
                yield "empty text"
        case "link":
            if not str(leaf.get("url", "")).startswith(("http://", "https://")) or len(leaf["url"]) > 3_000:
                yield "link to no http address"
        case unknown:
            yield f"unknown leaf {unknown}"
