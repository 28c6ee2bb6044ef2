"""Whether a group of alerts is told now, and why: one pure function, after Alertmanager's dedup stage.

The notification log remembers per receiver and group what was told last. The decision is made against it,
never against what this process remembers, so a restart tells nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a notification is sent; recorded with it."""

    FIRST = "first"
    NEW_ALERTS = "new_alerts"
    ALL_RESOLVED = "all_resolved"
    SOME_RESOLVED = "some_resolved"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class Entry:
    """What was told last to one receiver about one group: fingerprints, and when (ms)."""

    at: int
    firing: frozenset[str]
    resolved: frozenset[str]


def needs_update(
    entry: Entry | None,
    firing: frozenset[str],
    resolved: frozenset[str],
    now: int,
    *,
    repeat_interval: int,
    send_resolved: bool,
) -> Reason | None:
    """Return why the group is told now, None where the receiver knows all of it already (times in ms)."""
    if entry is None:
        return Reason.FIRST if firing else None
    if not firing <= entry.firing:
        return Reason.NEW_ALERTS
    if not firing:
        return Reason.ALL_RESOLVED if entry.firing else None
    if send_resolved and not resolved <= entry.resolved:
        return Reason.SOME_RESOLVED
    return Reason.REPEAT if entry.at < now - repeat_interval else None
