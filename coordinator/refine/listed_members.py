"""When a member departed from a join phase, by the member lists of probe samples.

The coordinator lists a member that left no longer at once, and a dead member until its session has ended. So
the last list with a member and the first without it bound its departure, whatever began the join phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rebalance_monitor.coordinator.departure.evidence import NOT_BACK, SAME_PLACE
from rebalance_monitor.coordinator.findings.finding import join_end

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.departure.evidence import Departed
    from rebalance_monitor.coordinator.findings.finding import Finding, MemberEntry
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


def with_successor(
    one: Departed, member: MemberEntry, rebalance: Finding, ended: int, samples: LookBack
) -> Departed:
    """Return a departed `member`, with whether a newcomer that no record has took its place.

    Such a one had joined a generation that failed, and was gone when the next record was written. The
    coordinator puts the client id before the rest of a member id.
    """
    before, now = rebalance.previous_generation, rebalance.generation
    if one.returned != NOT_BACK or before is None or now is None or now <= before + 1:
        return one
    known = {entry.member_id for entry in rebalance.members}
    ids = [entry.client_id for entry in rebalance.members]
    came = (
        name for name, at in samples.listed.items() if ended - one.since < at <= ended and name not in known
    )
    if ids.count(member.client_id) == 1 and any(name.startswith(f"{member.client_id}-") for name in came):
        return replace(one, returned=SAME_PLACE)
    return one
