"""A finding as one line for people: when, how bad, which group, what, why.

Names come from clients: control characters are shown, not sent.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import TYPE_CHECKING

import click

from rebalance_monitor.alerts.messages.measures import key_rows
from rebalance_monitor.coordinator.findings.finding import to_json
from rebalance_monitor.coordinator.findings.kinds import Severity
from rebalance_monitor.coordinator.findings.wording import likely
from rebalance_monitor.engine.outputs.colours import takes_colours

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from rebalance_monitor.coordinator.findings.finding import CauseEntry, Finding

COLOURS = {Severity.INFO: "cyan", Severity.WARNING: "yellow", Severity.CRITICAL: "red"}
CAUSES_SHOWN, ROWS_SHOWN = 3, 3


def line_of(finding: Finding, *, colour: bool = False) -> str:
    """Return the line, without a line break."""
    label = f"{finding.severity.value:<8}"
    kind = f"{finding.kind.value}{f' {finding.phase}' if finding.phase else ''}"
    if colour:
        label = click.style(label, fg=COLOURS[finding.severity], bold=finding.severity != Severity.INFO)
        kind = click.style(kind, bold=True)
    parts = (_time(finding.at), label, _subject(finding), kind, _generation(finding), _why(finding))
    return "  ".join(part for part in parts if part)


def writer(stream: TextIO) -> Callable[[str], None]:
    """Return a function that writes text to `stream` at once; what its encoding lacks is escaped."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")

    def write(text: str) -> None:
        stream.write(text)
        stream.flush()

    return write


def renderer(form: str, stream: TextIO) -> Callable[[Finding], str]:
    """Return how findings are shown: `jsonl`, or readable lines."""
    if form == "jsonl":
        return lambda finding: safe_json(to_json(finding))
    colour = takes_colours(stream)
    return lambda finding: line_of(finding, colour=colour)


def plain(text: str) -> str:
    """Return `text` with everything unprintable escaped: control and bidirectional characters too."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def safe_json(text: str) -> str:
    """Return a JSON text in which unprintable characters are escaped but line breaks; it means the same."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def _time(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "--:--:--"


def _subject(finding: Finding) -> str:
    if finding.group is not None:
        return plain(finding.group)
    if finding.groups:
        more = finding.groups_total - 1
        return plain(finding.groups[0]) + (f" and {more} more" if more > 0 else "")
    if moved := finding.details.get("moved"):
        return f"{moved} partitions"
    return finding.scope.value if finding.shard is None else f"partition {finding.shard}"


def _generation(finding: Finding) -> str:
    if finding.generation is None:
        return ""
    if finding.previous_generation is None or finding.previous_generation == finding.generation:
        return f"generation {finding.generation}"
    return f"generation {finding.previous_generation} → {finding.generation}"


def _why(finding: Finding) -> str:
    """Return the causes; where nothing has caused it, the numbers that messages give of its kind."""
    if finding.causes:
        return _causes(finding)
    return plain(", ".join(f"{label.lower()} {value}" for label, value in key_rows(finding)[:ROWS_SHOWN]))


def _causes(finding: Finding) -> str:
    shown = [likely(cause.cause.value, cause.confidence) for cause in finding.causes[:CAUSES_SHOWN]]
    shown[:1] = [one + _responsible(finding.causes[0]) for one in shown[:1]]
    why = f": {finding.causes[0].why}" if finding.causes and finding.causes[0].why else ""
    return plain(", ".join(shown) + why)


def _responsible(cause: CauseEntry) -> str:
    host = f" on {cause.host.lstrip('/')}" if cause.host else ""
    static = f" as {cause.instance_id}" if cause.instance_id not in {None, "", cause.client_id} else ""
    return f" of {cause.client_id}{static}{host}" if cause.client_id else ""
