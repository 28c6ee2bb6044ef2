"""Words for people: hostile names made visible and short, times and durations as an SRE reads them.

Any client of Kafka chooses its group, client and host names. Here control characters, line breaks and
bidirectional overrides become visible escapes, and long names are cut by code points. The renderers make sure
that a name cannot act as markup.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

MAX_NAME = 120
"""Code points of a group, client or host name in a message."""

SECOND = 1_000
MINUTE = 60 * SECOND

# Cc control, Cf format (bidirectional overrides, zero width), Cs surrogates, Zl/Zp line separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def visible(text: str) -> str:
    """Return `text` with every character that cannot be seen written as its escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char) if unicodedata.category(char) in _UNSEEN else char for char in text)


def cut(text: str, limit: int) -> str:
    """Return at most `limit` code points, the last one an ellipsis where something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def name(text: str | None, limit: int = MAX_NAME) -> str:
    """Return a name that may stand in a message; an empty one is said to be empty."""
    return cut(visible(text), limit) if text else "(no name)"


def duration(ms: int | None) -> str:
    """Return a duration as people say it: 850 ms, 6.4 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if ms is None:
        return "unknown"
    if ms < SECOND:
        return f"{ms} ms"
    if ms < MINUTE:
        return f"{ms / SECOND:.1f} s"
    minutes, seconds = divmod(ms // SECOND, 60)
    if minutes < 60:  # noqa: PLR2004 - minutes of an hour
        return _pair(minutes, "min", seconds, "s")
    hours, minutes = divmod(minutes, 60)
    if hours < 48:  # noqa: PLR2004 - two days are said in hours
        return _pair(hours, "h", minutes, "min")
    days, hours = divmod(hours, 24)
    return _pair(days, "d", hours, "h")


def bounds(low: int | None, high: int | None) -> str | None:
    """Return a duration known by its bounds (ms), None where neither is known."""
    if low is None and high is None:
        return None
    if low is None:
        return f"at most {duration(high)}"
    if high is None:
        return f"at least {duration(low)}"
    return duration(low) if low == high else f"{duration(low)} to {duration(high)}"


def moment(ms: int) -> str:
    """Return a time (ms since epoch) as 2026-11-21 03:04:05 UTC; one outside the calendar as its number."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since 1970"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an s but for one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - one byte


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"
