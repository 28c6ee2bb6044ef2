"""Generations that failed: the coordinator began the sessions of their members anew.

It does so as it ends a join phase (`completeClassicGroupJoin`), and again for whoever awaits its assignment
as that generation fails (`resetAndPropagateAssignmentError`). A client whose process has ended after its
JoinGroup is removed a session timeout after that, however long ago it committed. No record has such a
generation: only samples show when it began and when it failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.departure.evidence import Departed
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.refine.history import LookBack

# A sample shows the generation of the record before up to so long after it began, ms.
_LATE_MS = 2_500


def with_failed(one: Departed, rebalance: Finding, ended: int, samples: LookBack) -> Departed:
    """Return a member that a rebalance dropped, which `ended` (ms), with when a generation failed before."""
    before, now = rebalance.previous_generation, rebalance.generation
    if before is None or now is None or now <= before + 1:
        return one
    # What happened so soon before its removal has not begun the session that ended then.
    since, gone = ended - one.since + _LATE_MS, ended - max(one.removed[0], 0) - one.session // 2
    formed, failed = (
        max((at for at in times if since < at <= gone), default=-1)
        for times in (samples.formed, samples.failed)
    )
    last = max(formed, failed)
    if last <= ended - one.alive:
        return one
    # A generation awaits no more members; a join phase that has just begun waits for them.
    undue = formed > failed or gone + one.session // 2 - failed < one.rebalance - _LATE_MS
    return replace(one, failed=ended - last, undue=undue)
