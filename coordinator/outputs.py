"""What the shard's coordinator hands out: findings, group summaries, removals and counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rebalance_monitor.decoders.twins import quickly_made

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings import Finding


@quickly_made
@dataclass(frozen=True, slots=True)
class FindingOut:
    """A finding, not yet stamped with the wall clock."""

    finding: Finding


@quickly_made
@dataclass(frozen=True, slots=True)
class GroupOut:
    """A group's summary: a small JSON-able dict, on change and at most once per summary interval."""

    group: str
    summary: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RemovedOut:
    """The group is gone: its summary is to be forgotten."""

    group: str


@quickly_made
@dataclass(frozen=True, slots=True)
class StatOut:
    """Counters of one shard: kind `shard` once a clock row, kind `unreadable` once a clock row and reason."""

    kind: str
    data: dict[str, Any]


Output = FindingOut | GroupOut | RemovedOut | StatOut
