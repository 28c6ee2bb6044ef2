"""How incidents end, in words: by kind and resolution.

The headline of a kind says that all is well again. Not every end proves that: a group may be removed while it
is empty, and a probe that no longer runs says nothing of a storm. Such an end has a title of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.messages.headlines import HEADLINES
from rebalance_monitor.coordinator.findings.kinds import Kind

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

NOTHING = "Nothing to do now. The runbook says how to prevent it."
_LOOK = "This end proves no recovery: look at the group once more."


@dataclass(frozen=True, slots=True)
class Ending:
    """`how` follows the time of the end. `title` replaces the headline's, `{kind}` is what is over."""

    how: str
    title: str = ""
    next_step: str = NOTHING


_ENDINGS: dict[tuple[Kind, str], Ending] = {
    (Kind.REBALANCE_IN_PROGRESS, "completed"): Ending("the rebalance completed"),
    (Kind.REBALANCE_IN_PROGRESS, "withdrawn"): Ending("it no longer applies"),
    (Kind.REBALANCE_STUCK, "completed"): Ending("the rebalance completed"),
    (Kind.REBALANCE_STUCK, "withdrawn"): Ending("it no longer applies"),
    (Kind.STORM, "quiet"): Ending("the rebalances stopped"),
    (Kind.MEMBER_SILENT, "confirmed"): Ending(
        "the broker removed the member",
        "lost its silent member",
        "Check the member's process and host. The finding of its departure says why it left.",
    ),
    (Kind.MEMBER_SILENT, "withdrawn"): Ending("the member is in the group after all"),
    (Kind.GROUP_EMPTY, "completed"): Ending("a member joined"),
    (Kind.OFFSETS_EXPIRING, "expired"): Ending(
        "they expired, or the group was removed",
        "has lost the offsets that were about to expire",
        "A consumer that joins now begins where its auto.offset.reset says.",
    ),
    (Kind.OFFSETS_EXPIRING, "withdrawn"): Ending("the group uses them again, or was removed"),
    (Kind.BROKER_AWAY, "completed"): Ending("every group has recovered"),
    (Kind.BROKER_AWAY, "expired"): Ending(
        "some groups have not recovered",
        "not all have recovered from the broker outage",
        "Look at the groups that have not recovered.",
    ),
    (Kind.ASSIGNMENT_SKEWED, "completed"): Ending("the next assignment was even"),
    (Kind.PARTITIONS_UNASSIGNED, "completed"): Ending("every partition has one owner"),
    (Kind.GROUP_TOO_LARGE, "withdrawn"): Ending("its record is smaller"),
    (Kind.CONSUMPTION_STALLED, "quiet"): Ending("the offsets move"),
    (Kind.CONSUMPTION_STOPPED, "quiet"): Ending("offsets of its partitions move again"),
    (Kind.FALLING_BEHIND, "quiet"): Ending("lag went down"),
    (Kind.RECORDS_EXPIRING, "quiet"): Ending("the committed offset moved on"),
    (Kind.UNREADABLE_RECORDS, "quiet"): Ending("no such record since"),
    (Kind.MONITOR_DEGRADED, "quiet"): Ending("its cause was not observed again"),
}
_RESOLUTIONS = {
    "completed": Ending(""),
    "quiet": Ending("nothing new since"),
    "confirmed": Ending("confirmed"),
    "expired": Ending("the group is gone, or it is no longer watched", "{kind}: no longer observed", _LOOK),
    "withdrawn": Ending("it no longer applies", "{kind}: no longer applies"),
}


def ending_of(finding: Finding) -> Ending:
    """Return how an incident ended whose newest finding this is; without a resolution nothing is claimed."""
    resolution = finding.resolution or ""
    return _ENDINGS.get((finding.kind, resolution)) or _RESOLUTIONS.get(resolution, Ending(""))


def ended_as(finding: Finding) -> str:
    """Return the title of the end, as it follows the group's name."""
    title = ending_of(finding).title
    return title.format(kind=finding.kind.value.replace("_", " ")) or HEADLINES[finding.kind].resolved
