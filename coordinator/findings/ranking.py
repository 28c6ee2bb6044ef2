"""The order of a finding's causes, and what is left for `unknown`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CauseEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_CAUSES = 20
MAJORITY = 0.5
CLAIMED = 0.8
"""From here on a cause is claimed: whoever counts faults counts these."""


def ranked(found: Iterable[CauseEntry]) -> tuple[CauseEntry, ...]:
    """Likeliest first, bounded; where nothing reaches a majority `unknown` gets what no cause has.

    Causes of one member exclude each other; causes of several members do not.
    """
    entries = sorted(found, key=lambda entry: -entry.confidence)[:MAX_CAUSES]
    best = entries[0].confidence if entries else 0.0
    if best < MAJORITY and all(entry.cause is not Cause.UNKNOWN for entry in entries):
        explained: dict[str | None, float] = {}
        for entry in entries:
            explained[entry.member_id] = explained.get(entry.member_id, 0.0) + entry.confidence
        rest = round(1 - max(explained.values(), default=0.0), 2)
        if rest > 0:
            entries.append(CauseEntry(Cause.UNKNOWN, rest, "the records do not point to a single cause"))
    return tuple(entries)
