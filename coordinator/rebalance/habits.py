"""For how long a group is usually empty: learned from the times that it was empty before.

A group on a schedule is empty every night, or over every weekend. So its habit is known only once the group
was followed for eight days: what happens once a week has happened by then. It is then unusual to be empty
for more than twice the longest time of any of the last `MOST_DAYS` days that had one. A group that was never
empty has some minutes, in which a deployment replaces its members. Nothing is unusual of a group whose churn
is expected (`expected_churn`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Details
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import Emptiness, GroupState

DAY_MS = 86_400_000
FOLLOWED_MS = 8 * DAY_MS
MOST_DAYS = 15
TIMES_LONGER = 2
LEAST_MS = 900_000
UNUSUAL = "unusual_after_ms"


def note(empty: Emptiness, at: int) -> None:
    """Remember that the group has members again at `at` (ms)."""
    day, lasted = at // DAY_MS, at - empty.at
    if empty.spells and empty.spells[-1][0] == day:
        lasted = max(lasted, empty.spells[-1][1])
        empty.spells = empty.spells[:-1]
    empty.spells = [*empty.spells, [day, lasted]][-MOST_DAYS:]


def describe(state: GroupState, settings: DetectionSettings, at: int) -> Details:
    """Return for the details of a group that is empty from `at` (ms) on after which time that is unusual."""
    known = state.empty
    if known.followed_since < 0:
        known.followed_since = state.started_at
    is_known = 0 <= known.followed_since <= at - FOLLOWED_MS
    if not is_known or settings.expected_churn:
        return {}
    longest = max((lasted for _, lasted in known.spells), default=0)
    return {UNUSUAL: max(LEAST_MS, TIMES_LONGER * longest)}
