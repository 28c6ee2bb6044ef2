"""What is held of an incident over a rebuild of the state (`rebuild.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from rebalance_monitor.coordinator.deadlines.stuck_limits import MOST_MS
from rebalance_monitor.coordinator.findings.finding import Finding, part_of
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.settings import DetectionSettings

_LONGEST_MS = 3_600_000
SETTLED_MS = 5_000
"""After history was read every group has been summarised within this time, and removals are decided."""

Subject = tuple[str, str, str]
"""What an incident is about: kind, group and, where a group has several, which."""


class Held(msgspec.Struct):
    """One open incident: the newest finding that was published of it; times in ms.

    `going_on` is the new state's incident about the same, "" while it has found none; `patience` for how long
    after history was read it may take. `empty`: whether the group has no members, as far as it is known.
    """

    subject: Subject
    shard: int | None
    group_type: str | None
    severity: Severity
    opened_at: int
    patience: int
    empty: bool = True
    going_on: str = msgspec.field(default="", name="as")

    @classmethod
    def of(cls, finding: Finding, settings: DetectionSettings) -> Self:
        """Return what is held of the incident whose newest finding this is."""
        return cls(
            subject=subject_of(finding),
            shard=finding.shard,
            group_type=finding.group_type,
            severity=finding.severity,
            opened_at=finding.at if finding.opened_at is None else finding.opened_at,
            patience=_patience(finding, settings.for_group(finding.group or "")),
        )


def subject_of(finding: Finding) -> Subject:
    """Return what an incident is about: two of one subject are one."""
    return finding.kind, finding.group or "", part_of(finding)


def _patience(finding: Finding, settings: DetectionSettings) -> int:
    """How long (ms) after history was read the new state may need to find the same again."""
    longest = 0
    if finding.kind is Kind.STORM:
        longest = settings.storm_quiet_ms
    elif finding.kind in {Kind.REBALANCE_IN_PROGRESS, Kind.REBALANCE_STUCK}:
        longest = settings.stuck_after_ms or MOST_MS
    elif finding.kind is Kind.MEMBER_SILENT:
        longest = int(finding.details.get("silence_ms", 0))
    return max(0, min(longest, _LONGEST_MS)) + SETTLED_MS
