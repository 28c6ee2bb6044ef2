"""The parameters of the API in one table: their names, schemas and meanings, and how they are read.

Refuses (BadRequest) what a schema does not take, and every parameter that a path does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.dashboard.web.past.past import LATEST_MS
from rebalance_monitor.dashboard.web.views.board import SORTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_ROWS = 500
MAX_TEXT = 512


class BadRequest(Exception):  # noqa: N818 - the name that HTTP gives it
    """The request cannot be answered; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter; `schema` is its JSON schema, `default` what stands for it when it is left out."""

    name: str
    what: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    default: Any = ""
    required: bool = False

    def read(self, text: str | None) -> Any:  # noqa: ANN401 - as the schema says
        """Return the value. Raises BadRequest."""
        if text is None:
            if self.required:
                raise BadRequest(f"the parameter `{self.name}` is missing")
            return self.default
        if self.schema.get("format") == "moment":
            return _moment(self.name, text)
        return self._whole(text) if self.schema["type"] == "integer" else self._word(text)

    def _whole(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise BadRequest(f"`{self.name}` must be a whole number") from None
        low, high = self.schema["minimum"], self.schema["maximum"]
        if not low <= value <= high:
            raise BadRequest(f"`{self.name}` must be between {low} and {high}")
        return value

    def _word(self, text: str) -> str:
        if len(text) > self.schema.get("maxLength", MAX_TEXT):
            raise BadRequest(f"`{self.name}` is too long")
        if text not in self.schema.get("enum", (text,)):
            raise BadRequest(f"`{self.name}` must be one of {', '.join(filter(None, self.schema['enum']))}")
        return text


def _text(name: str, what: str, *, limit: int = MAX_TEXT, required: bool = False) -> Parameter:
    return Parameter(name, what, {"type": "string", "maxLength": limit}, required=required)


def _choice(name: str, what: str, values: Iterable[str], default: str = "") -> Parameter:
    return Parameter(
        name, what, {"type": "string", "enum": ["", *values] if not default else [*values]}, default
    )


def _number(name: str, what: str, default: int, low: int, high: int) -> Parameter:
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Parameter(name, what, schema, default)


def _time(name: str, what: str, default: int | None) -> Parameter:
    return Parameter(name, what, {"type": "string", "format": "moment"}, default)


AT = _time("at", "Show the moment (ms since epoch, or ISO 8601) instead of now.", None)
TEAM = _text("team", "Only groups of this team, by `detection.groups`.")
GROUP = _text("group", "The group's name.", limit=32_768, required=True)
GROUPS = (
    _text("search", "Part of the name of a group, topic, client, host or instance; case does not matter."),
    _text("state", "Only groups in this state."),
    _text("type", "Only groups of this type."),
    _choice("trouble", "Only groups with this trouble; `any`: with some.", ["any", *Kind]),
    _choice("severity", "Only groups with trouble of this severity.", Severity),
    _choice("cause", "Only groups whose last rebalance has this likeliest cause.", Cause),
    TEAM,
    _choice("sort", "The order; `trouble` has the worst first.", SORTS, "trouble"),
    _choice("order", "Turn the order around with `desc`.", ["asc", "desc"], "asc"),
    _number("offset", "Groups to leave out at the beginning.", 0, 0, 10_000_000),
    _number("limit", "Groups to give at most.", 100, 1, MAX_ROWS),
    AT,
)
INCIDENTS = (
    _choice("state", "Open or closed ones only.", ["open", "closed"]),
    _choice("kind", "Only incidents of this kind.", Kind),
    _choice("severity", "Only incidents of this severity.", Severity),
    _choice("cause", "Only incidents with this cause.", Cause),
    TEAM,
    _number("limit", "Incidents to give at most.", 100, 1, MAX_ROWS),
    AT,
)
INCIDENT = (_text("id", "The incident: the id of its opening finding.", required=True),)
FINDINGS = (
    Parameter("group", "Only findings about this group.", {"type": "string", "maxLength": 32_768}, None),
    _text("pattern", "Only findings about groups with a name like this shell pattern (`orders-*`)."),
    _choice("kind", "Only findings of this kind.", Kind),
    _choice("severity", "Only findings of this severity.", Severity),
    _choice("cause", "Only findings with this cause.", Cause),
    TEAM,
    _text("incident", "Only findings of this incident."),
    _text("search", "Part of the name of a group, topic, client, host or cause."),
    _time("since", "Not before this time (ms since epoch, or ISO 8601).", 0),
    _time("until", "Not after this time.", LATEST_MS),
    _choice("history", "Only live findings (`no`), or only rebuilt history (`yes`).", ["yes", "no"]),
    _text("before", "`next` of the page before."),
    _number("limit", "Findings to give at most.", 100, 1, MAX_ROWS),
)
NOTIFIED = (_text("id", "The incident, or the finding.", required=True),)
SILENCES = (_text("incident", "Only silences that apply to this incident's alerts now."),)
SILENCE = (_text("id", "The silence.", required=True),)
EVENTS = (_number("since", "Version from which changes are wanted; -1: from now on.", -1, -1, 2**53),)


def read(parameters: Iterable[Parameter], given: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of all parameters by name. Raises BadRequest."""
    known = {parameter.name: parameter for parameter in parameters}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise BadRequest(
            f"there is no parameter `{unknown[0][:40]}` here; there are {', '.join(known) or 'none'}"
        )
    return {name: parameter.read(given.get(name)) for name, parameter in known.items()}


def _moment(name: str, text: str) -> int:
    """Return ms since epoch of a number or an ISO 8601 text (UTC where it says no zone)."""
    try:
        at = int(text) if text.lstrip("-").isdigit() else _iso(text)
    except (ValueError, OverflowError):
        raise BadRequest(f"`{name}` must be ms since epoch or like 2026-03-01T12:30:00") from None
    return max(0, min(at, LATEST_MS))


def _iso(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
