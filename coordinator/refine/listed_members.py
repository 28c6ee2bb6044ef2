"""When a member departed from a join phase, by the member lists of probe samples.

The coordinator lists a member that left no longer at once, and a dead member until its session has ended. So
the last list with a member and the first without it bound its departure, whatever began the join phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.findings.finding import join_end

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.refine.history import LookBack


class Listed(NamedTuple):
    """A member departed at `least` (ms) or later, and at `most` or before."""

    least: int
    most: int


def departure_of(samples: LookBack, rebalance: Finding, member_id: str, since: int) -> Listed | None:
    """Return when a member that `rebalance` dropped departed, with the bounds that samples put on its start.

    `since`: when (ms) the record before it was written. None where no sample lists the members of this join
    phase, or it is not remembered and some listed members are forgotten.
    """
    low = since if rebalance.started_at_min is None else rebalance.started_at_min
    ended = join_end(rebalance)
    last = samples.listed.get(member_id, -1)
    lists = [at for at in samples.lists if low < at <= ended]
    if not lists or last > ended or (last < 0 and samples.forgotten > low):
        return None
    gone = next((at for at in lists if at > last), ended)
    return Listed(max(last, low), min(samples.end(gone), ended))
