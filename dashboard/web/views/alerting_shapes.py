"""The shapes of silences and notifications (`shapes.py` has the others)."""

from typing import TypedDict


class SilenceWanted(TypedDict):
    """A silence that is asked for.

    matchers: in Alertmanager's syntax (`group="orders",kind="storm"`). lasts: `30m`, `2h`, `1d`. created_by:
    the caller; where a proxy has signed the person in, that name stands instead.
    """

    matchers: str
    lasts: str
    comment: str
    created_by: str


class SilenceRow(TypedDict):
    """One silence that has not ended. matchers: one comparison each."""

    id: str
    matchers: list[str]
    starts_at: int
    ends_at: int
    created_by: str
    comment: str


class SilencesPage(TypedDict):
    """The silences that have not ended, the first to end first. refused: why none can be added, or ""."""

    refused: str
    rows: list[SilenceRow]


class NotifiedRow(TypedDict):
    """One notification that arrived. firing, resolved: alerts in it."""

    at: int
    receiver: str
    phase: str
    reason: str
    title: str
    firing: int
    resolved: int


class NotifiedPage(TypedDict):
    """The notifications of an incident, the newest first. is_on: whether there are receivers at all."""

    is_on: bool
    rows: list[NotifiedRow]


class Choices(TypedDict):
    """What filters can be set to."""

    kinds: list[str]
    causes: list[str]
    severities: list[str]
    teams: list[str]
