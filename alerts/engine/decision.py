"""Whether a group of alerts is notified now, and why: one pure function, after Alertmanager's dedup stage.

The notification log keeps the last notification per receiver and group. The decision is made against it,
never against the memory of the process, so a restart sends nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reason(StrEnum):
    """Why a notification is sent; recorded with it."""

    FIRST = "first"
    NEW_ALERTS = "new_alerts"
    ALL_RESOLVED = "all_resolved"
    SOME_RESOLVED = "some_resolved"
    REPEAT = "repeat"
    CHANGED = "changed"
    """A notified alert has news; only for receivers that take updates."""
    RESEND = "resend"
    """The service forgets an alert that is not sent again."""
    SILENCED = "silenced"
    """All notified alerts that fire are silenced now."""
    CLOSED = "closed"
    """It ended while it was silenced, inhibited or muted, and its thread is still open."""
    WATCHDOG = "watchdog"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Entry:
    """The last notification of one receiver about one group: fingerprints, and when (ms).

    `said`: fingerprint -> id of the finding that was sent.
    """

    at: int
    firing: frozenset[str]
    resolved: frozenset[str]
    said: Mapping[str, str] = field(default_factory=dict)


def needs_update(
    entry: Entry | None,
    firing: frozenset[str],
    resolved: frozenset[str],
    now: int,
    *,
    repeat_interval: int,
    send_resolved: bool,
    changed: bool = False,
) -> Reason | None:
    """Return why the group is notified now, None where the receiver knows all of it (times in ms)."""
    if entry is None:
        return Reason.FIRST if firing else None
    if not firing <= entry.firing:
        return Reason.NEW_ALERTS
    if not firing:
        return Reason.ALL_RESOLVED if entry.firing else None
    if send_resolved and not resolved <= entry.resolved:
        return Reason.SOME_RESOLVED
    if changed:
        return Reason.CHANGED
    # A clock that was set back must not put the repetition off for as long.
    return Reason.REPEAT if abs(now - entry.at) > repeat_interval else None
